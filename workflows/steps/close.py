"""The end of a session: what is shown, given back and announced, with a report or without one."""

from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any, cast

from temporalio import workflow
from temporalio.exceptions import ApplicationError, is_cancelled_exception

from chargehand.contracts import FailureCause, Report
from chargehand.failure_causes import failure_cause
from chargehand.plugins import Hook, installed
from workflows import options
from workflows.state.progress import Progress
from workflows.state.session import Session
from workflows.steps.admission import Place, list_end
from workflows.steps.report import with_late_messages, write_report
from workflows.steps.visibility import enter, list_state, publish


async def close(session: Session, report: Report, place: Place) -> Report:
    """End a session with its report, once every message is answered."""
    await workflow.wait_condition(workflow.all_handlers_finished)
    report = with_late_messages(session, report)
    enter(session, "finished", report)
    list_state(session, report)
    await place.leave(session.budget.close())
    await _announce(session, stop_reason=report.stop_reason)
    return report


async def close_conversation(session: Session, place: Place, reason: str) -> None:
    """End a conversation, once every message is answered or refused."""
    await workflow.wait_condition(workflow.all_handlers_finished)
    enter(session, "finished")
    list_state(session)
    await place.leave(session.budget.close())
    await _announce(session, stop_reason=reason)


async def close_early(error: BaseException, session: Session | None, progress: Progress, place: Place) -> None:
    """End a session that failed or was cancelled, perhaps before it was open."""
    if is_cancelled_exception(error):
        progress.enter("cancelled")
    else:
        progress.fail(cause_of(error))
    if session is not None:
        session.clock.stop()
    if not workflow.all_handlers_finished():
        with suppress(TimeoutError):
            await workflow.wait_condition(workflow.all_handlers_finished, timeout=options.HANDLER_TIMEOUT)
    if session is None:
        list_end(progress.state)
    else:
        publish(session)
        list_state(session)
    if progress.failure is not None and workflow.info().parent is None:
        workflow.upsert_memo({"state": progress.state, "failure": progress.failure.model_dump(mode="json")})
    if workflow.in_workflow():
        await place.leave(session.budget.close() if session else Decimal(0))
    if session is not None and session.request.delegation is None:
        await _announce(session, error=(error.type or "") if isinstance(error, ApplicationError) else "")


def cause_of(error: BaseException) -> FailureCause:
    """Say why a session failed."""
    details: Sequence[Any] = error.details if isinstance(error, ApplicationError) else ()
    faults = [cast("dict[str, Any]", each) for each in details if isinstance(each, dict)]
    known = {name: value for name, value in (faults or [{}])[0].items() if name in {"status", "provider", "model"}}
    kind = (error.type or "") if isinstance(error, ApplicationError) else type(error).__name__
    return failure_cause(kind, **known)


async def report_after(error: BaseException, session: Session) -> Report:
    """Report what a nested session spent and found before it failed or was cancelled, for its parent."""
    if is_cancelled_exception(error):
        session.clock.finish_now()
        session.clock.interrupt()
    else:
        session.progress.add_gaps([error.message if isinstance(error, ApplicationError) else str(error)])
    return await write_report(session, by_models=False)


async def _announce(session: Session, *, stop_reason: str = "", error: str = "") -> None:
    """Call what plug-ins do at the end of a session, in the order of their names."""
    for announce in installed().functions(Hook.SESSION_ENDED):
        await announce(session, stop_reason, error)
