"""Request and result of a model turn. Pure values; imported by workflows and activities."""

from datetime import date, datetime
from typing import Literal, TypeVar

from pydantic import JsonValue

from activities.contracts.rounds import Round, ToolCall, ToolResult, TurnStop
from activities.turn_kinds.protocol import TurnAnswer
from activities.turn_kinds.registry import Answer, Task
from chargehand.contracts import Contract, Effort, LiveTexts, Tier, Usage, left_out
from chargehand.contracts.limits import Profile

_Answer = TypeVar("_Answer", bound=TurnAnswer)


class Counted(Contract):
    """A provider's token count of the beginning of a conversation: a prompt and its reply."""

    model: str
    """The model whose tokens were counted."""
    tokens: int
    messages: int
    """Number of rendered messages covered, including the reply."""


class TurnRequest(Contract):
    session: str
    step: str
    """Identifies the call within its workflow."""
    crew: str
    agent: str
    """Agent of the crew, or `supervisor`."""
    tier: Tier
    model_name: str = left_out("")
    """The provider's model name, for an agent whose model is not its tier's."""
    documents: tuple[str, ...] = left_out(())
    tenant: str = left_out("default")
    """The tenant, for tools that run within the turn."""
    hides_documents: bool = left_out(False)
    """Whether the supervisor must not read documents because its output may be sent out."""
    task: Task
    profile: Profile = left_out("standard")
    """The session's profile, which affects lengths and notes."""
    today: date
    """The date on which the workflow started, as stated to the model."""
    max_input_tokens: int
    """Maximum input tokens; a call that may have more is refused before it is paid for."""
    counted: Counted | None = left_out(None)
    """The provider's count of this conversation; only later parts are bounded by bytes."""
    max_output_tokens: int
    """Thinking included."""
    effort: Effort = left_out("medium")
    """Reasoning effort, if the model supports it."""
    after_reset: bool = left_out(False)
    """Whether this run is the result of a reset, so that the turn may have been taken already."""
    urgency: Literal["now", "batch"] = left_out("now")
    """Whether the provider may answer later at a lower price."""
    live_text: LiveTexts = left_out("report")
    """Whether followers can read the text although it is not the report."""
    at_once: tuple[str, ...] = left_out(())
    """Tools that may run within the turn; the workflow runs all others."""
    provider_failures: int = left_out(0)
    """Failed calls of this turn that may have been billed and that the workflow has charged."""


class UsedTool(Contract):
    """A tool call of the reply that was made within the turn."""

    position: int
    result: ToolResult
    began_at: datetime
    """By the worker's clock, like `ended_at`."""
    ended_at: datetime


class TurnResult(Contract):
    stop: TurnStop
    answer: Answer | None = left_out(None)
    """The model's answer; only for the stop `answer`."""
    data_problems: str = left_out("")
    """Why the answer's data is invalid, for the model to correct; the answer then has no data."""
    tool_calls: tuple[ToolCall, ...] = left_out(())
    used: tuple[UsedTool, ...] = left_out(())
    """The calls that were made within the turn."""
    lost_workers: int = left_out(0)
    """Workers that were lost after the reply, while calls may have been made within the turn."""
    provider_items: tuple[JsonValue, ...] = left_out(())
    text: str = left_out("")
    """The model's text, truncated, for stops other than `answer` and `tools`."""
    problem: str = left_out("")
    """Why a reply is malformed, for the model to correct."""
    model: str
    provider: str
    usage: Usage = Usage()
    usage_known: bool = left_out(True)
    """Whether the provider reported the usage; if not, the call is charged at its reservation."""
    counted: Counted | None = left_out(None)
    """The provider's count of this prompt and reply, if another turn may continue them."""
    conversation: str = left_out("")
    """Digest of the stored conversation before this reply and of the reply's round, for the next turn."""
    span: str = left_out("")
    """Span id of the attempt that took the turn, if traced; parent of its tool calls."""
    discarded: Usage | None = left_out(None)
    """Cost of a turn at this step in a run before a reset, if its request differed, or before the
    database was restored."""

    def round(self) -> Round | None:
        """Return the round of this reply and its calls; None if not all of them were made within the turn."""
        if self.stop != "tools" or len(self.used) < len(self.tool_calls):
            return None
        return Round(
            calls=self.tool_calls,
            results=tuple(each.result for each in sorted(self.used, key=lambda each: each.position)),
            provider_items=self.provider_items,
        )

    def answer_as(self, kind: type[_Answer]) -> _Answer | None:
        return self.answer if isinstance(self.answer, kind) else None
