"""The session workflow's typed signature without its implementation, and the options to start it."""

from datetime import timedelta
from typing import Any, Final

from temporalio import workflow
from temporalio.common import Priority

from chargehand.contracts import Report, SessionRequest
from chargehand.contracts.problems import one_line, printable
from chargehand.contracts.request import LONGEST_SESSION_ID
from chargehand.errors import InvalidInput
from chargehand.listing import listing_memo
from chargehand.wire import WorkflowType

_AFTER_THE_DEADLINE: Final = timedelta(days=31)
"""The server ends a session this long after its deadline, which leaves time to wait for people."""


@workflow.defn(name=WorkflowType.SUPERVISOR)
class Supervisor:
    """Input and result of a session; its queries and updates are in `chargehand.messages`."""

    @workflow.run
    async def run(self, request: SessionRequest) -> Report:
        """Run a session."""
        raise NotImplementedError(request)


def start_options(request: SessionRequest) -> dict[str, Any]:
    """Build the SDK's start arguments for a request, started at once or by a schedule."""
    summary = one_line(request.goal, 100)
    return {
        "static_summary": summary,
        "static_details": request.goal if request.goal != summary else None,
        "memo": listing_memo(request.goal, request.follows) | {"tenant": request.tenant},
        "execution_timeout": request.limits.deadline + _AFTER_THE_DEADLINE,
        "priority": Priority(priority_key=request.priority, fairness_key=request.tenant),
    }


def valid_id(text: str) -> str:
    """Validate a session id chosen by a caller."""
    if not text.strip() or not text.isprintable() or len(text) > LONGEST_SESSION_ID:
        raise InvalidInput(
            f"session_id: {printable(text, 40)!r} cannot be used; "
            f"give 1 to {LONGEST_SESSION_ID} characters that can be shown"
        )
    return text
