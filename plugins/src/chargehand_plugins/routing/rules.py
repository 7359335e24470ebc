"""Routing by rule: the agents for a request, and the resulting plan. Pure."""

from collections.abc import Sequence
from typing import Final

from activities.contracts.crew import RouteRule, Routing
from activities.turn_kinds.plan import RouteDraft
from chargehand.contracts import Plan, Strategy, Subtask
from chargehand.contracts.plan import LONGEST_INSTRUCTION

_ANSWER: Final = "Answer the user's request."


def matches(pattern: str, text: str) -> bool:
    """Return whether a pattern matches a whole text, ignoring case; `*` is any text. Linear in the text."""
    return _fits(pattern, text.casefold())


def _fits(pattern: str, text: str) -> bool:
    first, *others = pattern.casefold().split("*")
    if not others:
        return text == first
    *middle, last = others
    if not text.startswith(first):
        return False
    position = len(first)
    for part in middle:
        start = text.find(part, position)
        if start < 0:
            return False
        position = start + len(part)
    return len(text) - len(last) >= position and text.endswith(last)


def rule_for(routing: Routing, goal: str) -> tuple[RouteRule, str] | None:
    text = " ".join(goal.split()).casefold()  # once, since a crew may have 2,500 patterns and a goal 20,000 characters
    return next(((rule, pattern) for rule in routing.rules for pattern in rule.match if _fits(pattern, text)), None)


def plan_by_rule(rule: RouteRule, goal: str, strategy: Strategy | None) -> Plan:
    """Build a plan with a rule's agents in parallel, followed by its last agent with their outcomes."""
    task = _instruction(rule.instruction or _ANSWER, goal)
    side_by_side = tuple(
        Subtask(id=f"T{number}", agent=agent, instruction=task) for number, agent in enumerate(rule.agents, start=1)
    )
    if rule.then is None:
        return _plan(side_by_side, strategy)
    needed = tuple(subtask.id for subtask in side_by_side)
    last = Subtask(id=f"T{len(needed) + 1}", agent=rule.then, instruction=task, depends_on=needed)
    return _plan((*side_by_side, last), strategy or "deliver")


def plan_for_agent(agent: str, goal: str, strategy: Strategy | None) -> Plan:
    return _plan((Subtask(id="T1", agent=agent, instruction=_instruction(_ANSWER, goal)),), strategy)


def plan_by_model(routes: Sequence[RouteDraft], strategy: Strategy | None) -> Plan:
    """Build a plan with the agents of a model's routes in sequence."""
    subtasks = tuple(
        Subtask(
            id=f"T{number}",
            agent=route.agent,
            instruction=route.instruction,
            depends_on=(f"T{number - 1}",) if number > 1 else (),
        )
        for number, route in enumerate(routes, start=1)
    )
    return _plan(subtasks, strategy)


def _plan(subtasks: tuple[Subtask, ...], strategy: Strategy | None) -> Plan:
    strategy = strategy or "merge"
    return Plan(subtasks=subtasks, strategy=strategy, deliver=subtasks[-1].id if strategy == "deliver" else None)


def _instruction(words: str, goal: str) -> str:
    """Include the request for agents that do not see it, if there is room."""
    return f"{words}\n\nThe request: {goal}"[:LONGEST_INSTRUCTION]
