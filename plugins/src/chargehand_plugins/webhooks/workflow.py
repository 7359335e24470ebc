"""The workflow that tells a webhook how a session ended. It outlives the session, however long the receiver is away."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Final

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

with workflow.unsafe.imports_passed_through():
    from chargehand.wire import WorkflowType
    from chargehand_plugins.webhooks.activity import WebhookActivities
    from chargehand_plugins.webhooks.contracts import WebhookNotice
    from workflows.state.session import Session

_TIMEOUT: Final = timedelta(seconds=30)
_PATIENCE: Final = timedelta(days=1)
"""The receiver may be away for hours."""
_RETRIES: Final = RetryPolicy(
    initial_interval=timedelta(seconds=1), backoff_coefficient=3.0, maximum_interval=timedelta(hours=1)
)


@workflow.defn(name=WorkflowType.WEBHOOK)
class WebhookWorkflow:
    """Calls one webhook once it answers, for a day."""

    @workflow.run
    async def run(self, notice: WebhookNotice) -> None:
        """Call the webhook."""
        await workflow.execute_activity_method(
            WebhookActivities.call_webhook,
            notice,
            activity_id="call",
            summary="call the webhook",
            start_to_close_timeout=_TIMEOUT,
            schedule_to_close_timeout=_PATIENCE,
            retry_policy=_RETRIES,
        )


async def announce_end(session: Session, stop_reason: str, error: str) -> None:
    """Have the webhook of the request called, unless there is none; the session does not wait for it."""
    url = session.request.webhook
    if url is None or session.request.delegation is not None:
        return
    notice = WebhookNotice(
        id=f"{workflow.info().workflow_id}/{session.run}/webhook",
        url=url,
        session=workflow.info().workflow_id,
        state=session.progress.state,
        stop_reason=stop_reason,
        error=error,
        ended_at=workflow.now(),
    )
    starting = asyncio.create_task(_start(notice))
    try:
        await workflow.wait([starting])
    except asyncio.CancelledError:
        # The session has ended: its report stays, and this is announced.
        await workflow.wait([starting])
    await starting


async def _start(notice: WebhookNotice) -> None:
    with suppress(WorkflowAlreadyStartedError):  # before a reset
        await workflow.start_child_workflow(
            WorkflowType.WEBHOOK,
            notice,
            id=notice.id,
            static_summary="call the webhook",
            parent_close_policy=workflow.ParentClosePolicy.ABANDON,
        )
