"""Read crew files: one TOML file each, checked as a whole when a worker starts."""

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
    """A crew file cannot be used; the message names the file, the field and the remedy."""

    def __init__(self, file: Path, problems: Iterable[str]) -> None:
        super().__init__(f"{file}: {join_problems(problems)}")


def load_crews(
    folders: Iterable[Path], tools: Tools, absent: Collection[str] = (), acting: Collection[str] = ()
) -> dict[str, Crew]:
    """Read every `*.toml` of the folders, later folders replacing crews of the same name.

    `absent` are tools that agents name and do not get in this installation, `acting` those that change something.

    Raises:
        CrewError: a folder or a file is missing or wrong.
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
    """Read one crew file; whether there is its `nested` crew is for `load_crews` to check.

    Raises:
        CrewError: it is missing or wrong.
    """
    crew = _without(_parse(file), absent)
    problems = crew_problems(crew, tools, acting)
    if problems:
        raise CrewError(file, problems)
    return crew


def mcp_declarations(folders: Iterable[Path]) -> dict[str, tuple[McpDeclaration, ...]]:
    """Read the MCP servers that the crews of the folders declare, by the name of the crew.

    Raises:
        CrewError: a file is wrong.
    """
    crews = (_parse(file) for folder in folders for file in sorted(folder.glob("*.toml")))
    return {crew.name: crew.mcp for crew in crews}


def slow_queues(folders: Iterable[Path]) -> list[str]:
    """List the task queues by which agents of these crews are found to be slow.

    Raises:
        CrewError: a file is wrong.
    """
    crews = (_parse(file) for folder in folders for file in sorted(folder.glob("*.toml")))
    return [each.slow.queue for crew in crews for each in crew.agents if each.slow and each.slow.queue]


def _parse(file: Path) -> Crew:
    try:
        return Crew.model_validate(read_toml(file, _LARGEST_FILE_BYTES))
    except UnusableToml as error:
        raise CrewError(file, [str(error)]) from error
    except ValidationError as error:
        raise CrewError(file, describe_problems(error, Crew)) from error


class CheckedCrew(Contract):
    """What became of checking a crew."""

    file: str
    problem: str = ""
    """Every reason why it cannot be used; empty if it can."""
    warnings: tuple[str, ...] = ()
    crew: Crew | None = None
    """As agents get it here: without tools that are absent."""


def check_crews(
    folders: Sequence[Path], file: Path | None, tools: Tools, absent: Collection[str], acting: Collection[str]
) -> Iterator[CheckedCrew]:
    """Check a file, or all files of the folders, and say of each what is wrong."""
    files = [file] if file else [found for folder in folders for found in sorted(folder.glob("*.toml"))]
    others = {found.stem for folder in folders for found in folder.glob("*.toml")}
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
        agent.model_copy(
            update={
                "tools": tuple(tool for tool in agent.tools if tool not in absent),
                "approve": tuple(tool for tool in agent.approve if tool not in absent),
                "policy": tuple(rule for rule in agent.policy if rule.tool not in absent),
            }
        )
        for agent in crew.agents
    )
    custom = crew.custom
    if custom is not None:
        kept = tuple(tool for tool in custom.tools if tool not in absent)
        custom = custom.model_copy(update={"tools": kept}) if kept else None
    return crew.model_copy(update={"agents": agents, "custom": custom})
