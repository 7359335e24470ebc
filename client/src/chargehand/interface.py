"""The workflow of a session as a typed signature without the implementation, and the options to start it."""

from datetime import timedelta
from typing import Final, TypedDict

from temporalio import workflow
from temporalio.common import Priority, WorkflowIDConflictPolicy, WorkflowIDReusePolicy

from chargehand.contracts import Report, SessionRequest
from chargehand.contracts.problems import one_line, printable
from chargehand.contracts.request import LONGEST_SESSION_ID
from chargehand.errors import InvalidInput
from chargehand.listing import listing_memo
from chargehand.wire import WorkflowType

_AFTER_THE_DEADLINE: Final = timedelta(days=31)
"""How long after its deadline the server itself ends a session: until then people may be waited for."""


@workflow.defn(name=WorkflowType.SUPERVISOR)
class Supervisor:
    """Input and result of a session; its queries and updates are in `chargehand.messages`."""

    @workflow.run
    async def run(self, request: SessionRequest) -> Report:
        """Run a session."""
        raise NotImplementedError(request)


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
    """Build the options that a request is started with; a second start with the same id is refused."""
    summary = one_line(request.goal, 100)
    return StartOptions(
        id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
        id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
        static_summary=summary,
        static_details=request.goal if request.goal != summary else None,
        memo=listing_memo(request),
        execution_timeout=request.limits.deadline + _AFTER_THE_DEADLINE,
        priority=Priority(priority_key=request.priority, fairness_key=request.tenant),
    )


def valid_id(text: str) -> str:
    """Check an id that a caller chose for a session."""
    if not text.strip() or not text.isprintable() or len(text) > LONGEST_SESSION_ID:
        raise InvalidInput(
            f"session_id: {printable(text, 40)!r} cannot be used; "
            f"give 1 to {LONGEST_SESSION_ID} characters that can be shown"
        )
    return text
