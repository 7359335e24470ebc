"""Events of a session as yielded by `Session.follow()`, and the trace of all its steps."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from chargehand.contracts.base import Contract, left_out
from chargehand.contracts.outcome import Confidence, SpendLine, Usage
from chargehand.contracts.report import Route
from chargehand.contracts.waits import PendingCall, Question
from chargehand.state_words import EndReason, SessionState, StopReason, SubtaskState

__all__ = [
    "AgentTextEvent",
    "CallEvent",
    "EndEvent",
    "Event",
    "PlanEvent",
    "PlannedSubtask",
    "QuestionEvent",
    "SpendEvent",
    "StateEvent",
    "Step",
    "SubtaskEvent",
    "TextEvent",
    "ToolEvent",
    "Trace",
    "TurnEvent",
]


class _Event(Contract):
    """One event of a session."""

    session: str
    """Id of the followed session, including for events of sessions nested in it."""
    subtask: str = ""
    """The subtask concerned, as a path of ids: `T2`, or `T2/T1` in the nested session that does `T2`. Empty for
    the session itself."""
    at: datetime
    """When it happened, by the server's clock."""
    cursor: str = ""
    """Pass it to `follow(after=…)` to get all later events."""


class PlannedSubtask(Contract):
    """One subtask of a plan, in short."""

    id: str
    """The subtask's id in its plan."""
    agent: str
    """The agent that runs it, or `supervisor` for a nested session."""
    depends_on: tuple[str, ...] = left_out(())
    """Subtasks whose outcomes are its inputs."""
    for_each: str | None = left_out(None)
    """For a template that is not expanded yet: the subtask whose outcome lists the items."""
    title: str = left_out("")
    """The beginning of its instruction, in one line."""


class PlanEvent(_Event):
    """The session has a new plan: its first, or one that replaces an earlier one."""

    kind: Literal["plan"] = "plan"
    subtasks: tuple[PlannedSubtask, ...]
    """All subtasks in plan order."""


class SubtaskEvent(_Event):
    """A subtask started, ended or was skipped, or the report uses more than its last attempt."""

    kind: Literal["subtask"] = "subtask"
    state: SubtaskState | Literal["cancelled", "terminated", "timed_out"]
    """`running` when it starts; when an attempt ends, the kind of its outcome or how its workflow was stopped;
    `skipped` if it was never started."""
    agent: str
    """The agent that runs it, or `supervisor` for a nested session."""
    title: str = ""
    """The beginning of its instruction, in one line."""
    attempt: int = 1
    """1 for the first attempt."""
    reason: str = ""
    """Why it did not succeed."""
    confidence: Confidence = 0
    """The outcome's confidence: 0 (a guess) to 100 (certain)."""
    usage: Usage = Usage()
    """The cost of the attempt once it has ended."""
    workflow_id: str = ""
    """Id of the attempt's workflow; empty if there is none."""


_State = Literal["started", "completed", "failed", "timed_out", "cancelled"]


class TurnEvent(_Event):
    """A model call started or ended; its cost is in the `spend` event that follows."""

    kind: Literal["turn"] = "turn"
    turn: str
    """Identifies the turn within its subtask."""
    agent: str
    """The agent, or `supervisor`."""
    purpose: str
    """What it is for, such as `plan`, `work` or `synthesis`."""
    state: _State
    """`started` when it is scheduled; then how it ended."""
    model: str = ""
    """The model that answered."""
    attempts: int = 1
    """Number of attempts, including those of lost workers."""
    error: str = ""
    """Error type, from the fixed vocabulary."""


class ToolEvent(_Event):
    """A tool call started or ended."""

    kind: Literal["tool"] = "tool"
    call: str
    """Identifies the call within its subtask."""
    tool: str
    """The tool."""
    title: str
    """The tool and the beginning of its first argument, in one line."""
    state: _State
    """`started` when it is scheduled; then how it ended."""
    ok: bool = True
    """False if the tool reported a failure, which the agent sees."""
    attempts: int = 1
    """Number of attempts, including those of lost workers."""
    error: str = ""
    """Error type, from the fixed vocabulary."""


class SpendEvent(_Event, SpendLine):
    """Model calls were charged: one call, or the unanswered calls of a subtask or session that has ended.

    The sum of all is the cost of the session.
    """

    kind: Literal["spend"] = "spend"


class QuestionEvent(_Event):
    """A subtask's question to a person was opened or closed."""

    kind: Literal["question"] = "question"
    question: Question
    """The question."""
    is_open: bool
    """Whether it can be answered; false once answered or withdrawn."""


class CallEvent(_Event):
    """A tool call started or stopped awaiting approval."""

    kind: Literal["call"] = "call"
    call: PendingCall
    """The call."""
    is_open: bool
    """Whether it can be decided; false once decided or withdrawn."""


class TextEvent(_Event):
    """The next part of the report's text while it is written or, in a conversation, of a reply, with its `subtask`.

    The joined texts of a draft are that draft; those of the last draft are the report's `answer`, or the agent's
    reply.
    """

    kind: Literal["text"] = "text"
    draft: int
    """1 for the first draft. A larger number replaces the text so far, because it was sent back, was rewritten after
    a failure, or had its citations corrected."""
    offset: int
    """Start of the part in its draft, in characters; 0 for the first part."""
    text: str
    """Markdown."""


class AgentTextEvent(_Event):
    """The next part of an agent's answer while it is written; only in a session with `live_text` `agents`.

    It replaces the turn's text from its offset onwards. The text of a finished turn is complete.
    """

    kind: Literal["agent_text"] = "agent_text"
    turn: str
    """Identifies the turn within its subtask."""
    agent: str
    """The agent, or `supervisor` for a part of a report, and for the report of a nested session."""
    offset: int
    """Start of the part in the turn's text, in characters."""
    text: str
    """Markdown."""


class StateEvent(_Event):
    """The session changed its state."""

    kind: Literal["state"] = "state"
    state: SessionState
    """The state."""


class EndEvent(_Event):
    """The session has ended; the last event."""

    kind: Literal["end"] = "end"
    state: Literal["completed", "failed", "cancelled", "terminated", "timed_out"]
    """`completed` if there is a report."""
    stop_reason: StopReason | EndReason | None = None
    """Why it stopped, if it has a report or is a conversation."""
    error: str = ""
    """Error type, from the fixed vocabulary."""


Event = Annotated[
    PlanEvent
    | SubtaskEvent
    | TurnEvent
    | ToolEvent
    | SpendEvent
    | QuestionEvent
    | CallEvent
    | TextEvent
    | AgentTextEvent
    | StateEvent
    | EndEvent,
    Field(discriminator="kind", description="One event of a session; its `kind` says which."),
]


class LiveText(Contract):
    """The end of a text still being written, from the heartbeats of the worker that receives it."""

    offset: int = left_out(0)
    """Number of characters before it."""
    before: int = left_out(0)
    """CRC-32 of these characters as UTF-8."""
    text: str


StepKind = Literal["session", "subtask", "turn", "tool", "decision", "message", "route", "other"]
StepState = Literal["running", "completed", "failed", "timed_out", "cancelled", "terminated"]


class Recorded(Contract):
    """The input or the result of a tool call."""

    bytes: int
    """Its size as JSON."""
    value: JsonValue = None
    """The value, if it has at most 4,000 bytes; null otherwise."""
    reference: str = left_out("")
    """Location of a larger value: `WORKFLOW/RUN#EVENT`, for `temporal workflow show`."""


class Step(Contract):
    """One workflow, model turn or tool call."""

    id: str
    """Unique in the trace."""
    parent: str | None = None
    """Id of the enclosing step; absent for the session itself."""
    kind: StepKind
    """The kind of step: `turn` is an LLM call, `decision` the approval of a tool call by policy or person, `message`
    a person's message to agents, `route` why an agent got its work without a plan."""
    name: str
    """A short description."""
    agent: str = ""
    """The agent, or `supervisor`."""
    scheduled_at: datetime | None = left_out(None)
    """For a turn or a tool call: when its workflow scheduled it."""
    started_at: datetime | None = None
    """When a worker started it; for a message, when it arrived."""
    ended_at: datetime | None = None
    """When it ended; absent while it runs. For a message to an agent, when the agent read it."""
    attempts: int = 1
    """Number of attempts, including those of lost workers."""
    state: StepState = "running"
    """How it ended, or `running`."""
    error: str = ""
    """Error type, from the fixed vocabulary."""
    usage: Usage = Usage()
    """Its own cost; the cost of a subtask or session is in its inner steps."""
    worker: str = ""
    """Identity of the worker that ended it."""
    subtask: str = left_out("")
    """For a subtask: its id in the plan. For a message to a session: the target subtask, absent for all."""
    task_hash: str = left_out("")
    """For a subtask: the hash of its agent and instruction, unique in the session."""
    plan: tuple[PlannedSubtask, ...] = left_out(())
    """For a session: its last plan."""
    purpose: str = left_out("")
    """For a turn: its purpose, such as `plan`, `work` or `synthesis`. For a message to an agent: the turn that read
    it, such as `turn-3`."""
    model: str = left_out("")
    """For a turn: the model that answered."""
    tool: str = left_out("")
    """For a tool call: the tool."""
    arguments: Recorded | None = left_out(None)
    """For a tool call: the arguments."""
    result: Recorded | None = left_out(None)
    """For a tool call: the result, including `error` if it failed."""
    route: Route | None = left_out(None)
    """For a route: why an agent got its work without the plan."""


class Trace(Contract):
    """All steps of one session, parents before children."""

    session: str
    """The session's id."""
    run: str = ""
    """Id of its first run, which distinguishes successive sessions with the same id."""
    exported_at: datetime
    """When it was exported; later steps are missing."""
    steps: tuple[Step, ...] = ()
    """Every step, parents before children."""
