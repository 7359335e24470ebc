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
    name: str
    """What it is, in a few words."""
    agent: str = ""
    started_at: datetime | None = None
    """When a worker took it up."""
    ended_at: datetime | None = None
    attempts: int = 1
    state: Literal["running", "completed", "failed", "timed_out", "cancelled", "terminated"] = "running"
    error: str = ""
    """Error type, from the fixed vocabulary."""
    usage: Usage = Usage()
    worker: str = ""
    """Identity of the worker that ended it."""


class Trace(Contract):
    """All steps of one session, parents before children."""

    session: str
    exported_at: datetime
    steps: tuple[Step, ...] = ()
