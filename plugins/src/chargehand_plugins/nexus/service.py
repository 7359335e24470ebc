"""Sessions as a Nexus service, for workflows of other namespaces and teams.

    chargehand = workflow.create_nexus_client(service=SessionService, endpoint="chargehand")
    report = await chargehand.execute_operation(
        SessionService.run, ForSession(session="claim-17", message=SessionRequest(goal="…"))
    )
    status = await chargehand.execute_operation(
        operation(Messages.tell), ForSession(session="claim-17", message=UserMessage(text="…"))
    )

Every worker serves it. In addition to `run`, `result` and `cancel`, its operations are the messages of a session.
"""

from typing import Any, Generic, TypeVar, overload

import nexusrpc
from pydantic import ConfigDict

from chargehand.contracts import Report, SessionRequest, TypedByPeople
from chargehand.contracts.request import SessionIdentifier
from chargehand.messages import MESSAGES, Messages, Row, SessionMessage
from chargehand.wire import NEXUS_SERVICE

__all__ = ["ForSession", "Messages", "OneSession", "SessionService", "operation"]

MessageType = TypeVar("MessageType", bound=TypedByPeople)
Output = TypeVar("Output")


class OneSession(TypedByPeople):
    """Identifies a session."""

    session: SessionIdentifier
    """The session's id."""


class ForSession(OneSession, Generic[MessageType]):
    """A message for a session."""

    model_config = ConfigDict(defer_build=True)

    message: MessageType
    """The request, for `run`; or the message of the update."""


@overload
def operation(message: SessionMessage[..., None, Output]) -> nexusrpc.Operation[OneSession, Output]: ...


@overload
def operation(
    message: SessionMessage[..., MessageType, Output],
) -> nexusrpc.Operation[ForSession[MessageType], Output]: ...


def operation(message: Row) -> nexusrpc.Operation[Any, Any]:
    """Return the operation that sends a message of the table; its input has the session and the message."""
    takes = OneSession if message.takes is None else ForSession[message.takes]
    return nexusrpc.Operation(name=message.name, input_type=takes, output_type=message.returns)


class SessionService:
    """The operations on sessions."""

    run: nexusrpc.Operation[ForSession[SessionRequest], Report]
    """Start a session, or attach to the running one with this id, and wait for its report; cancellation cancels the
    session."""
    result: nexusrpc.Operation[OneSession, Report]
    """Return the report of a session that has ended."""
    cancel: nexusrpc.Operation[OneSession, None]


for _row in MESSAGES.values():
    setattr(SessionService, _row.name, operation(_row))
nexusrpc.service(name=NEXUS_SERVICE)(SessionService)
