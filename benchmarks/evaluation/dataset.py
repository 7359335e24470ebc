"""Datasets: requests with what a good session does with them, one YAML file each."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

import yaml
from pydantic import Field, StringConstraints

from chargehand.contracts import SessionRequest, TypedByPeople
from chargehand.contracts.limits import Profile

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = Path(__file__).resolve().parent / "datasets"

Backend = Literal["tape", "oracle", "configured"]
"""Who answers: each case's tape, an oracle that knows its gold plan, or the models of this machine's settings."""
_Id = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,80}$")]


class GoldSubtask(TypedByPeople):
    """A subtask of a good plan."""

    id: _Id
    instruction: str
    agent: str
    depends_on: tuple[str, ...] = ()
    for_each: str = ""
    """Id of the subtask for each item of whose list this one is done."""
    answer: str = ""
    """What is found, for the oracle."""


class Case(TypedByPeople):
    """A request, and what is known of a good session. What is left out is not judged."""

    id: _Id
    goal: str
    documents: str | None = None
    """A folder of this repository."""
    tape: str | None = None
    """A file of this repository."""
    documents_on_tape: bool = False
    """Whether a tape's session is given the documents, too: not only the models and tools of its crew read them."""
    crew: str = "research"
    profile: Profile | None = None
    plan: tuple[GoldSubtask, ...] = ()
    """A good plan."""
    agents: tuple[str, ...] = ()
    """The agents of a good plan, each as often as it is used."""
    answer: tuple[str, ...] = ()
    """Words that the answer contains: its facts. Each may list alternatives, separated by ` | `."""
    wrong: tuple[str, ...] = ()
    """Words that the answer does not contain."""
    has_gap: bool | None = None
    """Whether the report has to name something that is missing."""

    def request(self, documents: tuple[str, ...] = ()) -> SessionRequest:
        """Build the request."""
        return SessionRequest(goal=self.goal, crew=self.crew, profile=self.profile, documents=documents)


class Dataset(TypedByPeople):
    """Cases of one kind."""

    name: str
    about: str
    """What is evaluated, and where the cases come from, with their licence."""
    offline: Backend
    """Who answers without a key."""
    cases: Annotated[tuple[Case, ...], Field(min_length=1)]


def read_dataset(file: Path) -> Dataset:
    """Read a YAML file."""
    return Dataset.model_validate(yaml.safe_load(file.read_text(encoding="utf-8")))


def read_datasets(names: Iterable[str]) -> Mapping[str, Dataset]:
    """Read the datasets that are named; all of them if none is."""
    files = {file.stem: file for file in sorted(FOLDER.glob("*.yaml"))}
    return {name: read_dataset(files[name]) for name in names or files}
