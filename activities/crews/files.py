"""Read crew files: one TOML file each, validated when a worker starts."""

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from activities.contracts.crew import Crew
from activities.contracts.mcp_declaration import McpDeclaration
from activities.crews.checks import Tools, crew_problems, crew_warnings, nesting_problems, nesting_warnings
from activities.toml_file import UnusableToml, read_toml
from chargehand.contracts import Contract
from chargehand.contracts.problems import describe_problems, join_problems

_logger = logging.getLogger("chargehand.crews")
_LARGEST_FILE_BYTES: Final = 256 * 1024


class CrewError(ValueError):
    """A crew file is unusable; the message names the file, the field and the remedy."""

    def __init__(self, file: Path, problems: Iterable[str]) -> None:
        super().__init__(f"{file}: {join_problems(problems)}")


def load_crews(
    folders: Iterable[Path], tools: Tools, absent: Collection[str] = (), acting: Collection[str] = ()
) -> dict[str, Crew]:
    """Read every `*.toml` of the folders, later folders replacing crews of the same name. Raises `CrewError`.

    `absent` are tools that agents name but do not get in this installation, `acting` those with side effects.
    """
    crews: dict[str, Crew] = {}
    files: dict[str, Path] = {}
    for folder in folders:
        if not folder.is_dir():
            raise CrewError(folder, ["there is no such folder; point CHARGEHAND_CREWS at a folder of crew files"])
        for file in sorted(folder.glob("*.toml")):
            crew = load_crew(file, tools, absent, acting)
            crews[crew.name], files[crew.name] = crew, file
    for crew in crews.values():
        if problems := nesting_problems(crew, crews):
            raise CrewError(files[crew.name], problems)
        for warning in (*crew_warnings(crew), *nesting_warnings(crew, crews, tools, acting)):
            _logger.warning("crew %s: %s", crew.name, warning)
    return crews


def load_crew(file: Path, tools: Tools, absent: Collection[str] = (), acting: Collection[str] = ()) -> Crew:
    """Read one crew file; `load_crews` checks that its `nested` crew exists. Raises `CrewError`."""
    crew = _without(_parse(file), absent)
    if problems := crew_problems(crew, tools, acting):
        raise CrewError(file, problems)
    return crew


def mcp_declarations(folders: Iterable[Path]) -> dict[str, tuple[McpDeclaration, ...]]:
    """Read the MCP servers declared by crews, by crew name. Raises `CrewError`."""
    return {crew.name: crew.mcp for crew in map(_parse, _crew_files(folders))}


def slow_queues(folders: Iterable[Path]) -> list[str]:
    """List the task queues that these crews watch for slow agents. Raises `CrewError`."""
    agents = (agent for file in _crew_files(folders) for agent in _parse(file).agents)
    return [agent.slow.queue for agent in agents if agent.slow and agent.slow.queue]


def _crew_files(folders: Iterable[Path]) -> list[Path]:
    return [file for folder in folders for file in sorted(folder.glob("*.toml"))]


def _parse(file: Path) -> Crew:
    try:
        return Crew.model_validate(read_toml(file, _LARGEST_FILE_BYTES))
    except UnusableToml as error:
        raise CrewError(file, [str(error)]) from error
    except ValidationError as error:
        raise CrewError(file, describe_problems(error, Crew)) from error


class CheckedCrew(Contract):
    """The result of checking a crew."""

    file: str
    problem: str = ""
    """All reasons why it is unusable; empty if it is usable."""
    warnings: tuple[str, ...] = ()
    crew: Crew | None = None
    """The crew without absent tools."""


def check_crews(
    folders: Sequence[Path], file: Path | None, tools: Tools, absent: Collection[str], acting: Collection[str]
) -> Iterator[CheckedCrew]:
    """Check a file, or all files of the folders, and report the problems of each."""
    files = [file] if file else _crew_files(folders)
    others = {found.stem for found in _crew_files(folders)}
    for each in files:
        try:
            crew = load_crew(each, tools, absent, acting)
        except CrewError as error:
            yield CheckedCrew(file=str(each), problem=str(error).removeprefix(f"{each}: "))
            continue
        problem = join_problems(nesting_problems(crew, others | {crew.name}))
        yield CheckedCrew(file=str(each), problem=problem, warnings=tuple(crew_warnings(crew)), crew=crew)


def _without(crew: Crew, absent: Collection[str]) -> Crew:
    agents = tuple(
        agent.replace(
            tools=tuple(tool for tool in agent.tools if tool not in absent),
            approve=tuple(tool for tool in agent.approve if tool not in absent),
            policy=tuple(rule for rule in agent.policy if rule.tool not in absent),
        )
        for agent in crew.agents
    )
    custom = crew.custom
    if custom is not None:
        kept = tuple(tool for tool in custom.tools if tool not in absent)
        custom = custom.replace(tools=kept) if kept else None
    return crew.replace(agents=agents, custom=custom)
