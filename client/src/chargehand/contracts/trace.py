"""Every step of a session, for export: read back from Temporal's histories, not kept by the session itself."""

from datetime import datetime
from typing import Literal

from chargehand.contracts.base import Contract
from chargehand.contracts.outcome import Usage


class Step(Contract):
    """One workflow, model turn or tool call."""

    id: str
    """Unique in the trace."""
    parent: str | None = None
    """The step that this one belongs to; absent for the session itself."""
    kind: Literal["session", "subtask", "turn", "tool", "other"]
    """What kind of step: `turn` is an LLM call."""
    name: str
    """What it is, in a few words."""
    agent: str = ""
    """Agent that the step belongs to, or `supervisor`."""
    started_at: datetime | None = None
    """When a worker took it up."""
    ended_at: datetime | None = None
    """When it ended; absent while it runs."""
    attempts: int = 1
    """How often it was tried, lost workers included."""
    state: Literal["running", "completed", "failed", "timed_out", "cancelled", "terminated"] = "running"
    """How it ended, or `running`."""
    error: str = ""
    """Error type, from the fixed vocabulary."""
    usage: Usage = Usage()
    """What it cost; that of a subtask or session is in the steps below it."""
    worker: str = ""
    """Identity of the worker that ended it."""


class Trace(Contract):
    """All steps of one session, parents before children."""

    session: str
    """The session's id."""
    exported_at: datetime
    """When it was read back; later steps are not in it."""
    steps: tuple[Step, ...] = ()
    """Every step, parents before children."""
