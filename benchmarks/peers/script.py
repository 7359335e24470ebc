"""What the scripted provider answers every framework: the same plan, search, answers and report."""

import json
import re
from typing import Final

from pydantic import JsonValue

from benchmarks.peers.programs.job import PLANNER, RESEARCHER
from benchmarks.scripted import CONTENT, REPORT, TURN, Shape, input_bytes, instruction, plan, said
from tests.scripted_provider import ScriptedReply, ScriptedRequest, Tokens, ToolUse, calling, saying

_QUESTIONS: Final[list[JsonValue]] = [instruction(number) for number in range(1, Shape().subtasks + 1)]


def respond(request: ScriptedRequest) -> ScriptedReply:
    """Answer one request after the duration of a turn, counting one token per four bytes."""
    reply = _said(request)
    written = len(reply.text) + sum(len(json.dumps(tool.arguments)) for tool in reply.tools)
    tokens = Tokens(input=input_bytes(request) // 4, output=written // 4)
    return reply.using(tokens).after(TURN.total_seconds())


def _said(request: ScriptedRequest) -> ScriptedReply:
    if request.answer == "PlanAnswer":
        return saying(plan(Shape(subtasks=_room(request.text))))
    if request.answer in {"WorkAnswer", "SynthesisAnswer"}:
        return said(request)
    if PLANNER in request.text:
        return _planned(request)
    if RESEARCHER in request.text and not request.rounds:
        return calling(ToolUse("search", {"query": "late departures"}))
    return saying(CONTENT if RESEARCHER in request.text else REPORT)


def _planned(request: ScriptedRequest) -> ScriptedReply:
    if request.rounds:
        return saying(REPORT)
    if "task" in request.tools:
        return calling(*(ToolUse("task", {"description": each, "subagent_type": "researcher"}) for each in _QUESTIONS))
    if "final_result" in request.tools:
        return calling(ToolUse("final_result", {"questions": _QUESTIONS}))
    return saying(json.dumps({"questions": _QUESTIONS}))


def _room(prompt: str) -> int:
    """Return how many two-turn agents fit into the limits that Chargehand gives its planner."""
    told = re.search(r"Limits for all subtasks together: (\d+) turns", prompt)
    return min(len(_QUESTIONS), int(told[1]) // 2) if told else len(_QUESTIONS)
