"""The workflow that notifies one receiver of one event. It outlives the session if the receiver is down."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, RetryState, WorkflowAlreadyStartedError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from activities.contracts.session import NoticeStep
    from chargehand.contracts import DecisionRecord, Wait
    from chargehand.wire import ActivityType, WorkflowType
    from chargehand_plugins.webhooks.activity import SessionEnd, WaitNotice, WebhookNotice
    from workflows.state.session import Session

_TIMEOUT: Final = timedelta(seconds=30)
_LOST_AFTER: Final = timedelta(seconds=2)
"""Short time without heartbeat or workflow task progress after which a worker is lost, as people wait."""
_SOON: Final = timedelta(minutes=10)
_AT_FIRST: Final = RetryPolicy(
    initial_interval=timedelta(seconds=0.1), backoff_coefficient=1.5, maximum_interval=timedelta(seconds=2)
)
"""A receiver that recovers after a minute is notified within two seconds."""
_PATIENCE: Final = timedelta(days=1)
"""The receiver may be down for hours."""
_LATER: Final = RetryPolicy(
    initial_interval=timedelta(seconds=10), backoff_coefficient=3.0, maximum_interval=timedelta(hours=1)
)
_Sending = workflow.ChildWorkflowHandle[Any, Any]


@workflow.defn(name=WorkflowType.WEBHOOK)
class WebhookWorkflow:
    """Notifies one receiver, retrying for a day."""

    @workflow.run
    async def run(self, notice: WebhookNotice) -> None:
        try:
            await _call(notice, "call", _SOON, _AT_FIRST)
        except ActivityError as error:
            if is_cancelled_exception(error) or error.retry_state == RetryState.NON_RETRYABLE_FAILURE:
                raise
            await _call(notice, "call later", _PATIENCE, _LATER)


async def _call(notice: WebhookNotice, id_: str, patience: timedelta, retries: RetryPolicy) -> None:
    await workflow.execute_activity(
        ActivityType.SEND_NOTICE if notice.channel else ActivityType.CALL_WEBHOOK,
        notice,
        activity_id=id_,
        summary=notice.type,
        start_to_close_timeout=_TIMEOUT,
        schedule_to_close_timeout=patience,
        heartbeat_timeout=_LOST_AFTER,
        retry_policy=retries,
    )


async def announce_end(session: Session, stop_reason: str, error: str) -> None:
    """Start the call of the request's webhook, if any, without waiting for it."""
    url = session.request.webhook
    if url is None or session.request.delegation is not None:
        return
    about = SessionEnd(
        session=workflow.info().workflow_id, state=session.progress.state, stop_reason=stop_reason, error=error
    )
    decisions = session.progress.waits.decisions
    after = _id(session, f"{decisions[-1].wait}/ended/webhook") if decisions else ""
    starting = asyncio.create_task(
        _start(WebhookNotice(id=_id(session, "webhook"), url=url, about=about, at=workflow.now(), after=after))
    )
    try:
        await workflow.wait([starting])
    except asyncio.CancelledError:
        # The session has ended; its report remains, and this is logged.
        await workflow.wait([starting])
    await starting


async def announce_wait(session: Session, wait: Wait, decision: DecisionRecord | None) -> None:
    """Notify the request's webhook and the operator's channels of a wait, and the immediate ones of its end.

    Only the webhook is notified when a conversation waits for its user. If several messages to a channel became due
    while no worker ran, only the last is sent. One that a channel has not accepted when the next is due, or when the
    wait ends, is withdrawn.
    """
    about = WaitNotice(session=workflow.info().workflow_id, wait=wait, decision=decision)
    began = _id(session, f"{wait.id}/began")
    name = _id(session, f"{wait.id}/ended") if decision else began
    if url := session.request.webhook:
        after = f"{began}/webhook" if decision else ""
        await _start(WebhookNotice(id=f"{name}/webhook", url=url, about=about, at=workflow.now(), after=after))
    if wait.kind == "message":
        return
    steps = sorted(session.facts.notices, key=lambda step: step.after)
    notice_ids, sending = dict[str, str](), dict[str, Sequence[_Sending]]()
    for step in steps:
        if not await _is_due(session, wait, step, decision):
            break
        own = [each for each in steps if each.channel == step.channel]
        due = sum(wait.since + each.after <= workflow.now() for each in own)
        number, last = own.index(step), notice_ids.get(step.channel, "")
        if decision is None and number < due - 1:
            continue
        notice = WebhookNotice(
            id=f"{name}/{step.channel}/{number}",
            channel=step.channel,
            about=about.model_copy(update={"times_before": number if last else 0}),
            at=workflow.now(),
            after=f"{began}/{step.channel}/{due - 1}" if decision else last,
        )
        notice_ids[step.channel] = notice.id
        await _withdraw(sending.get(step.channel, ()))
        sending[step.channel] = await _start(notice)
    if decision is None:
        every = [each for started in sending.values() for each in started]
        await workflow.wait_condition(lambda: not _is_open(session, wait) or all(each.done() for each in every))
        await _withdraw(every)


async def _withdraw(sending: Sequence[_Sending]) -> None:
    for each in sending:
        each.cancel()
    await asyncio.gather(*sending, return_exceptions=True)


async def _is_due(session: Session, wait: Wait, step: NoticeStep, decision: DecisionRecord | None) -> bool:
    """Wait for the time of a step; False if the wait has ended by then."""
    if decision is not None:
        return not step.after
    left = wait.since + step.after - workflow.now()
    if step.after and left > timedelta(0):
        with suppress(TimeoutError):
            await workflow.wait_condition(lambda: not _is_open(session, wait), timeout=left)
    return not step.after or _is_open(session, wait)


def _is_open(session: Session, wait: Wait) -> bool:
    return session.progress.waits.open.get(wait.id) is wait


def _id(session: Session, name: str) -> str:
    return f"{workflow.info().workflow_id}/{session.run}/{name}"


async def _start(notice: WebhookNotice) -> list[_Sending]:
    """Start sending a notice; return an empty text if an earlier run did, before a reset."""
    with suppress(WorkflowAlreadyStartedError):
        return [
            await workflow.start_child_workflow(
                WorkflowType.WEBHOOK,
                notice,
                id=notice.id,
                static_summary=notice.type,
                task_timeout=_LOST_AFTER,
                parent_close_policy=workflow.ParentClosePolicy.ABANDON,
            )
        ]
    return []
