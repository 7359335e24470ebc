"""Handing a subtask to a child workflow, and taking whatever comes back as an outcome."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from temporalio import workflow
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import (
    ApplicationError,
    ChildWorkflowError,
    TerminatedError,
    WorkflowAlreadyStartedError,
    is_cancelled_exception,
)

from activities.contracts import RunningDuplicate
from chargehand.contracts import Failure, Outcome, Report, SessionRequest, SpendLine, Usage
from chargehand.wire import ErrorType, WorkflowType
from workflows import options
from workflows.contracts import SubtaskRequest, SubtaskResult
from workflows.rules.evidence import nested_outcome
from workflows.rules.plan_validation import SUPERVISOR
from workflows.steps.resets import await_duplicate

_REFUSED_UNPAID: Final = frozenset({ErrorType.LIMIT_TOO_SMALL, ErrorType.INVALID_INPUT})
"""Errors with which a session below ends before it has taken a turn."""


_CANCELLED: Final = Failure(reason="cancelled", message="It was cancelled before it had anything to hand back.")
_TERMINATED: Final = Failure(reason="terminated", message="Its workflow was terminated by hand.")


@dataclass(frozen=True)
class Ended:
    """How a child workflow ended, and how far it used what its session watches."""

    outcome: Outcome
    wasted: Usage = field(default_factory=Usage)
    """Part of its spend that came to nothing."""
    rounds: int = 0
    waited: timedelta = timedelta(0)
    """Time that it waited for a larger grant."""
    depth: int = 0
    """Hops from the root to the deepest of what ran below it; 0 if nothing did."""


async def run_subtask(request: SubtaskRequest, workflow_id: str) -> Ended:
    """Run a subtask as a child workflow; every end of it is an outcome."""
    try:
        result = await workflow.execute_child_workflow(
            WorkflowType.SUBTASK,
            request,
            id=workflow_id,
            result_type=SubtaskResult,
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            parent_close_policy=workflow.ParentClosePolicy.REQUEST_CANCEL,
            retry_policy=options.CHILD_RETRIES,
            static_summary=f"{request.subtask.id} {request.agent.name}: {_short(request.subtask.instruction)}",
            static_details=_in_full(request.subtask.instruction),
        )
    except ChildWorkflowError as error:
        return Ended(_failure(error))
    except WorkflowAlreadyStartedError:
        twin = await await_duplicate(workflow_id)
        if twin.ended != "completed":
            return Ended(_failure_of(twin))
        result = SubtaskResult.model_validate(twin.result)
    return Ended(result.outcome, result.wasted, result.rounds, result.waited)


async def run_session_below(request: SessionRequest, workflow_id: str, subtask_id: str) -> Ended:
    """Run a subtask as a session of its own; its report becomes the outcome."""
    try:
        report = await workflow.execute_child_workflow(
            WorkflowType.SUPERVISOR,
            request,
            id=workflow_id,
            result_type=Report,
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            parent_close_policy=workflow.ParentClosePolicy.REQUEST_CANCEL,
            retry_policy=options.CHILD_RETRIES,
            static_summary=f"{subtask_id} supervisor: {_short(request.goal)}",
            static_details=_in_full(request.goal),
        )
    except ChildWorkflowError as error:
        return Ended(_failure(error))
    except WorkflowAlreadyStartedError:
        twin = await await_duplicate(workflow_id)
        if twin.ended != "completed":
            return Ended(_failure_of(twin))
        report = Report.model_validate(twin.result)
    deepest = next((int(use.used) for use in report.limits if use.limit == "max_depth"), 0)
    return Ended(nested_outcome(report), report.wasted, depth=deepest)


def _failure_of(twin: RunningDuplicate) -> Failure:
    match twin.ended:
        case "cancelled":
            return _CANCELLED
        case "terminated":
            return _TERMINATED
        case "failed":
            return Failure(reason="internal", message=twin.message)
        case _:
            return Failure(
                reason="duplicate",
                message="The same agent was already asked for the same thing in this session; it is not done twice.",
            )


def _failure(error: ChildWorkflowError) -> Failure:
    if is_cancelled_exception(error):
        return _CANCELLED
    match error.cause:
        case TerminatedError():
            return _TERMINATED
        case ApplicationError(type=kind) as cause if kind in _REFUSED_UNPAID:
            nothing = SpendLine(agent=SUPERVISOR, model="", purpose="plan", usage=Usage())
            return Failure(reason="internal", message=cause.message, spend=(nothing,))
        case ApplicationError() as cause:
            return Failure(reason="internal", message=cause.message)
        case cause:
            return Failure(reason="internal", message=str(cause))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 120 else f"{line[:119]}…"


def _in_full(text: str) -> str | None:
    """Give the whole text where a summary shows only the beginning of it."""
    return None if _short(text) == text else text
