"""Every step of a session, as read back from Temporal's histories."""

from datetime import datetime
from typing import Literal

from chargehand.contracts.base import Contract
from chargehand.contracts.outcome import Usage


class Step(Contract):
    """One workflow, model turn or tool call."""

    id: str
    """Unique in the trace."""
    parent: str | None = None
    """Id of the enclosing step; absent for the session itself."""
    kind: Literal["session", "subtask", "turn", "tool", "decision", "route", "other"]
    """The kind of step; `turn` is an LLM call, `decision` whether a policy and a person allow a tool call, `route` why
    an agent got its work without a plan."""
    name: str
    """A short description."""
    agent: str = ""
    """The agent, or `supervisor`."""
    started_at: datetime | None = None
    """When a worker started it."""
    ended_at: datetime | None = None
    """When it ended; absent while it runs."""
    attempts: int = 1
    """Attempts, including those of lost workers."""
    state: Literal["running", "completed", "failed", "timed_out", "cancelled", "terminated"] = "running"
    """How it ended, or `running`."""
    error: str = ""
    """Error type, from the fixed vocabulary."""
    usage: Usage = Usage()
    """Its own cost; the cost of a subtask or session is in its inner steps."""
    worker: str = ""
    """Identity of the worker that ended it."""


class Trace(Contract):
    """All steps of one session, parents before children."""

    session: str
    """The session's id."""
    exported_at: datetime
    """When it was read; later steps are missing."""
    steps: tuple[Step, ...] = ()
    """Every step, parents before children."""
