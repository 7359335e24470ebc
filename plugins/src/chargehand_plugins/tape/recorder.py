"""Records the traffic of a worker's models and tools. A write failure never fails a session."""

import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from pydantic import JsonValue, TypeAdapter
from temporalio.exceptions import ApplicationError

from activities.contracts.tool import ToolAnswer, ToolContext, WrappedTool
from activities.credentials import hide
from activities.models.failures import ProviderError, without_keys
from activities.models.protocol import CountsInput, Model, ModelCall, ModelReply
from chargehand.strict_json import map_texts
from chargehand_plugins.tape.contracts import (
    Line,
    TapedAnswer,
    TapedFailure,
    TapedReply,
    ToolAsked,
    WorkerFacts,
    identify,
    uses,
)
from chargehand_plugins.tape.format import MOST_BYTES, MOST_LINE_BYTES, VERSION, TapedMessage, TapedPrompt

_logger = logging.getLogger("chargehand.tape")
_OBJECT: Final = TypeAdapter(dict[str, JsonValue])


class Recorder(Protocol):
    """Stores lines."""

    def keep(self, line: Line) -> None: ...


class TapeFile:
    """A tape in a private file."""

    def __init__(self, path: Path, secrets: Sequence[str], facts: WorkerFacts) -> None:
        """Open the file and describe the worker.

        Raises:
            OSError: the file cannot be written.
        """
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        self._secrets = secrets
        self._bytes = os.fstat(self._descriptor).st_size
        self._is_full = False
        if not self._bytes:
            self.keep(Line(chargehand_tape=VERSION, recorded_at=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"))
        self.keep(Line(worker=facts))

    def close(self) -> None:
        os.close(self._descriptor)

    def keep(self, line: Line) -> None:
        """Append a redacted line; recording ends if the tape is full or cannot be written."""
        if self._is_full:
            return
        text = redact(line, self._secrets).model_dump_json(exclude_defaults=True)
        data = text.encode(errors="replace") + b"\n"
        problem = ""
        if len(data) > MOST_LINE_BYTES or self._bytes + len(data) > MOST_BYTES:
            problem = f"a tape has at most {MOST_BYTES:,} bytes, and {MOST_LINE_BYTES:,} a line"
        else:
            try:
                self._bytes += os.write(self._descriptor, data)
            except OSError as error:
                problem = str(error)
        if problem:
            self._is_full = True
            _logger.error("the tape ends here", extra={"problem": problem})


def redact(line: Line, secrets: Sequence[str] = ()) -> Line:
    """Remove secrets, and texts that look like them, from a line."""
    clean = partial(without_keys, secrets=secrets)
    written = line.model_dump(mode="json", exclude_defaults=True)
    return Line.model_validate(map_texts(written, lambda text: clean(hide(text)), clean))


@dataclass(frozen=True)
class RecordingModel:
    model: Model
    tape: Recorder

    async def complete(self, call: ModelCall) -> ModelReply:
        try:
            reply = await self.model.complete(call)
        except ProviderError as error:
            failure = TapedFailure(message=error.message, kind=error.kind, fault=error.fault)
            self.tape.keep(Line(turn=identify(call), prompt=taped_prompt(call), failure=failure))
            raise
        self.tape.keep(Line(turn=identify(call), prompt=taped_prompt(call), reply=taped_reply(reply)))
        return reply


def taped_prompt(call: ModelCall) -> TapedPrompt:
    """Return the new part of a prompt since the model's last message; all of it in the first turn."""
    spoken = [place for place, message in enumerate(call.messages) if message.role == "assistant"]
    new = call.messages[spoken[-1] + 1 :] if spoken else call.messages
    messages = [
        TapedMessage(role=each.role, text=each.text, results=tuple(result.text for result in each.results))
        for each in new
    ]
    return TapedPrompt(system="" if spoken else call.system, messages=tuple(messages))


@dataclass(frozen=True)
class CountingRecordingModel(RecordingModel):
    """The same for a model whose provider counts prompts; the reply has the recorded count."""

    counter: CountsInput

    async def count_input(self, call: ModelCall) -> int:
        return await self.counter.count_input(call)


def recording(model: Model, tape: Recorder) -> Model:
    """Wrap a model for recording, keeping its ability to count prompts."""
    return CountingRecordingModel(model, tape, model) if isinstance(model, CountsInput) else RecordingModel(model, tape)


def taped_reply(reply: ModelReply) -> TapedReply:
    """Return a model's reply, as an object if possible, without provider-specific parts."""
    common = TapedReply(
        stop=reply.stop,
        text=reply.text,
        problem=reply.problem,
        tools=uses(reply.tool_calls),
        model=reply.model,
        provider=reply.provider,
        usage=reply.usage,
    )
    if reply.stop != "answer":
        return common
    with suppress(ValueError):  # not a JSON object
        answer = _OBJECT.validate_json(reply.text)
        return common.model_copy(update={"text": "", "answer": answer})
    return common


@dataclass(frozen=True)
class RecordingTool(WrappedTool):
    """Records a tool's answers, but not its lookups."""

    tape: Recorder

    async def use(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> ToolAnswer:
        call = ToolAsked(agent=context.agent, tool=self.spec.name, arguments=dict(arguments))
        try:
            answer = await self.tool.use(arguments, context)
        except ApplicationError as error:
            self.tape.keep(Line(tool=call, failure=error.message))
            raise
        self.tape.keep(Line(tool=call, result=TapedAnswer(ok=answer.ok, output=answer.output, sources=answer.sources)))
        return answer
