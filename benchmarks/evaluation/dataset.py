"""Datasets: requests and what a good session does with them, one YAML file each.

docs/how-to/evaluating.md describes the format, including how to add a folder of your own.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

import yaml
from pydantic import Field, ValidationError

from benchmarks.evaluation.answers.verdict import GoldenAnswer
from chargehand.contracts import SessionRequest, TypedByPeople
from chargehand.contracts.base import Form
from chargehand.contracts.limits import Profile
from chargehand.contracts.problems import describe_problems, join_problems

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = Path(__file__).resolve().parent / "datasets"

DESKS: Final = ("bookshop", "sleeper")
"""Conversations with customers, in `desks/`."""
_ELSEWHERE: Final = {
    "fanoutqa": "Take fanoutqa/data/fanout-final-dev.json of https://github.com/zhudotexe/fanoutqa: --fanoutqa FILE.",
    "review-comments": "Take offline/golden_comments of https://github.com/withmartian/code-review-benchmark: "
    "--review-comments FOLDER.",
    "tau2": "Take a checkout of https://github.com/sierra-research/tau2-bench: --tau2 FOLDER.",
}
"""Location of data that is not part of this repository."""

Backend = Literal["tape", "oracle", "configured"]
"""What answers: each case's tape, an oracle that knows its gold plan, or the models in the machine's settings."""
_Id = Annotated[str, Form(r"^[A-Za-z0-9_.-]{1,80}$", "must be of at most 80 letters, digits, _ . or -")]


class GoldSubtask(TypedByPeople):
    """A subtask of a good plan."""

    id: _Id
    instruction: str
    agent: str
    depends_on: tuple[str, ...] = ()
    for_each: str = ""
    """Id of the subtask that returns a list; this one runs once per item."""
    answer: str = ""
    """The result that the oracle returns."""


class Case(TypedByPeople):
    """A request, and what is known of a good session. Omitted fields are not judged."""

    id: _Id
    goal: str
    documents: str | None = None
    """A file or folder, next to the dataset or in this repository."""
    tape: str | None = None
    """A file, next to the dataset or in this repository."""
    documents_on_tape: bool = False
    """Whether a tape's session also gets the documents: not only its crew's models and tools read them."""
    crew: str = "research"
    profile: Profile | None = None
    plan: tuple[GoldSubtask, ...] = ()
    """A good plan."""
    agents: tuple[str, ...] = ()
    """The agents of a good plan, each repeated as often as it is used."""
    answer: GoldenAnswer | None = None
    """The golden answer, which decides whether the case passes; without one, its agents decide."""
    whole: bool = False
    """Whether an answer that lists items other than the golden ones is wrong."""
    wrong: tuple[str, ...] = ()
    """Words that a right answer does not contain."""
    has_gap: bool | None = None
    """Whether the report must name something that is missing."""

    @property
    def is_golden(self) -> bool:
        """Whether the answer decides if the case passes."""
        return self.answer is not None or bool(self.wrong)

    def request(self, documents: tuple[str, ...] = ()) -> SessionRequest:
        """Build the request."""
        return SessionRequest(goal=self.goal, crew=self.crew, profile=self.profile, documents=documents)


class Dataset(TypedByPeople):
    """Cases of one kind."""

    name: str
    about: str
    """What is evaluated and where the cases come from, with their licence."""
    offline: Backend
    """What answers when there is no key."""
    cases: Annotated[tuple[Case, ...], Field(min_length=1)]


class NoDataset(ValueError):  # noqa: N818  # reads as a statement
    """A file is not a dataset, or no dataset has this name."""


def read_dataset(file: Path) -> Dataset:
    """Read a YAML file.

    Raises:
        NoDataset: it is not YAML of this form; the message names the field.
    """
    try:
        dataset = Dataset.model_validate(yaml.safe_load(file.read_text(encoding="utf-8")))
    except ValidationError as error:
        raise NoDataset(f"{file}: {join_problems(describe_problems(error, Dataset))}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise NoDataset(f"{file}: {error}") from error
    return dataset.model_copy(update={"cases": tuple(_located(case, file.parent) for case in dataset.cases)})


def _located(case: Case, folder: Path) -> Case:
    """Find the files of a case, before any of the run is paid for."""
    found: dict[str, str] = {}
    for name in ("documents", "tape"):
        if (path := getattr(case, name)) is not None:
            there = next((each for each in (folder / path, ROOT / path) if each.exists()), None)
            if there is None:
                raise NoDataset(f"{case.id}.{name}: there is no file or folder {folder / path}.")
            found[name] = str(there)
    return case.model_copy(update=found)


def read_datasets(names: Iterable[str]) -> Mapping[str, Dataset]:
    """Read the named datasets, files or folders; by default, all of `datasets/`.

    Raises:
        NoDataset: there is no dataset, file or folder of this name, or it has the wrong format.
    """
    files: list[Path] = []
    for name in names or [str(FOLDER)]:
        path = FOLDER / f"{name}.yaml" if (FOLDER / f"{name}.yaml").exists() else Path(name)
        own = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
        if not own or not own[0].exists():
            known = ", ".join([*(each.stem for each in sorted(FOLDER.glob("*.yaml"))), *DESKS])
            raise NoDataset(
                _ELSEWHERE.get(name) or f"'{name}' is neither a dataset ({known}) nor a file or folder of YAML files."
            )
        files += own
    datasets = [read_dataset(file) for file in files]
    return {dataset.name: dataset for dataset in datasets}
