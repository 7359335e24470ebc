"""Replays a tape: models and tools answer only from it."""

import json
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Final

from pydantic import JsonValue, ValidationError
from pydantic_core import to_json
from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.backends import SettingsError
from activities.contracts.rounds import ToolCall
from activities.contracts.tool import ToolAnswer, ToolContext, ToolSpec
from activities.models.failures import ProviderError, ProviderFault
from activities.models.protocol import ModelCall, ModelReply
from chargehand.contracts import Capability
from chargehand.contracts.problems import describe_problems, join_problems, printable
from chargehand.converter import non_retryable_error
from chargehand.strict_json import AmbiguousJson, refuse_ambiguous_json, refuse_excess
from chargehand.visibility import describe
from chargehand.wire import ErrorType
from chargehand_plugins.empty_fields import schema_of, with_empty_fields
from chargehand_plugins.tape.contracts import Line, TapedReply, ToolAsked, WorkerFacts, differences, identify
from chargehand_plugins.tape.format import MOST_BYTES, MOST_LINE_BYTES, MOST_LINE_VALUES, MOST_LINES, VERSION, TurnAsked
from chargehand_plugins.tape.recorder import redact

_Asked = TurnAsked | ToolAsked
_SHOWN_CHARACTERS: Final = 160
_PATIENCE: Final = timedelta(seconds=3)


class NotOnTape(Exception):  # noqa: N818  # it is raised as a statement of fact
    """A session's request is not on its tape; the message names it and the difference."""


@dataclass
class Tape:
    """The content of a tape, and what has already been replayed."""

    facts: WorkerFacts
    lines: tuple[Line, ...]
    _replayed: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    """The entry returned for each step, so that a repeated attempt gets the same one."""
    _next: defaultdict[str, int] = field(default_factory=lambda: defaultdict[str, int](int))

    def entry(self, asked: _Asked, step: str) -> Line:
        """Return the entry for a request: the first one for the first step with that request, and so on.

        Raises:
            NotOnTape: there is none.
        """
        asked = _redact(asked)
        key = _key(asked)
        entries = self._entries.get(key)
        if not entries:
            raise NotOnTape(self._describe_absence(asked))
        if (key, step) not in self._replayed:
            self._replayed[key, step] = min(self._next[key], len(entries) - 1)
            self._next[key] += 1
        return entries[self._replayed[key, step]]

    @cached_property
    def _entries(self) -> Mapping[str, list[Line]]:
        """Entries by request; failures count only if the request never succeeded."""
        by_request: defaultdict[str, list[Line]] = defaultdict(list)
        for line in self.lines:
            if request := line.turn or line.tool:
                by_request[_key(request)].append(line)
        for key, entries in by_request.items():
            by_request[key] = [line for line in entries if line.failure is None] or entries[-1:]
        return by_request

    def _describe_absence(self, asked: _Asked) -> str:
        same_kind = [other for line in self.lines if (other := line.turn or line.tool) and type(other) is type(asked)]
        nearest = min(same_kind, key=lambda other: _distance(asked, other), default=None)
        message = f"Not on the tape: {_name(asked)}."
        if nearest is None:
            return f"{message} The tape has no such entry at all."
        parts = [
            f"`{name}` is {_excerpt(value)} here and {_excerpt(taped_value)} there"
            for name, (value, taped_value) in differences(asked, nearest).items()
        ]
        return f"{message} The nearest entry differs: {'; '.join(parts)}."


def read_tape(path: Path) -> Tape:
    """Read an untrusted tape.

    Raises:
        SettingsError: it is invalid; the message names the line.
    """
    lines: list[Line] = []
    if path.exists() and not path.is_file():  # opening a named pipe would block
        raise SettingsError(f"CHARGEHAND_TAPE_REPLAY: {path} is not a regular file.")
    try:
        with path.open("rb") as opened:
            if path.stat().st_size > MOST_BYTES:
                raise SettingsError(f"CHARGEHAND_TAPE_REPLAY: {path} has more than {MOST_BYTES:,} bytes.")
            while data := opened.readline(MOST_LINE_BYTES + 1):
                if len(lines) == MOST_LINES:
                    raise SettingsError(f"CHARGEHAND_TAPE_REPLAY: {path} has more than {MOST_LINES:,} lines.")
                lines.append(_line(path, len(lines) + 1, data))
    except OSError as error:
        raise SettingsError(f"CHARGEHAND_TAPE_REPLAY: {path} cannot be read: {error.strerror}.") from error
    if not lines or lines[0].chargehand_tape != VERSION:
        raise SettingsError(
            f"CHARGEHAND_TAPE_REPLAY: {path} is not a tape of version {VERSION}: its first line must be "
            f'{{"chargehand_tape": {VERSION}}}.'
        )
    facts = [line.worker for line in lines if line.worker]
    if not facts:
        raise SettingsError(f"CHARGEHAND_TAPE_REPLAY: {path} has no line `worker`, which names models and tools.")
    return Tape(facts[-1], tuple(lines))


def _line(path: Path, number: int, data: bytes) -> Line:
    try:
        refuse_excess(data, MOST_LINE_BYTES, MOST_LINE_VALUES)
        refuse_ambiguous_json(data)
        return Line.model_validate_json(data)
    except AmbiguousJson as error:
        problem = error.problem
    except ValidationError as error:
        problem = join_problems(describe_problems(error, Line))
    raise SettingsError(f"CHARGEHAND_TAPE_REPLAY: {path}, line {number}: {problem}")


@dataclass(frozen=True)
class ReplayedModel:
    tape: Tape

    async def complete(self, call: ModelCall) -> ModelReply:
        try:
            line = self.tape.entry(identify(call), call.idempotency_key)
        except NotOnTape as absence:
            raise await _end_session(str(absence)) from None
        failure = line.failure
        if failure is not None and not isinstance(failure, str):
            raise ProviderError(failure.message, failure.fault, failure.kind, is_final=True)
        taped = line.reply or TapedReply(stop="empty", model=call.model, provider="tape")
        if taped.answer is not None:
            filled = with_empty_fields(taped.answer, schema_of(call.answer_type))
            taped = taped.model_copy(update={"answer": filled})
        return _reply(taped)


class CountingReplayedModel(ReplayedModel):
    """The same for a provider that counts prompts: it returns the count charged for the reply on the tape."""

    async def count_input(self, call: ModelCall) -> int:
        with suppress(NotOnTape):
            taped = self.tape.entry(identify(call), call.idempotency_key).reply
            if taped and taped.usage:
                return taped.usage.input_tokens
        fault = ProviderFault(provider="tape")
        raise ProviderError("The tape does not say how long this prompt is.", fault, ErrorType.PROVIDER_UNAVAILABLE)


def _reply(taped: TapedReply) -> ModelReply:
    calls = tuple(
        ToolCall(id=f"call-{number}", tool=use.tool, arguments=use.arguments, malformed=use.malformed)
        for number, use in enumerate(taped.tools, start=1)
    )
    return ModelReply(
        stop=taped.stop,
        text=taped.text if taped.answer is None else to_json(taped.answer).decode(),
        problem=taped.problem,
        tool_calls=calls,
        # The report names the models, so that readers recognise a replay.
        model=f"{taped.model} (replayed)",
        provider=taped.provider,
        usage=taped.usage,
    )


@dataclass(frozen=True)
class ReplayedTool:
    spec: ToolSpec
    tape: Tape

    @property
    def capabilities(self) -> frozenset[Capability]:
        return frozenset(self.tape.facts.tools.get(self.spec.name, ()))

    async def use(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> ToolAnswer:
        call = ToolAsked(agent=context.agent, tool=self.spec.name, arguments=dict(arguments))
        try:
            line = self.tape.entry(call, context.idempotency_key)
        except NotOnTape as absence:
            raise await _end_session(str(absence)) from None
        if line.result is None:
            raise non_retryable_error(ErrorType.TOOL_UNAVAILABLE, str(line.failure))
        return ToolAnswer(ok=line.result.ok, output=line.result.output, sources=line.result.sources)


async def _end_session(absence: str) -> ApplicationError:
    """Terminate the whole session, which would otherwise continue without the answer; return the error to raise."""
    info = activity.info()
    client = activity.client()
    described = await describe(client, info.workflow_id or "", info.workflow_run_id or "", _PATIENCE)
    root = described.workflow_execution_info.root_execution
    handle = client.get_workflow_handle(root.workflow_id, run_id=root.run_id)
    await handle.terminate(reason=absence)
    return non_retryable_error(ErrorType.INTERNAL, absence)


def _redact(asked: _Asked) -> _Asked:
    if isinstance(asked, TurnAsked):
        return redact(Line(turn=asked)).turn or asked
    return redact(Line(tool=asked)).tool or asked


def _key(asked: _Asked) -> str:
    return f"{type(asked).__name__} {json.dumps(asked.model_dump(mode='json'), sort_keys=True)}"


def _name(asked: _Asked) -> str:
    if isinstance(asked, ToolAsked):
        return f"{printable(asked.tool, 40)} by {printable(asked.agent, 40)}"
    where = f" after round {asked.round}" if asked.round else ""
    return f"the {asked.kind} turn of {printable(asked.agent, 40)}{where} on {_excerpt(asked.about)}"


def _distance(asked: _Asked, other: _Asked) -> tuple[bool, int]:
    differing = differences(asked, other)
    return "about" in differing or "tool" in differing, len(differing)


def _excerpt(value: JsonValue) -> str:
    return printable(to_json(value).decode(), _SHOWN_CHARACTERS)
