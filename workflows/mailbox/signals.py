"""Delivery of envelopes between workflows by Temporal signals.

They are addressed by workflow id alone, so the latest run gets them after a reset or continue-as-new.
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
from workflows.run_end import on_exit, raise_if_cancelled

_Reply = TypeVar("_Reply", bound=Reply)


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
    """Send a request and wait for its reply; None if the receiver does not exist or the wait ends first.

    Args:
        mailbox: this workflow's mailbox.
        address: workflow id of the receiver.
        body: the request.
        kind: the type of the reply.
        take: accepts the reply on arrival; false if it cannot be genuine.
        is_over: whether a reply is no longer needed.
        patience: the longest wait; None for no limit.

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
    """Send the reply to a request; false if the requesting workflow has ended."""
    return await _send(mailbox.outbox(request.sender), mailbox.answer(request, reply))


async def notify(mailbox: Mailbox, outbox: Outbox, body: Body) -> bool:
    """Send a message without a reply; false if the receiver has ended."""
    return await _send(outbox, mailbox.write(body, _token()))


async def _send(outbox: Outbox, envelope: Envelope) -> bool:
    """Send an envelope in its turn; false if the receiver does not exist."""
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
