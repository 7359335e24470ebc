"""Reading and validation of crew files."""

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final, get_args

from pydantic import ValidationError

from activities.backends import SettingsError
from activities.contracts.cards import AgentDraft
from activities.contracts.crew import Agent, Crew
from activities.contracts.mcp_declaration import McpDeclaration
from activities.json_schema import MOST_PROBLEMS, schema_problems, value_problems
from chargehand.contracts import Capability, Contract
from chargehand.contracts.problems import describe_problems, join_problems, printable
from chargehand.toml_file import UnusableToml, read_toml

_logger = logging.getLogger("chargehand.crews")


class CrewError(SettingsError):
    """A crew file is unusable; the message names the file, the field and the remedy."""

    def __init__(self, file: Path, problems: Iterable[str]) -> None:
        super().__init__(f"{file}: {join_problems(problems)}")


Tools = Mapping[str, Collection[Capability]]
"""The available tools with their capabilities."""


def load_crews(
    folders: Iterable[Path], tools: Tools, absent: Collection[str] = (), acting: Collection[str] = ()
) -> dict[str, Crew]:
    """Read every `*.toml` of the folders; later folders replace crews of the same name. Raises `CrewError`.

    `absent` are tools that agents name but do not get in this installation; `acting` are tools with side effects.
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
        return Crew.model_validate(read_toml(file))
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
    """The crew without the tools that are absent here."""


def check_crews(
    folders: Sequence[Path], file: Path | None, tools: Tools, absent: Collection[str], acting: Collection[str]
) -> Iterator[CheckedCrew]:
    """Check a file, or all files of the folders, and report the problems of each."""
    files = [file] if file else _crew_files(folders)
    others = {path.stem for path in _crew_files(folders)}
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
        remaining = tuple(tool for tool in custom.tools if tool not in absent)
        custom = custom.replace(tools=remaining) if remaining else None
    return crew.replace(agents=agents, custom=custom)


_RESERVED: Final = "supervisor"
_MANY_AGENTS: Final = 7
_MOST_AGENTS: Final = 10
_MANY_TOOLS: Final = 15
_LONGEST_DEADLINE: Final = timedelta(hours=12)
"""The server ends a session a day after the deadline known to its client."""


def capabilities_of(agent: Agent, tools: Tools) -> frozenset[Capability]:
    return frozenset(capability for tool in agent.tools for capability in tools.get(tool, ()))


def crew_problems(crew: Crew, tools: Tools, acting: Collection[str] = ()) -> list[str]:
    """List all reasons why a crew is unusable; `tools` are those outside MCP servers."""
    for server in crew.mcp:
        tools = {**tools, **dict.fromkeys(server.tool_names, server.capabilities)}
        acting = {*acting, *(name for name, tool in server.tool_names.items() if tool in server.acts)}
    return [
        *_duplicates("mcp", (server.name for server in crew.mcp)),
        *_size_problems(crew),
        *_duplicates("agents", (agent.name for agent in crew.agents)),
        *_ownership_problems(crew, acting),
        *(problem for agent in crew.agents for problem in _agent_problems(crew, agent, tools)),
        *(problem for agent in crew.agents for problem in _policy_problems(crew, agent)),
        *_route_problems(crew),
        *_limit_problems(crew),
        *_custom_problems(crew, tools, acting),
    ]


def crew_warnings(crew: Crew) -> list[str]:
    """List settings that are allowed but unwise."""
    count = len(crew.agents)
    is_planned = not any("*" in rule.match for rule in crew.routing.rules)
    warning = (
        f"agents: there are {count}; above {_MANY_AGENTS} a planner chooses less well. Merge agents that read the "
        "same, or give a part of the work to a crew of its own (`nested`)"
    )
    crowded = [agent for agent in crew.agents if len(agent.tools) > _MANY_TOOLS]
    return [
        *([warning] if count > _MANY_AGENTS and is_planned else []),
        *(
            f"agents: '{agent.name}' has {len(agent.tools)} tools; above {_MANY_TOOLS} a model chooses less well. "
            "Divide them among agents"
            for agent in crowded
        ),
    ]


def nesting_problems(crew: Crew, crews: Collection[str]) -> list[str]:
    """List the problems of a crew's nesting."""
    if crew.nested is None or crew.nested in crews:
        return []
    return [f"nested: there is no crew '{crew.nested}'; there are {', '.join(sorted(crews))}"]


def nesting_warnings(crew: Crew, crews: Mapping[str, Crew], tools: Tools, acting: Collection[str]) -> list[str]:
    """List what nested sessions lose because none of the crew's own agents may do it."""
    nested = crews.get(crew.nested) if crew.nested else None
    if nested is None:
        return []
    own = {capability for agent in crew.agents for capability in capabilities_of(agent, tools)}
    held = {tool for agent in crew.agents for tool in agent.tools}
    gains = {agent.name: sorted(capabilities_of(agent, tools) - own) for agent in nested.agents}
    withheld = {tool for agent in nested.agents for tool in agent.tools if tool in acting and tool not in held}
    return [
        *(
            f"nested: '{name}' of crew '{nested.name}' is left out, because no agent of this crew may do "
            f"'{', '.join(more)}'"
            for name, more in gains.items()
            if more
        ),
        *(
            f"nested: '{tool}' is withheld from crew '{nested.name}', because no agent of this crew has it"
            for tool in sorted(withheld)
        ),
    ]


def custom_agents(crew: Crew, drafts: Sequence[AgentDraft], tools: Tools) -> tuple[list[Agent], list[str]]:
    """Validate the agents designed by a model for a crew.

    Returns:
        The agents and all their problems; they may be used only if there are none.
    """
    agents: list[Agent] = []
    problems: list[str] = []
    allowed, most = (crew.custom.tools, crew.custom.most) if crew.custom else ((), 0)
    if len(drafts) > most:
        return [], [f"agents: there are {len(drafts)}; {most} at most"]
    for number, draft in enumerate(drafts):
        where = f"agents.{number}"
        refused = [tool for tool in draft.tools if tool not in allowed]
        if refused:
            named = printable(", ".join(refused), 100)
            problems.append(f"{where}.tools: {named} cannot be given; choose from {', '.join(allowed)}")
            continue
        able = sorted({capability for tool in draft.tools for capability in tools.get(tool, ())})
        try:
            agents.append(
                Agent.model_validate({**draft.model_dump(), "tier": draft.tier or "medium", "capabilities": able})
            )
        except ValidationError as error:
            problems += [f"{where}.{problem}" for problem in describe_problems(error, Agent)]
    if not problems:
        # The crew's own agents were checked when it was loaded.
        problems = crew_problems(crew.replace(agents=(*crew.agents, *agents)), tools)
    return agents, problems[:MOST_PROBLEMS]


def _duplicates(where: str, names: Iterable[str]) -> Iterator[str]:
    counts = Counter(names).items()
    return (f"{where}: the name '{name}' occurs {count} times" for name, count in counts if count > 1)


def _size_problems(crew: Crew) -> Iterator[str]:
    count = len(crew.agents)
    if count > _MOST_AGENTS and crew.nested is None:
        yield (
            f"agents: there are {count}; {_MOST_AGENTS} at most without nesting. Move some to a crew of their own, and "
            "name that in `nested`"
        )


def _ownership_problems(crew: Crew, acting: Collection[str]) -> Iterator[str]:
    owners = Counter(tool for agent in crew.agents for tool in set(agent.tools))
    yield from (
        f"agents: the tool '{tool}' changes something and belongs to {count} agents; give it to one"
        for tool, count in owners.items()
        if count > 1 and tool in acting
    )


def _agent_problems(crew: Crew, agent: Agent, tools: Tools) -> Iterator[str]:
    where = f"agents.{agent.name}"
    if agent.name == _RESERVED:
        yield f"{where}: the name '{_RESERVED}' stands for nested sessions; choose another"
    yield from (
        f"{where}.tools: there is no tool '{tool}'; there are {', '.join(sorted(tools))}"
        for tool in agent.tools
        if tool not in tools
    )
    yield from (
        f"{where}.tools: '{tool}' is named {count} times" for tool, count in Counter(agent.tools).items() if count > 1
    )
    has = capabilities_of(agent, tools)
    yield from (
        f"{where}.capabilities: its tools let it do '{undeclared}'; declare that, or take the tool away"
        for undeclared in sorted(has.difference(agent.capabilities))
    )
    if len(has) == len(get_args(Capability)):
        yield (
            f"{where}.tools: together they read what strangers write, read what is private and reach out, so that "
            "a stranger's text could have private text sent away; split them between two agents"
        )
    for field, schema in {"input": agent.input, "output": agent.output}.items():
        yield from schema_problems(schema, f"{where}.{field}") if schema is not None else ()
    backups = {"fallback": agent.fallback, "slow.agent": agent.slow.agent if agent.slow else None}
    for field, name in backups.items():
        if name is not None and (name == agent.name or crew.agent(name) is None):
            yield f"{where}.{field}: '{name}' is not another agent of this crew"
        elif (backup := crew.agent(name or "")) and (backup.input, backup.output) != (agent.input, agent.output):
            yield f"{where}.{field}: '{name}' has another input or output; a backup takes and gives the same data"


def _policy_problems(crew: Crew, agent: Agent) -> Iterator[str]:
    where = f"agents.{agent.name}"
    tools = {tool for each in crew.agents for tool in each.tools}
    for field, named in (("approve", agent.approve), ("policy", tuple(rule.tool for rule in agent.policy))):
        yield from (
            f"{where}.{field}: '{tool}' is not one of its tools; they are {', '.join(agent.tools) or 'none'}"
            for tool in named
            if tool not in agent.tools
        )
    for rule in agent.policy:
        if rule.after is not None and rule.after not in tools:
            yield f"{where}.policy: no agent of this crew has '{rule.after}', after which {rule.tool} may be used"
        if rule.same is not None and rule.after is None:
            yield f"{where}.policy: 'same' compares {rule.tool} with the tool of 'after'; name that too"


def _route_problems(crew: Crew) -> Iterator[str]:
    routing = crew.routing
    named = {"routing.fallback": (routing.fallback,) if routing.fallback else ()}
    for number, rule in enumerate(routing.rules):
        where = f"routing.rules.{number}"
        named |= {f"{where}.agents": rule.agents, f"{where}.then": (rule.then,) if rule.then else ()}
        if len({*rule.agents, rule.then}) < len(rule.agents) + 1:
            yield f"{where}: names an agent twice; one agent gets a request once"
    if crew.code_review is not None:
        named["code_review.checker"] = (crew.code_review.checker,)
    for field, names in named.items():
        yield from (f"{field}: there is no agent '{name}' in this crew" for name in names if crew.agent(name) is None)
        yield from (
            f"{field}: the agent '{name}' requires input, which a route does not give it; let it be planned"
            for name in names
            if (agent := crew.agent(name)) and agent.input is not None and value_problems(agent.input, {})
        )
    if routing.otherwise != "plan" and routing.fallback is None:
        yield f'routing.fallback: is required with otherwise = "{routing.otherwise}"; name the agent'


def _custom_problems(crew: Crew, tools: Tools, acting: Collection[str]) -> Iterator[str]:
    for tool in crew.custom.tools if crew.custom else ():
        if tool not in tools:
            yield f"custom.tools: there is no tool '{tool}'; there are {', '.join(sorted(tools))}"
        elif tool in acting:
            yield f"custom.tools: '{tool}' changes something; give it to an agent that people have described"


def _limit_problems(crew: Crew) -> Iterator[str]:
    if "deadline" in crew.limits.model_fields_set and crew.limits.deadline > _LONGEST_DEADLINE:
        hours = _LONGEST_DEADLINE // timedelta(hours=1)
        yield f"limits.deadline: a crew's own deadline is {hours} hours at most; longer ones are for requests"
