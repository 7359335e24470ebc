"""What people decide about a plan: whether it is carried out, and what of it is changed on the way."""

from typing import Final

from temporalio import workflow
from temporalio.exceptions import ApplicationError

from chargehand.contracts import EditRecord, Plan, PlanDecision, PlanEdit
from chargehand.wire import ErrorType
from workflows.metrics import count_refusal
from workflows.rules.plan_edits import apply_edits
from workflows.rules.plan_validation import InvalidPlan
from workflows.state.session import Session
from workflows.steps.plan import invalid_plan, validate
from workflows.steps.visibility import enter, publish
from workflows.steps.waits import new_wait, wait_for_person

_MOST_EDITS: Final = 500
"""Of one session: its status and its report name them all."""


def decide_plan(session: Session, decision: PlanDecision) -> Plan:
    """Apply a person's decision; an edited plan is validated like any plan."""
    if decision.plan is not None:
        try:
            session.progress.adopt(validate(session, decision.plan))
        except InvalidPlan as error:
            session.progress.receive_decision(is_received=False)
            raise invalid_plan(error.errors) from None
    return session.progress.decide(decision)


async def await_approval(session: Session) -> Plan | None:
    """Wait for a person's decision on the plan; returns the plan, as edited, or None without a decision in time."""
    progress = session.progress
    enter(session, "awaiting_approval")
    asks = "; ".join(f"{each.id} by {each.agent}: {each.instruction[:80]}" for each in progress.subtasks)
    wait = new_wait(session, "plan", "plan", asks)
    await wait_for_person(session, wait, lambda: progress.decision is not None)
    if progress.decision is None:
        session.clock.interrupt()
        progress.add_gaps([f"The plan was not approved by {wait.until:%Y-%m-%d %H:%M} UTC."])
        return None
    if progress.decision.decision == "reject":
        count_refusal("approval")
        raise ApplicationError(
            f"The plan was rejected. {progress.decision.reason}".strip(),
            type=ErrorType.PLAN_REJECTED,
            non_retryable=True,
        )
    return progress.plan


def check_edit(session: Session, edit: PlanEdit) -> tuple[Plan, tuple[EditRecord, ...]]:
    """Apply an edit to a copy of the plan, and check that like any plan.

    Raises:
        Refused: the work is over.
        InvalidPlan: with every reason against it.
    """
    progress = session.progress
    progress.refuse_if_over()
    if progress.plan is None:
        raise InvalidPlan(["edits: there is no plan yet"])
    if len(progress.edits) + len(edit.edits) > _MOST_EDITS:
        raise InvalidPlan([f"edits: a session takes {_MOST_EDITS} at most, and has taken {len(progress.edits)}"])
    draft, records = apply_edits(progress.plan, edit.edits, progress.begun, workflow.now())
    if len(draft.subtasks) > 1 and not session.report_reserve.is_payable:
        raise InvalidPlan(["edits: the limits cannot pay for a report on several subtasks; raise them first"])
    return validate(session, draft, begun=progress.begun), records


def edit_plan(session: Session, edit: PlanEdit) -> Plan:
    """Follow the plan as edited."""
    plan, records = check_edit(session, edit)
    if len(plan.subtasks) > 1:
        session.report_reserve.hold()
        session.reserve_report()
    session.progress.edit(plan, records)
    publish(session)
    return plan
