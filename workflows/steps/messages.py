"""What arrives in the mailbox of a session, by the kind of message."""

from workflows.mailbox.contracts import CallReport, CallRequest, Envelope, GrantRequest, SteeringItem
from workflows.state.session import Session
from workflows.steps.call_approvals import answer_call_request, note_outcome
from workflows.steps.grants import answer_grant_request
from workflows.steps.steering import pass_on


async def act_on(session: Session, envelope: Envelope) -> bool:
    """Act on a request or a notice; false if nothing that belongs to this session can have sent it."""
    match envelope.body:
        case GrantRequest() as request:
            return await answer_grant_request(session, envelope, request)
        case CallRequest() as request:
            return await answer_call_request(session, envelope, request)
        case CallReport() as report:
            return note_outcome(session, envelope, report)
        case SteeringItem() as item:
            return await pass_on(session, item)
        case _:
            return False
