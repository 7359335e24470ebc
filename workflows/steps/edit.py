"""Plan edits in flight: what has not begun is changed while the rest is carried out."""

from typing import Final

from temporalio import workflow

from chargehand.contracts import EditRecord, Plan, PlanEdit
from workflows.rules.plan_edits import edited
from workflows.rules.plan_validation import InvalidPlan
from workflows.state.session import Session
from workflows.steps.plan import validate
from workflows.steps.visibility import publish

_MOST_EDITS: Final = 500
"""Of one session: its status and its report name them all."""


def check_edit(session: Session, edit: PlanEdit) -> tuple[Plan, tuple[EditRecord, ...]]:
    """Apply an edit to a copy of the plan, and check that like any plan.

    Raises:
        InvalidPlan: with every reason against it.
    """
    progress = session.progress
    if progress.plan is None:
        raise InvalidPlan(["edits: there is no plan yet"])
    if len(progress.edits) + len(edit.edits) > _MOST_EDITS:
        raise InvalidPlan([f"edits: a session takes {_MOST_EDITS} at most, and has taken {len(progress.edits)}"])
    draft, records = edited(progress.plan, edit.edits, progress.begun, workflow.now())
    if len(draft.subtasks) > 1 and not session.report_reserve.is_payable:
        raise InvalidPlan(["edits: the limits cannot pay for a report on several subtasks; raise them first"])
    return validate(session, draft, begun=progress.begun), records


def edit_plan(session: Session, edit: PlanEdit) -> Plan:
    """Follow the plan as edited.

    Raises:
        InvalidPlan: as in `check_edit`.
    """
    plan, records = check_edit(session, edit)
    if len(plan.subtasks) > 1:
        session.report_reserve.hold()
        session.reserve_report()
    session.progress.edit(plan, records)
    publish(session)
    return plan
