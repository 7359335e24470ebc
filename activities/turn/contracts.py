"""The request and the result of a model turn. Pure values; imported by workflows and activities."""

from datetime import date, datetime
from typing import Literal, TypeVar

from pydantic import JsonValue

from activities.contracts.rounds import Round, ToolCall, ToolResult
from activities.turn_kinds.protocol import TurnAnswer
from activities.turn_kinds.registry import Answer, Task
from chargehand.contracts import Contract, Effort, LiveTexts, Tier, Usage, left_out
from chargehand.contracts.limits import Profile

_Answer = TypeVar("_Answer", bound=TurnAnswer)


class Counted(Contract):
    """The beginning of a conversation as the provider counted it: a prompt, and the reply to it."""

    model: str
    """Whose tokens they are."""
    tokens: int
    messages: int
    """How many rendered messages it covers, the reply included."""


class TurnRequest(Contract):
    session: str
    step: str
    """Names the call within its workflow; unique there."""
    crew: str
    agent: str
    """Agent of the crew, or `supervisor`."""
    tier: Tier
    model_name: str = left_out("")
    """The provider's name of the model, for an agent whose model is not its tier's."""
    documents: tuple[str, ...] = left_out(())
    tenant: str = left_out("default")
    """For the tools that it uses at once."""
    hides_documents: bool = left_out(False)
    """Whether what the supervisor writes may be sent out, so that it must not read the documents."""
    task: Task
    profile: Profile = left_out("standard")
    """How much work the session is worth, which its agents are told by lengths and notes."""
    today: date
    """When the workflow began, as the model is told."""
    max_input_tokens: int
    """The call is refused before it is paid if its input could be longer."""
    counted: Counted | None = left_out(None)
    """What the provider has counted of this conversation; only what came after it is bounded by its bytes."""
    max_output_tokens: int
    """Thinking included."""
    effort: Effort = left_out("medium")
    """How hard the model thinks, if it can be told."""
    after_reset: bool = left_out(False)
    """Whether this run goes on from the middle of another, so that the turn may have been taken already."""
    urgency: Literal["now", "batch"] = left_out("now")
    """Whether the provider may take its time for a lower price."""
    live_text: LiveTexts = left_out("report")
    """Whether followers read what it writes although it is not the report."""
    at_once: tuple[str, ...] = left_out(())
    """Tools that may be used before the turn ends; all others are used as the workflow decides."""
    provider_failures: int = left_out(0)
    """Calls of this turn that failed and may have been billed; the workflow has charged them."""


TurnStop = Literal["answer", "tools", "truncated", "refused", "empty", "malformed"]


class UsedTool(Contract):
    """A call that the reply asks for, made before the turn ended."""

    position: int
    result: ToolResult
    began_at: datetime
    """By the worker's clock, like `ended_at`."""
    ended_at: datetime


class TurnResult(Contract):
    stop: TurnStop
    answer: Answer | None = left_out(None)
    """What the model answered; only for the stop `answer`."""
    data_problems: str = left_out("")
    """Why the answer's data is not valid, for the model to mend; the answer is then without data."""
    tool_calls: tuple[ToolCall, ...] = left_out(())
    used: tuple[UsedTool, ...] = left_out(())
    """Those of the calls that were made before the turn ended."""
    provider_items: tuple[JsonValue, ...] = left_out(())
    text: str = left_out("")
    """What the model said, for stops other than `answer` and `tools`; capped."""
    problem: str = left_out("")
    """Why a reply is malformed, for the model to mend."""
    model: str
    provider: str
    usage: Usage = Usage()
    usage_known: bool = left_out(True)
    """Whether the provider said what it used; if not, the call is charged at its reserve."""
    counted: Counted | None = left_out(None)
    """This prompt and its reply as the provider counted them, if another turn may continue them."""
    conversation: str = left_out("")
    """Digest of what was said before this reply, and of the round that it makes, if that is kept for the next turn."""
    span: str = left_out("")
    """Id of the span of the attempt that took the turn, if it was traced; its tool calls are below it."""
    discarded: Usage | None = left_out(None)
    """What a turn at this step has cost in a run that a reset has ended, if it was asked something else, or before the
    database was restored."""

    def round(self) -> Round | None:
        """Return the round that this reply and its calls make; None if not all of them were made before it ended."""
        if self.stop != "tools" or len(self.used) < len(self.tool_calls):
            return None
        return Round(
            calls=self.tool_calls,
            results=tuple(each.result for each in sorted(self.used, key=lambda each: each.position)),
            provider_items=self.provider_items,
        )

    def answer_as(self, kind: type[_Answer]) -> _Answer | None:
        return self.answer if isinstance(self.answer, kind) else None
