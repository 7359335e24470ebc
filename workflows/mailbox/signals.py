"""The way of an envelope from one workflow to another: Temporal's signals.

They go by workflow id alone: after a reset, or when a workflow has continued as new, its newest run gets them.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import TypeVar

from temporalio import workflow
from temporalio.exceptions import FailureError, is_cancelled_exception

from chargehand.wire import SignalName
from workflows.mailbox.contracts import Body, Envelope, Reply
from workflows.mailbox.mailbox import Mailbox, Outbox, Sender
from workflows.on_exit import on_exit

_Reply = TypeVar("_Reply", bound=Reply)


def raise_if_cancelled() -> None:
    """Stop a workflow that was cancelled while a signal was being sent: the SDK does not raise there."""
    if workflow.cancellation_reason() is not None:
        raise asyncio.CancelledError


async def ask(
    mailbox: Mailbox,
    address: str,
    body: Body,
    kind: type[_Reply],
    *,
    take: Callable[[_Reply], bool] = lambda _: True,
    is_over: Callable[[], bool] = lambda: False,
    patience: timedelta | None = None,
) -> _Reply | None:
    """Send a request and wait for its reply; None if its receiver is not there or the wait is over before.

    Args:
        mailbox: of this workflow.
        address: workflow id of the receiver.
        body: the request.
        kind: of the reply.
        take: takes the reply when it arrives; false if no honest reply is like that.
        is_over: whether a reply is of no use any more.
        patience: how long to wait for it; None for as long as it takes.

    Raises:
        CancelledError: this workflow was cancelled.
    """
    request = mailbox.open(mailbox.write(body, _token()), kind, take, workflow.now())
    with on_exit(lambda: mailbox.close(request, workflow.now())):
        if await _send(mailbox.outbox(address), request.envelope):
            with suppress(TimeoutError):
                await workflow.wait_condition(
                    lambda: request.reply is not None or is_over(),
                    timeout=patience,
                    timeout_summary=f"reply to {body.kind}",
                )
            raise_if_cancelled()
    return request.reply


async def answer(mailbox: Mailbox, request: Sender, reply: Reply) -> bool:
    """Send the reply to a request; false if the workflow that sent it has ended."""
    return await _send(mailbox.outbox(request.sender), mailbox.answer(request, reply))


async def notify(mailbox: Mailbox, outbox: Outbox, body: Body) -> bool:
    """Send what has no reply; false if its receiver has ended."""
    return await _send(outbox, mailbox.write(body, _token()))


async def _send(outbox: Outbox, envelope: Envelope) -> bool:
    """Send an envelope when its turn has come; false if its receiver is not there."""
    outbox.put(envelope)
    with on_exit(lambda: outbox.remove(envelope)):
        await workflow.wait_condition(lambda: outbox.is_over or outbox.is_next(envelope))
        if outbox.is_over:
            return False
        try:
            await workflow.get_external_workflow_handle(outbox.address).signal(SignalName.MAILBOX, envelope)
        except FailureError as error:
            if is_cancelled_exception(error):
                raise asyncio.CancelledError from error
            return False
    return True


def _token() -> str:
    return workflow.uuid4().hex[:16]
