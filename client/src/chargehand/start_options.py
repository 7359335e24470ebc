"""How the workflow of a session is started, by whichever way: the client, or a Nexus operation."""

from datetime import timedelta
from typing import Final, TypedDict

from temporalio.common import Priority, WorkflowIDConflictPolicy, WorkflowIDReusePolicy

from chargehand.contracts import SessionRequest
from chargehand.listing import listing_memo, one_line

_AFTER_THE_DEADLINE: Final = timedelta(days=1)
"""How long after its deadline the server itself ends a session that no worker has ended: none waits for ever."""


class StartOptions(TypedDict):
    """Keyword arguments of the SDK's `start_workflow`."""

    id_conflict_policy: WorkflowIDConflictPolicy
    id_reuse_policy: WorkflowIDReusePolicy
    static_summary: str
    static_details: str | None
    memo: dict[str, str]
    execution_timeout: timedelta
    priority: Priority


def start_options(request: SessionRequest) -> StartOptions:
    """Build the options that a request is started with; a second start with the same id gives the first session."""
    summary = one_line(request.goal, 100)
    return StartOptions(
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
        static_summary=summary,
        static_details=request.goal if request.goal != summary else None,
        memo=listing_memo(request),
        execution_timeout=request.limits.deadline + _AFTER_THE_DEADLINE,
        priority=Priority(priority_key=request.priority, fairness_key=request.tenant),
    )
