"""The subtask's side of tool calls that a policy or a person must allow: ask the session at the root about each."""

from activities.contracts.rounds import ToolCall, ToolResult
from workflows.contracts import SubtaskRequest
from workflows.mailbox.contracts import CallReply, CallReport, CallRequest
from workflows.mailbox.mailbox import Mailbox
from workflows.mailbox.signals import ask, notify, raise_if_cancelled
from workflows.rules.tool_policy import acting_hash, success_key


async def request_approval(
    mailbox: Mailbox, request: SubtaskRequest, call: ToolCall, *, is_doubtful: bool = False
) -> CallReply | None:
    """Ask whether a call may be made, if anything binds it; None if nothing does.

    A doubtful call was made and may not have been applied: a person decides whether it is made again.

    Raises:
        CancelledError: the subtask was asked to stop.
    """
    agent = request.agent
    policy = tuple(each for each in agent.policy if each.tool == call.tool)
    needs_approval, acts = call.tool in agent.approvals, call.tool in agent.acting
    if not policy and not needs_approval and not acts:
        return None
    body = CallRequest(
        subtask=request.subtask.id,
        agent=agent.name,
        tool=call.tool,
        arguments=call.arguments,
        needs_approval=needs_approval,
        policy=policy,
        acts=acts,
        is_doubtful=is_doubtful,
    )
    reply = await ask(mailbox, request.session, body, CallReply)
    return reply or CallReply(verdict="denied", reason="the session that decides about it does not answer")


async def report_call(mailbox: Mailbox, request: SubtaskRequest, call: ToolCall, result: ToolResult) -> None:
    """Tell the session what became of a call, if a rule waits for that or if it acts."""
    watched = [each for each in request.agent.watched if each.tool == call.tool and result.ok]
    keys = tuple(success_key(each, call.arguments) for each in watched)
    is_certain = call.tool in request.agent.acting and not result.is_unknown
    acted = acting_hash(request.subtask.id, call.tool, call.arguments) if is_certain else ""
    if keys or acted:
        await notify(mailbox, mailbox.outbox(request.session), CallReport(keys=keys, acted=acted, is_applied=result.ok))
        raise_if_cancelled()
