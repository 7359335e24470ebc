"""The workflow that tells a webhook how a session ended. It outlives the session, however long the receiver is away."""

from temporalio import workflow
from temporalio.exceptions import WorkflowAlreadyStartedError

with workflow.unsafe.imports_passed_through():
    from activities.contracts import WebhookNotice
    from activities.webhooks import WebhookActivities
    from chargehand.wire import WorkflowType
    from workflows import options
    from workflows.session import Session


@workflow.defn(name=WorkflowType.WEBHOOK)
class WebhookWorkflow:
    """Calls one webhook once it answers, for a day."""

    @workflow.run
    async def run(self, notice: WebhookNotice) -> None:
        """Call the webhook."""
        await workflow.execute_activity_method(
            WebhookActivities.call_webhook, notice, activity_id="call", summary="call the webhook", **options.webhook()
        )


async def announce_end(session: Session, *, stop_reason: str = "", error: str = "") -> None:
    """Have the webhook of the request called, unless there is none; the session does not wait for it."""
    url = session.request.webhook
    if url is None or session.request.delegation is not None:
        return
    id_ = f"{workflow.info().workflow_id}/{session.run}/webhook"
    notice = WebhookNotice(
        id=id_,
        url=url,
        session=workflow.info().workflow_id,
        state=session.progress.state,
        stop_reason=stop_reason,
        error=error,
        ended_at=workflow.now(),
    )
    try:
        await workflow.start_child_workflow(
            WorkflowType.WEBHOOK,
            notice,
            id=id_,
            static_summary="call the webhook",
            parent_close_policy=workflow.ParentClosePolicy.ABANDON,
        )
    except WorkflowAlreadyStartedError:
        return  # before a reset
