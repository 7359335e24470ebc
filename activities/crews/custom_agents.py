"""Agents that a model has described: from the tools that the crew allows, or not at all."""

from collections.abc import Sequence

from pydantic import ValidationError

from activities.contracts.cards import AgentDraft
from activities.contracts.crew import Agent, Crew
from activities.crews.checks import Tools, crew_problems
from activities.json_schema import MOST_PROBLEMS
from chargehand.converter import describe_problems, printable


def custom_agents(crew: Crew, drafts: Sequence[AgentDraft], tools: Tools) -> tuple[list[Agent], list[str]]:
    """Check the agents that a model has described for a crew.

    Returns:
        The agents, and every reason against them; they may be used only if there is none.
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
            agents.append(_agent(draft, able))
        except ValidationError as error:
            problems += [f"{where}.{problem}" for problem in describe_problems(error, Agent)]
    if not problems:
        # What the crew's own agents are was checked when it was loaded.
        problems = crew_problems(crew.model_copy(update={"agents": (*crew.agents, *agents)}), tools)
    return agents, problems[:MOST_PROBLEMS]


def _agent(draft: AgentDraft, able: Sequence[str]) -> Agent:
    return Agent.model_validate({**draft.model_dump(), "tier": draft.tier or "medium", "capabilities": able})
