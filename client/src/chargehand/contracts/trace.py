"""Every step of a session, as read back from Temporal's histories."""

from datetime import datetime
from typing import Literal

from pydantic import JsonValue

from chargehand.contracts.base import Contract, left_out
from chargehand.contracts.events import PlannedSubtask
from chargehand.contracts.outcome import Usage
from chargehand.contracts.report import Route

__all__ = ["Step", "Trace"]

StepKind = Literal["session", "subtask", "turn", "tool", "decision", "message", "route", "other"]
StepState = Literal["running", "completed", "failed", "timed_out", "cancelled", "terminated"]


class Recorded(Contract):
    """What a tool was given, or what it gave back."""

    bytes: int
    """Its size as JSON."""
    value: JsonValue = None
    """The value, if it has at most 4,000 bytes; null otherwise."""
    reference: str = left_out("")
    """Where a larger value stands: `WORKFLOW/RUN#EVENT`, for `temporal workflow show`."""


class Step(Contract):
    """One workflow, model turn or tool call."""

    id: str
    """Unique in the trace."""
    parent: str | None = None
    """Id of the enclosing step; absent for the session itself."""
    kind: StepKind
    """The kind of step; `turn` is an LLM call, `decision` whether a policy and a person allow a tool call, `message`
    what a person told the agents, `route` why an agent got its work without a plan."""
    name: str
    """A short description."""
    agent: str = ""
    """The agent, or `supervisor`."""
    scheduled_at: datetime | None = left_out(None)
    """Of a turn or a tool call: when its workflow asked for it."""
    started_at: datetime | None = None
    """When a worker started it; of a message, when it arrived."""
    ended_at: datetime | None = None
    """When it ended; absent while it runs. Of a message to an agent, when the agent read it."""
    attempts: int = 1
    """Attempts, including those of lost workers."""
    state: StepState = "running"
    """How it ended, or `running`."""
    error: str = ""
    """Error type, from the fixed vocabulary."""
    usage: Usage = Usage()
    """Its own cost; the cost of a subtask or session is in its inner steps."""
    worker: str = ""
    """Identity of the worker that ended it."""
    subtask: str = left_out("")
    """Of a subtask: its id in the plan. Of a message to a session: the subtask that it is for, absent for all."""
    task_hash: str = left_out("")
    """Of a subtask: the hash of its agent and its instruction, which no other subtask of the session has."""
    plan: tuple[PlannedSubtask, ...] = left_out(())
    """Of a session: the plan that it followed last."""
    purpose: str = left_out("")
    """Of a turn: what it was for, such as `plan`, `work` or `synthesis`. Of a message to an agent: the turn that read
    it, such as `turn-3`."""
    model: str = left_out("")
    """Of a turn: the model that answered."""
    tool: str = left_out("")
    """Of a tool call: the tool."""
    arguments: Recorded | None = left_out(None)
    """Of a tool call: the arguments."""
    result: Recorded | None = left_out(None)
    """Of a tool call: what it gave back, `error` in it if it failed."""
    route: Route | None = left_out(None)
    """Of a route: why an agent got its work other than by the plan."""


class Trace(Contract):
    """All steps of one session, parents before children."""

    session: str
    """The session's id."""
    run: str = ""
    """Id of its first run: tells apart sessions that had the same id one after the other."""
    exported_at: datetime
    """When it was read; later steps are missing."""
    steps: tuple[Step, ...] = ()
    """Every step, parents before children."""
