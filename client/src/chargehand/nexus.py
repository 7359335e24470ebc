"""Sessions as a Nexus service, for workflows of other namespaces and teams.

    chargehand = workflow.create_nexus_client(service=SessionService, endpoint="chargehand")
    report = await chargehand.execute_operation(
        SessionService.run, ForSession(session="claim-17", message=SessionRequest(goal="…"))
    )

Every worker serves it. What each operation does is what the client's method, and the update, of that name does.
"""

from typing import Annotated, Generic, TypeVar

import nexusrpc
from pydantic import StringConstraints

from chargehand.contracts import (
    Answer,
    CallDecision,
    Interruption,
    Plan,
    PlanDecision,
    PlanEdit,
    RaisedLimits,
    Report,
    SessionRequest,
    Status,
    TypedByPeople,
    UserMessage,
)
from chargehand.wire import NEXUS_SERVICE

__all__ = ["ForSession", "OneSession", "SessionService"]

MessageType = TypeVar("MessageType", bound=TypedByPeople)

SessionId = Annotated[str, StringConstraints(min_length=1, max_length=1_000)]


class OneSession(TypedByPeople):
    """Names a session."""

    session: SessionId
    """The session's id."""


class ForSession(OneSession, Generic[MessageType]):
    """A message for a session."""

    message: MessageType
    """The request, for `run`; or the message of the update."""


@nexusrpc.service(name=NEXUS_SERVICE)
class SessionService:
    """The operations on sessions."""

    run: nexusrpc.Operation[ForSession[SessionRequest], Report]
    """Start a session, or attach to the running one of this id, and wait for its report; cancelling it cancels the
    session."""
    status: nexusrpc.Operation[OneSession, Status]
    result: nexusrpc.Operation[OneSession, Report]
    """Return the report of a session that has ended."""
    decide_plan: nexusrpc.Operation[ForSession[PlanDecision], Plan]
    decide_call: nexusrpc.Operation[ForSession[CallDecision], Status]
    answer: nexusrpc.Operation[ForSession[Answer], Status]
    raise_limits: nexusrpc.Operation[ForSession[RaisedLimits], Status]
    tell: nexusrpc.Operation[ForSession[UserMessage], Status]
    interrupt: nexusrpc.Operation[ForSession[Interruption], Status]
    edit_plan: nexusrpc.Operation[ForSession[PlanEdit], Plan]
    finish_now: nexusrpc.Operation[OneSession, Status]
    cancel: nexusrpc.Operation[OneSession, None]
