"""The crews of this installation, as the forms offer them; those of workers elsewhere may be others."""

import tomllib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path


@dataclass(frozen=True)
class CrewChoice:
    name: str
    description: str
    agents: tuple[str, ...]


def crew_choices(folders: Iterable[Path]) -> tuple[CrewChoice, ...]:
    """List the crews that are shipped and those of folders, which replace others of their name."""
    worker = find_spec("worker")
    shipped = [Path(worker.origin).parents[1] / "crews"] if worker and worker.origin else []
    found = {crew.name: crew for folder in (*shipped, *folders) for crew in _read(folder)}
    return tuple(sorted(found.values(), key=lambda crew: (crew.name != "research", crew.name)))


def _read(folder: Path) -> Iterator[CrewChoice]:
    """Read what can be read: the worker says what is wrong with the others."""
    for file in sorted(folder.glob("*.toml")):
        with suppress(OSError, ValueError, KeyError, TypeError):
            crew = tomllib.loads(file.read_text(encoding="utf-8"))
            agents = tuple(str(agent["name"]) for agent in crew.get("agents", ()))
            yield CrewChoice(str(crew["name"]), str(crew.get("description", "")), agents)
