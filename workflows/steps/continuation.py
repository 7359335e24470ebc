"""Between two subtasks: a session with a long history continues in a new run, from the state that this one hands over.

A run that continues as new loses its running children, so this happens only when there are none.
"""

from temporalio import workflow

from workflows.contracts import SupervisorState
from workflows.mailbox.signals import raise_if_cancelled
from workflows.state.session import Session


async def continue_as_new(session: Session) -> None:
    """Continue in a new run as soon as every message is answered; returns only if the work is over before."""
    await workflow.wait_condition(lambda: workflow.all_handlers_finished() or session.clock.work_is_over)
    raise_if_cancelled()
    if not session.clock.work_is_over:
        workflow.continue_as_new(session.asked.model_copy(update={"state": _state(session).model_dump_json()}))


def _state(session: Session) -> SupervisorState:
    return SupervisorState(
        facts=session.facts,
        run=session.run,
        was_reset=session.was_reset,
        children=tuple(sorted(session.children)),
        started_at=session.clock.started_at,
        deadline_at=session.clock.deadline_at,
        model_calls=session.model_calls.state(),
        holds_report=session.report_reserve.is_held,
        mailbox=session.mailbox.state(),
        limit_usage=session.limit_usage,
        provenance=session.provenance.state(),
        progress=session.progress.snapshot(),
    )
