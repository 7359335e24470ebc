"""The subtask's side of tool calls that a policy or a person must allow: ask the session, and wait for its reply."""

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta

from temporalio import workflow
from temporalio.exceptions import FailureError, is_cancelled_exception

from activities.contracts import ToolCall, ToolResult
from chargehand.wire import SignalName
from workflows.contracts import CallReply, CallReport, CallRequest, SubtaskRequest
from workflows.mailbox.signals import raise_if_cancelled
from workflows.on_exit import on_exit
from workflows.rules.policy import acting_hash, success_key


class CallClient:
    """Asks the session at the root about calls. Every request is answered, if only when it expires."""

    def __init__(self) -> None:
        self.requested = 0
        """Requests sent, which number the next ones."""
        self._open: dict[int, _Open] = {}
        self._waited = timedelta(0)
        self._waiting_since: datetime | None = None

    def resume(self, requested: int) -> None:
        """Go on where the run before this one stopped, whose requests are all answered."""
        self.requested = requested

    @property
    def waited(self) -> timedelta:
        """Time in which at least one call waited for its reply."""
        now = timedelta(0) if self._waiting_since is None else workflow.now() - self._waiting_since
        return self._waited + now

    def receive(self, reply: CallReply) -> None:
        """Keep the reply to an open request; anything else is ignored."""
        request = self._open.get(reply.number)
        if request is not None:
            request.take(reply)

    async def ask(self, request: SubtaskRequest, call: ToolCall, *, is_doubtful: bool = False) -> CallReply | None:
        """Ask whether a call may be made, if anything binds it; None if nothing does.

        A doubtful call was made, and nobody knows whether it was applied: a person decides whether it is made again.

        Raises:
            CancelledError: the subtask was asked to stop.
        """
        policy = tuple(each for each in request.agent.policy if each.tool == call.tool)
        needs_approval = call.tool in request.agent.approvals
        acts = call.tool in request.agent.acting
        if not policy and not needs_approval and not acts:
            return None
        self.requested += 1
        asking = CallRequest(
            child=workflow.info().workflow_id,
            number=self.requested,
            token=str(workflow.uuid4()),
            subtask=request.subtask.id,
            agent=request.agent.name,
            tool=call.tool,
            arguments=call.arguments,
            needs_approval=needs_approval,
            policy=policy,
            acts=acts,
            is_doubtful=is_doubtful,
        )
        waiting = self._open[asking.number] = _Open(asking.token)
        self._waiting_since = self._waiting_since or workflow.now()
        with on_exit(lambda: self._close(asking.number)):
            if not await _signal(request.session, SignalName.REQUEST_CALL, asking):
                return _unanswered(asking)
            await workflow.wait_condition(lambda: waiting.reply is not None)
            return waiting.reply

    def _close(self, number: int) -> None:
        del self._open[number]
        if not self._open:
            self._waited, self._waiting_since = self.waited, None

    async def report(self, request: SubtaskRequest, call: ToolCall, result: ToolResult) -> None:
        """Tell the session what became of a call, if a rule waits for that or if it acts."""
        watched = [each for each in request.agent.watched if each.tool == call.tool and result.ok]
        keys = tuple(success_key(each, call.arguments) for each in watched)
        is_certain = call.tool in request.agent.acting and not result.is_unknown
        acted = acting_hash(request.subtask.id, call.tool, call.arguments) if is_certain else ""
        if keys or acted:
            child = workflow.info().workflow_id
            report = CallReport(child=child, keys=keys, acted=acted, is_applied=result.ok)
            await _signal(request.session, SignalName.REPORT_CALL, report)


@dataclass
class _Open:
    """A request that waits for its reply."""

    token: str
    reply: CallReply | None = None

    def take(self, reply: CallReply) -> None:
        """Take the reply; of several, the first."""
        if self.reply is None and reply.token == self.token:
            self.reply = reply


async def _signal(session: str, name: SignalName, message: CallRequest | CallReport) -> bool:
    """Send a message to the session at the root; False if it is not there."""
    try:
        # By id alone: after a reset of the session, its newest run is the one that answers.
        await workflow.get_external_workflow_handle(session).signal(name, message)
    except FailureError as error:
        if is_cancelled_exception(error):
            raise asyncio.CancelledError from error
        return False
    raise_if_cancelled()
    return True


def _unanswered(asked: CallRequest) -> CallReply:
    return CallReply(
        number=asked.number,
        token=asked.token,
        tool=asked.tool,
        verdict="denied",
        reason="the session that decides about it does not answer",
    )
