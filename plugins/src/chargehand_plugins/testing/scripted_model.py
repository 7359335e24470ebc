"""A model that replies from a script, and explains what to write if the script does not fit the session."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from pydantic import JsonValue

from activities.contracts.rounds import ToolCall
from activities.models.protocol import ModelCall, ModelReply
from activities.turn.activity import interpret
from activities.turn_kinds.plan import DesignTask
from activities.turn_kinds.registry import TASK_TYPES, Task
from activities.turn_kinds.work import ConverseTask, WorkTask
from chargehand.contracts import Usage
from chargehand_plugins.empty_fields import schema_of, with_empty_fields
from chargehand_plugins.testing.scripts import Asked, Reply, Script

PROVIDER: Final = "scripted"
_COST: Final = Usage(turns=1, input_tokens=100, output_tokens=50, cost_usd=Decimal("0.01"))
_TO_WRITE: Final = {
    "plan": ".plan(subtask('T1', '<agent>', '<instruction>'))",
    "converse": ".converse('<words of the message>', answer('<text>'))",
    "work": ".work('<words of the instruction>', answer('<text>'))",
    "output": ".output(<data>)",
}
"""Script methods by kind of turn."""
_NEEDS: Final = {
    "data": "data is for agents with an `output` schema",
    "issues": "issues are for agents with `reviews = true`",
}


@dataclass
class ScriptedModel:
    script: Script
    asked: list[Asked] = field(default_factory=list[Asked])
    problem: str = ""
    """Why the script has no usable reply to a turn, and what to write."""
    _given: Counter[tuple[int, str, str]] = field(default_factory=Counter[tuple[int, str, str]])
    _last: dict[tuple[str, str, str], Reply] = field(default_factory=dict[tuple[str, str, str], Reply])

    def __post_init__(self) -> None:
        for line in self.script.lines:
            if line.kind not in TASK_TYPES:
                raise ValueError(f"there is no turn '{line.kind}'; a script replies to {', '.join(TASK_TYPES)}")

    @property
    def unused(self) -> tuple[str, ...]:
        matched = {number for number, _, _ in self._given}
        return tuple(str(line) for number, line in enumerate(self.script.lines) if number not in matched)

    async def complete(self, call: ModelCall) -> ModelReply:
        turn = _asked_of(call)
        self.asked.append(turn)
        reply = self.script.reply(turn, self._given)
        sent = self._reply_to(call, reply or Reply())
        problem = _problem(call, reply, sent)
        key = (turn.kind, turn.agent, turn.instruction)
        refused = _refusal(call.task)
        if reply and not problem and not reply.text and refused and self._last.get(key) == reply:
            problem = (
                f"is refused ({refused}) and repeated; write one that is valid, or a further one for the next turn"
            )
        if reply:
            self._last[key] = reply
        if problem and not self.problem:
            self.problem = f"the script's reply to a turn '{turn.kind}' of '{turn.agent}' {problem}: {_to_write(call)}"
        return sent

    def _reply_to(self, call: ModelCall, reply: Reply) -> ModelReply:
        common = ModelReply(stop="answer", model=PROVIDER, provider=PROVIDER, usage=_COST)
        if reply.text:
            return common.model_copy(update={"text": reply.text})
        if reply.tools:
            calls = tuple(
                ToolCall(id=f"call-{len(self.asked)}.{position}", tool=use.tool, arguments=dict(use.arguments))
                for position, use in enumerate(reply.tools, start=1)
            )
            return common.model_copy(update={"stop": "tools", "tool_calls": calls})
        filled = with_empty_fields(dict(reply.fields), schema_of(call.answer_type))
        return common.model_copy(update={"text": json.dumps(filled)})


def _asked_of(call: ModelCall) -> Asked:
    task = call.task.latest() if isinstance(call.task, ConverseTask) else call.task
    instruction = getattr(task, "instruction", "") or getattr(task, "goal", "")
    texts = (text for message in call.messages for text in (message.text, *(each.text for each in message.results)))
    return Asked(call.task.kind, call.agent, instruction, "\n\n".join(filter(None, [call.system, *texts])))


def _problem(call: ModelCall, reply: Reply | None, sent: ModelReply) -> str:
    """Explain why a reply does not fit its turn; empty if it fits or is not meant to."""
    if reply is None:
        return "is missing; write"
    if reply.text:
        return ""
    if reply.tools:
        tools = [tool.name for tool in call.tools]
        unknown = [use.tool for use in reply.tools if use.tool not in tools]
        return f"uses '{unknown[0]}', and its tools are {', '.join(tools) or 'none'}; write" if unknown else ""
    known = [*schema_of(call.answer_type)["properties"], *(["data"] if call.data_schema else [])]
    if unknown := sorted(reply.fields.keys() - known):
        need = f" ({_NEEDS[unknown[0]]})" if unknown[0] in _NEEDS else ""
        return f"has '{unknown[0]}'{need}, and its fields are {', '.join(known)}; write"
    wrong = interpret(sent, call.answer_type).problem
    return f"is not valid ({wrong}); write" if wrong else ""


def _refusal(task: Task) -> str:
    """Return why the previous reply was refused; empty if it was not."""
    match task:
        case WorkTask(rounds=[*_, last]):
            return last.correction
        case DesignTask(problems=problems):
            return "; ".join(problems)
        case _:
            rejected: Sequence[Any] = getattr(task, "rejected", ())
            errors = rejected[-1].errors if rejected else ()
            return errors if isinstance(errors, str) else "; ".join(errors)


def _to_write(call: ModelCall) -> str:
    """Show an example of a reply to a turn."""
    if call.task.kind == "work" and call.data_schema:
        return f".work('<words of the instruction>', answer('<text>', data=<valid by {json.dumps(call.data_schema)}>))"
    schema = schema_of(call.answer_type)
    lists: dict[str, JsonValue] = {name: [{}] for name, each in schema["properties"].items() if "$ref" in str(each)}
    return _TO_WRITE.get(call.task.kind, f".on({call.task.kind!r}, Reply({with_empty_fields(lists, schema)}))")
