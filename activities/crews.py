"""Crews as data: one TOML file each, checked as a whole when a worker starts."""

import re
import tomllib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Final, get_args

from pydantic import Field, StringConstraints, ValidationError

from chargehand.contracts import Capability, Effort, Obligation, PolicyMode, Tier, ToolRule, TypedByPeople, Watched
from chargehand.contracts.base import Name
from chargehand.contracts.request import Words
from chargehand.converter import describe_problems, join_problems

_LARGEST_FILE_BYTES: Final = 256 * 1024
_RESERVED: Final = "supervisor"
_KEY: Final = r"""(?:[A-Za-z0-9_-]++|"[^"\n]*"|'[^'\n]*')"""
# tomllib takes a minute for a dotted key of 100 KB. Possessive, so that the search itself takes no time.
_ENDLESS_KEY: Final = re.compile(rf"(?<![A-Za-z0-9_-])(?:{_KEY}[ \t]*+\.[ \t]*+){{20}}{_KEY}")

Prose = Annotated[str, StringConstraints(strip_whitespace=True, min_length=10, max_length=8_000)]


class Agent(TypedByPeople):
    """A specialist: one prompt, its own tools, a model tier."""

    name: Name
    description: Annotated[str, StringConstraints(strip_whitespace=True, min_length=10, max_length=500)]
    """What it is good for, for whoever plans."""
    prompt: Prose
    """How it works and what a good answer is."""
    tools: tuple[Name, ...] = ()
    """Tools that only this agent of the crew has."""
    capabilities: tuple[Capability, ...] = ()
    """What its tools may let it do. Which of it they do depends on what stands behind them; never all three at once."""
    approve: tuple[Name, ...] = ()
    """Those of its tools of which a person approves each call, beside those that always need it."""
    policy: Annotated[tuple[ToolRule, ...], Field(max_length=100)] = ()
    """Rules for its tools. If there are any, calls of tools without a rule are denied."""
    tier: Tier = Tier.MEDIUM
    effort: Effort | None = None
    """How hard it thinks, on models that can be told; the crew's effort if absent."""
    reviews: bool = False
    """Whether it checks what it is given, and answers with issues: severity, place, what is wrong, what would mend it.
    """
    length_words: Words = 600
    """The most words of its answer, unless the request asks for another length."""
    fallback: Name | None = None
    """Agent that is tried when this one has failed."""


class Crew(TypedByPeople):
    """A supervisor's guidance and its agents."""

    name: Name
    description: Annotated[str, StringConstraints(strip_whitespace=True, min_length=10, max_length=500)]
    guidance: Prose
    """How to plan with these agents."""
    tier: Tier = Tier.MEDIUM
    """Model tier of the supervisor's own turns."""
    effort: Effort | None = None
    """Replaces the usual effort: high for plans and reports, medium for the agents. Small decisions stay at low."""
    policy_mode: PolicyMode = "enforce"
    """`report` allows calls that are against the agents' policies, and records them in the trace."""
    agents: Annotated[tuple[Agent, ...], Field(min_length=1, max_length=20)]

    def agent(self, name: str) -> Agent | None:
        """Find an agent by its name."""
        return next((agent for agent in self.agents if agent.name == name), None)


Tools = Mapping[str, Collection[Capability]]
"""The tools that there are, with what each lets an agent do."""


class CrewError(ValueError):
    """A crew file cannot be used; the message names the file, the field and the remedy."""

    def __init__(self, file: Path, problems: Iterable[str]) -> None:
        super().__init__(f"{file}: {join_problems(problems)}")


def load_crews(folders: Iterable[Path], tools: Tools, absent: Collection[str] = ()) -> dict[str, Crew]:
    """Read every `*.toml` of the folders, later folders replacing crews of the same name.

    Args:
        folders: where crew files are.
        tools: the tools that there are.
        absent: tools that agents name and do not get in this installation.

    Raises:
        CrewError: a folder or a file is missing or wrong.
    """
    crews: dict[str, Crew] = {}
    for folder in folders:
        if not folder.is_dir():
            raise CrewError(folder, ["there is no such folder; point CHARGEHAND_CREWS at a folder of crew files"])
        crews |= {crew.name: crew for crew in (_load(file, tools, absent) for file in sorted(folder.glob("*.toml")))}
    return crews


def _load(file: Path, tools: Tools, absent: Collection[str]) -> Crew:
    try:
        crew = _without(Crew.model_validate(_tables(file)), absent)
    except OSError as error:
        raise CrewError(file, [f"cannot be read: {error.strerror or error}"]) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CrewError(file, [f"is not TOML: {error}"]) from error
    except RecursionError as error:
        raise CrewError(file, ["is nested too deeply"]) from error
    except ValidationError as error:
        raise CrewError(file, describe_problems(error, Crew)) from error
    problems = _problems(crew, tools)
    if problems:
        raise CrewError(file, problems)
    return crew


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
    return crew.model_copy(update={"agents": agents})


def capabilities_of(agent: Agent, tools: Tools) -> frozenset[Capability]:
    """Name what an agent's tools let it do, as they are set up here."""
    return frozenset(capability for tool in agent.tools for capability in tools.get(tool, ()))


def obligations_of(crew: Crew, agent: Agent) -> tuple[Obligation, ...]:
    """List what an agent's policy demands of each of its tools; nothing if it has no policy."""
    if not agent.policy:
        return ()
    ruled = {rule.tool for rule in agent.policy}
    rules = [(rule.tool, rule) for rule in agent.policy] + [(tool, None) for tool in agent.tools if tool not in ruled]
    return tuple(
        Obligation(key=f"{crew.name}/{agent.name}/{number}", tool=tool, rule=rule, mode=crew.policy_mode)
        for number, (tool, rule) in enumerate(rules, start=1)
    )


def watched_of(crew: Crew, agent: Agent) -> tuple[Watched, ...]:
    """List those of an agent's tools whose success a rule of the crew waits for."""
    waiting = [rule for each in crew.agents for rule in each.policy if rule.after in agent.tools]
    return tuple(dict.fromkeys(Watched(tool=rule.after or "", same=rule.same) for rule in waiting))


def _tables(file: Path) -> Mapping[str, object]:
    with file.open("rb") as opened:
        data = opened.read(_LARGEST_FILE_BYTES + 1)
    if len(data) > _LARGEST_FILE_BYTES:
        raise CrewError(file, [f"is larger than {_LARGEST_FILE_BYTES // 1024} KiB; a crew is a page of text"])
    text = data.decode()
    if _ENDLESS_KEY.search(text):
        raise CrewError(file, ["has a key of more than 20 parts; a crew has no tables that deep"])
    tables: dict[str, object] = tomllib.loads(text)
    return tables


def _problems(crew: Crew, tools: Tools) -> list[str]:
    names = Counter(agent.name for agent in crew.agents)
    owners = Counter(tool for agent in crew.agents for tool in agent.tools)
    problems = [f"agents: the name '{name}' occurs {count} times" for name, count in names.items() if count > 1]
    problems += [
        f"agents: the tool '{tool}' belongs to {count} agents; give it to one"
        for tool, count in owners.items()
        if count > 1
    ]
    for agent in crew.agents:
        where = f"agents.{agent.name}"
        if agent.name == _RESERVED:
            problems.append(f"{where}: the name '{_RESERVED}' stands for nested sessions; choose another")
        problems += [
            f"{where}.tools: there is no tool '{tool}'; there are {', '.join(sorted(tools))}"
            for tool in agent.tools
            if tool not in tools
        ]
        has = capabilities_of(agent, tools)
        problems += [
            f"{where}.capabilities: its tools let it do '{undeclared}'; declare that, or take the tool away"
            for undeclared in sorted(has.difference(agent.capabilities))
        ]
        if len(has) == len(get_args(Capability)):
            problems.append(
                f"{where}.tools: together they read what strangers write, read what is private and reach out, so that "
                "a stranger's text could have private text sent away; split them between two agents"
            )
        problems += _rule_problems(agent, owners)
        if agent.fallback is not None and (agent.fallback not in names or agent.fallback == agent.name):
            problems.append(f"{where}.fallback: '{agent.fallback}' is not another agent of this crew")
    return problems


def _rule_problems(agent: Agent, tools: Collection[str]) -> list[str]:
    where = f"agents.{agent.name}"
    problems = [
        f"{where}.{field}: '{tool}' is not one of its tools; they are {', '.join(agent.tools) or 'none'}"
        for field, named in (("approve", agent.approve), ("policy", [rule.tool for rule in agent.policy]))
        for tool in named
        if tool not in agent.tools
    ]
    problems += [
        f"{where}.policy: no agent of this crew has the tool '{rule.after}' after which {rule.tool} is allowed"
        for rule in agent.policy
        if rule.after is not None and rule.after not in tools
    ]
    problems += [
        f"{where}.policy: 'same' compares {rule.tool} with the tool of 'after'; add that, or leave 'same' out"
        for rule in agent.policy
        if rule.same is not None and rule.after is None
    ]
    return problems
