"""A whole canned session: a plan of parallel subtasks, each with one tool call and an answer, and a report."""

import re
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

from activities.turn_kinds.judgements import JudgeCallAnswer, JudgeClaimsAnswer
from activities.turn_kinds.plan import RouteAnswer
from tests.scripted_model import DEFAULTS
from tests.scripted_provider.drafts import answer, plan, report, subtask
from tests.scripted_provider.exchange import ScriptedReply, ScriptedRequest, ToolUse, calling, saying


def canned_session(
    *, subtasks: int = 5, rounds: int = 1, agents: tuple[str, ...] = (), delay: float = 0.0
) -> Callable[[ScriptedRequest], ScriptedReply]:
    """Make the script: its independent subtasks, and how often each agent uses a tool before it answers.

    The plan names these `agents` in turn, or else those with tools in the planner's prompt; every turn takes `delay`
    seconds.
    """

    def respond(request: ScriptedRequest) -> ScriptedReply:
        match request.answer:
            case "PlanAnswer":
                reply = _plan(request, subtasks, agents)
            case "SynthesisAnswer":
                reply = report(f"All {subtasks} parts were looked into.")
            case title if title in _DECISIONS:
                reply = _DECISIONS[title]
            case _ if request.tools and request.rounds < rounds:
                reply = calling(_tool_use(request))
            case _:
                reply = answer("This part was looked into.")
        return reply.after(delay)

    return respond


def _plan(request: ScriptedRequest, subtasks: int, agents: tuple[str, ...]) -> ScriptedReply:
    names = agents or _agents_with_tools(request.system) or ("researcher",)
    what = "Look into part {} of the request: give the facts, the figures and where they stand."
    numbers = range(1, subtasks + 1)
    return plan(*(subtask(f"T{each}", names[(each - 1) % len(names)], what.format(each)) for each in numbers))


def _agents_with_tools(system: str) -> tuple[str, ...]:
    _, _, listed = system.partition("Agents:\n")
    entries = re.findall(r"^- ([a-z][a-z0-9_-]*): .*?Tools: ([^\n]*)$", listed, flags=re.MULTILINE)
    return tuple(name for name, tools in entries if not tools.startswith("none"))


def _tool_use(request: ScriptedRequest) -> ToolUse:
    schemas = _parameters(request)
    # A tool that takes an address would reach for a network that tests do not have.
    fitting = [name for name in request.tools if "url" not in schemas[name].get("properties", {})]
    tool = (fitting or list(request.tools))[0]
    properties = schemas[tool].get("properties", {})
    return ToolUse(tool, {name: _example(name, schema, request) for name, schema in properties.items()})


def _parameters(request: ScriptedRequest) -> dict[str, dict[str, Any]]:
    offered: list[dict[str, Any]] = request.body["tools"]
    plain = [tool.get("function", tool) for tool in offered]
    return {tool["name"]: tool.get("input_schema") or tool.get("parameters") or {} for tool in plain}


_EXAMPLES: dict[str, object] = {"string": "ferry", "integer": 3, "number": 3, "boolean": False, "array": []}


def _example(name: str, schema: dict[str, Any], request: ScriptedRequest) -> Any:
    if name == "sql":
        return f"SELECT {request.sequence} AS number"
    if name == "code":
        return f"{request.sequence} + 1"
    if "enum" in schema:
        return schema["enum"][0]
    return _EXAMPLES.get(schema.get("type", "string"), "ferry")


_DECISIONS: dict[str, ScriptedReply] = {
    type(usual).__name__: saying(usual)
    for kind, usual in DEFAULTS.items()
    if kind not in {"work", "converse"} and isinstance(usual, BaseModel)
} | {
    "RouteAnswer": saying(RouteAnswer(routes=[], confidence=0)),
    "JudgeCallAnswer": saying(JudgeCallAnswer(is_expected=False, reason="")),
    "JudgeClaimsAnswer": saying(JudgeClaimsAnswer(verdicts=[])),
}
"""Answers for when all went well: nothing to refine, nothing missing, nothing decided, nothing wrong."""
