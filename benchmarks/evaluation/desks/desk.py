"""A desk: a policy, tools that read and change a database, and customer tasks with the actions of a good agent."""

import pickle
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from inspect import getmembers, isfunction
from pathlib import Path
from typing import Any, Final, Protocol

import yaml
from pydantic import BaseModel, JsonValue, TypeAdapter, ValidationError

from benchmarks.evaluation.dataset import NoDataset
from chargehand.contracts import TypedByPeople

_FOLDER: Final = Path(__file__).resolve().parent


class Action(TypedByPeople):
    """A tool call."""

    name: str
    arguments: dict[str, JsonValue] = {}


class Task(TypedByPeople):
    """What one customer wants."""

    id: str
    says: str
    """How the conversation begins: the request, and what the customer knows."""
    knows: str = ""
    """Further instructions for a model that plays the customer."""
    actions: tuple[Action, ...] = ()
    """What a good agent does, including reads."""
    tells: tuple[str, ...] = ()
    """What the agent must tell the customer."""
    told_counts: bool = True
    """Whether a conversation that omits these fails."""


class Toolkit(Protocol):
    """An object whose methods are the tools; `db` is the data that they change."""

    db: BaseModel


@dataclass(frozen=True)
class Desk:
    """A policy, tools, a database and tasks."""

    name: str
    policy: str
    kit: Callable[[Any], Toolkit]
    """Builds the toolkit for a database."""
    tools: Mapping[str, Callable[..., object]] = field(repr=False)
    """The toolkit's methods, unbound."""
    acting: Collection[str]
    """Tools that change the database."""
    database: BaseModel = field(repr=False)
    tasks: Sequence[Task] = field(repr=False)

    def open(self) -> Toolkit:
        """Build a toolkit on a copy of the database."""
        return self.kit(pickle.loads(self._pickled))

    @cached_property
    def _pickled(self) -> bytes:
        return pickle.dumps(self.database)

    def replay(self, task: Task) -> tuple[BaseModel, list[Action]]:
        """Apply a task's actions to a copy; return the database and the actions that changed it.

        An action that the tools refuse is skipped, as the tasks' authors do.
        """
        kit = self.open()
        applied: list[Action] = []
        for action in task.actions:
            try:
                getattr(kit, action.name)(**action.arguments)
            except ValueError:
                continue
            if action.name in self.acting:
                applied.append(action)
        return kit.db, applied


def read_desk(name: str, tau2: Path | None) -> Desk:
    """Read a desk of this repository, or one of a checkout of tau2-bench.

    Raises:
        NoDataset: the desk does not exist or cannot be read.
    """
    if tau2 is not None:
        from benchmarks.evaluation.desks.checkout import read_checkout  # noqa: PLC0415  # it reads desks itself

        return read_checkout(name, tau2)
    folder = _FOLDER / name
    kit: Any = import_module(f"benchmarks.evaluation.desks.{name}.tools")
    try:
        database = kit.Database.model_validate(yaml.safe_load((folder / "database.yaml").read_text()))
        tasks = TypeAdapter(tuple[Task, ...]).validate_python(yaml.safe_load((folder / "tasks.yaml").read_text()))
    except ValidationError as error:
        raise NoDataset(f"{folder}: {error}") from error
    tools = {each: method for each, method in getmembers(kit.Tools, isfunction) if each[0] != "_"}
    return Desk(name, (folder / "policy.md").read_text(), kit.Tools, tools, kit.ACTING, database, tasks)
