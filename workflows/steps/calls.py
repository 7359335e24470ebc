"""Tool calls that a policy or a person must allow: the session at the root decides about those of its whole tree."""

from contextlib import suppress
from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError, FailureError, is_cancelled_exception

from activities.contracts import CallCheck
from activities.tool_use import ToolActivities
from chargehand.contracts import CallDecision
from chargehand.wire import SignalName
from workflows import options
from workflows.calls import Pending
from workflows.contracts import CallReply, CallReport, CallRequest
from workflows.state.session import Session
from workflows.steps.visibility import enter, publish, resume


async def answer_call_request(session: Session, request: CallRequest) -> None:
    """Decide about a call of a subtask, with a person if it needs approval, and send the reply.

    A request that no subtask of this session can have sent is ignored and counted.
    """
    if not _is_below(session, request.child) or not session.calls.accept(request.token):
        session.progress.ignore_message()
        return
    reply = session.calls.judge(request)
    if reply is not None:
        await _deliver(session, request, reply)
        return
    left = min(session.request.answer_within, session.clock.report_starts_at - workflow.now())
    pending = session.calls.open(request, workflow.now() + max(left, timedelta(0)))
    reply = await _decision(session, pending, left)
    pending.deliver(await _deliver(session, request, reply))


def note_outcome(session: Session, report: CallReport) -> None:
    """Note what became of a call that a policy waits for, or that acts."""
    if not _is_below(session, report.child):
        session.progress.ignore_message()
        return
    session.calls.policy.note_success(report.keys)
    if report.acted:
        session.calls.note_outcome(report.acted, is_applied=report.is_applied)


async def _decision(session: Session, pending: Pending, left: timedelta) -> CallReply:
    """Wait for a person; nobody waits any more once the session stops its work."""

    def is_over() -> bool:
        return pending.reply is not None or session.work_is_over

    if session.progress.state == "executing":
        enter(session, "awaiting_call_approval")
    publish(session)
    if not is_over() and left > timedelta(0):
        with suppress(TimeoutError):
            await workflow.wait_condition(
                is_over, timeout=left, timeout_summary=f"until {pending.shown.id} is denied without a decision"
            )
    reply = pending.reply or session.calls.expire(pending)
    if session.progress.state == "awaiting_call_approval":
        resume(session)
    publish(session)
    return reply


async def argument_problems(session: Session, decision: CallDecision) -> list[str]:
    """List what keeps a tool from being called with the arguments that a person has written."""
    called = next((call for call in session.calls.pending if call.id == decision.call), None)
    if called is None or decision.arguments is None:
        return []
    try:
        checked = await workflow.execute_activity_method(
            ToolActivities.check_call,
            CallCheck(session=session.root, tool=called.tool, arguments=decision.arguments),
            summary=f"check the arguments of {called.id}",
            **options.check(),
        )
    except ActivityError as error:
        if is_cancelled_exception(error):
            raise
        return ["arguments: could not be checked; try again"]
    return list(checked.problems)


def _is_below(session: Session, child: str) -> bool:
    return session.request.delegation is None and child.startswith(f"{session.root}/{session.run}/")


async def _deliver(session: Session, request: CallRequest, reply: CallReply) -> bool:
    """Send a reply; False if the subtask has ended meanwhile, which then does not make the call."""
    try:
        await workflow.get_external_workflow_handle(request.child).signal(SignalName.CALL_REPLY, reply)
    except FailureError:
        session.calls.withdraw(request, reply)
        return False
    return True
