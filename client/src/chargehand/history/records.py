"""The parts of stored payloads that are read back from histories."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeVar, cast

from pydantic import AliasChoices, Field, JsonValue
from temporalio.api.common.v1 import Payload
from temporalio.api.history.v1 import HistoryEvent
from temporalio.converter import DataConverter

from chargehand.contracts import (
    Contract,
    LiveText,
    LiveTexts,
    Source,
    SpendLine,
    StopReason,
    SubtaskRecord,
    SubtaskState,
    Usage,
    Verification,
)
from chargehand.state_words import EndReason

_Value = TypeVar("_Value")


class ReportText(Contract):
    """The answer of a turn that writes the report or a reply."""

    answer: str = ""
    content: str = ""


class ToolArguments(Contract):
    arguments: dict[str, JsonValue] = {}


class ToolCall(ToolArguments):
    """A tool call as requested by the model."""

    tool: str


class ToolRequest(Contract):
    """The input of the activity that runs a tool."""

    call: ToolArguments


class ToolResult(Contract):
    ok: bool = True
    output: dict[str, JsonValue] = {}
    sources: tuple[Source, ...] = ()

    @property
    def whole(self) -> dict[str, JsonValue]:
        """The output together with the texts that the tool read."""
        if not self.sources:
            return self.output
        return {**self.output, "sources": [source.model_dump(mode="json") for source in self.sources]}


class UsedTool(Contract):
    position: int
    result: ToolResult
    began_at: datetime
    ended_at: datetime


class Turn(Contract):
    model: str = ""
    usage: Usage = Usage()
    stop: str = ""
    answer: JsonValue = None
    tool_calls: tuple[ToolCall, ...] = ()
    used: tuple[UsedTool, ...] = ()


class Asked(Contract):
    """The parts of a session's request that followers need."""

    live_text: LiveTexts = "report"


class Heartbeat(Contract):
    live: LiveText | None = None


class Ending(NamedTuple):
    """How an attempt at a subtask ended, for its session."""

    state: SubtaskState | Literal["cancelled", "terminated", "timed_out"]
    """The kind of its outcome, or how its workflow was stopped; `running` if it has not ended."""
    reason: str = ""
    confidence: int = 0
    usage: Usage = Usage()


RUNNING: Final = Ending("running")


class _Outcome(Contract):
    kind: Literal["success", "partial", "failure", "escalation"]
    reason: str = ""
    confidence: int = 0
    spend: tuple[SpendLine, ...] = ()


class SubtaskResult(Contract):
    outcome: _Outcome

    @property
    def ending(self) -> Ending:
        spent = sum((line.usage for line in self.outcome.spend), Usage(cost_usd=Decimal(0)))
        return Ending(self.outcome.kind, self.outcome.reason, self.outcome.confidence, spent)


class SessionResult(Contract):
    """How a session or a conversation ended."""

    answer: str = ""
    stop_reason: Annotated[StopReason | EndReason, Field(validation_alias=AliasChoices("stop_reason", "reason"))]
    confidence: int = 0
    verification: Verification | None = None
    usage: Usage = Usage()
    subtasks: tuple[SubtaskRecord, ...] = ()

    @property
    def ending(self) -> Ending:
        """How it ended as a subtask of another session; a success if everything was answered."""
        is_whole = self.stop_reason == "completed"
        reason = "" if is_whole else self.stop_reason
        return Ending("success" if is_whole else "partial", reason, self.confidence, self.usage)


class OpenCall(Contract):
    """A call in the memo."""

    id: str
    hash: str
    workflow_id: str
    open_until: datetime
    number: int


class CallRequest(Contract):
    """A request for approval of a call."""

    kind: Literal["call_request"]
    subtask: str
    agent: str
    tool: str
    arguments: dict[str, JsonValue]
    is_doubtful: bool = False


class CallReply(Contract):
    kind: Literal["call_reply"]
    verdict: str
    reason: str = ""
    by: str = ""


class Told(Contract):
    """A person's message to an agent; an interruption if it has no text."""

    kind: Literal["steering"] = "steering"
    number: int
    text: str = ""


class ToldBefore(Contract):
    """The parts of a subtask's request with messages sent before it started."""

    messages: tuple[Told, ...] = ()


class OtherMessage(Contract):
    """Any other message between workflows."""

    kind: str


class Envelope(Contract):
    """A message between workflows; a reply has the number of its request."""

    sender: str
    number: int
    body: Annotated[CallRequest | CallReply | Told | OtherMessage, Field(union_mode="left_to_right")]


@dataclass(frozen=True)
class Decoder:
    """Decodes stored payloads; anything missing or undecodable becomes None, and views then show less."""

    converter: DataConverter

    async def read(self, payloads: Sequence[Payload], kind: type[_Value]) -> _Value | None:
        """Decode the first payload."""
        if not payloads:
            return None
        try:
            return cast("_Value", (await self.converter.decode(list(payloads[:1]), [kind]))[0])
        except Exception:  # noqa: BLE001  # codecs and converters may raise anything
            return None

    async def field(self, fields: Mapping[str, Payload], name: str, kind: Any) -> Any:
        payload = fields.get(name)
        return None if payload is None else await self.read([payload], kind)

    async def summary(self, event: HistoryEvent) -> str:
        if not event.user_metadata.HasField("summary"):
            return ""
        return await self.read([event.user_metadata.summary], str) or ""
