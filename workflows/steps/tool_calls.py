"""The tool calls of a round: which are refused, what each may send out, and which need approval."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from pydantic import JsonValue
from pydantic_core import to_json
from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

from activities.contracts.rounds import MOST_CALLS, Round, ToolCall, ToolRequest, ToolResult
from activities.contracts.tool import READS_DOCUMENTS
from activities.tools.recall import NOTE, RECALL
from activities.turn.contracts import TurnResult
from activities.turn.tool_use import UNKNOWN_OUTCOME, ToolActivities
from chargehand.contracts import Source
from chargehand.contracts.problems import UNSEEN
from chargehand.contracts.waits import call_title
from chargehand.wire import ErrorType
from workflows import options
from workflows.contracts import SubtaskRequest
from workflows.mailbox.contracts import CallReply, CallReport, CallRequest, CallVerdict, QuestionReply, QuestionRequest
from workflows.mailbox.signals import ask, notify
from workflows.metrics import Refusal, count_refusal
from workflows.rules.information_flow import reads_of
from workflows.rules.repetition import made_together, positions_to_make, refuse_repetition
from workflows.rules.tool_policy import acting_call, success_key, why_approved
from workflows.run_end import on_exit, raise_if_cancelled
from workflows.state.agent import AgentWork
from workflows.state.agent_conversation import NOT_MADE, Conversation
from workflows.state.call_approvals import ALLOWED

_DECIDED: Final = frozenset({"approved", "edited", "rejected"})
_REFUSALS: Final[Mapping[CallVerdict, Refusal]] = {
    "rejected": "approval",
    "expired": "approval",
    "applied_before": "loop_guard",
    "unknown_before": "loop_guard",
}
"""Who refused a call, by verdict; the policy for all others."""
_NOT_ALLOWED: Final[Mapping[CallVerdict, str]] = {
    "too_early": "Not yet: {0}. Then make this call again.",
    "rejected": "A person rejected this call. {0}",
    "applied_before": "This call was made and applied before, for this task. Take it as done.",
    "unknown_before": f"This call was made before, for this task. {UNKNOWN_OUTCOME}",
    "expired": "The call was not made: {0}. Go another way, or name the gap.",
}
_MOST_ANSWERS: Final = 5
"""Maximum number of questions from a tool's server that people answer per call."""
_INTERRUPTED: Final = "Interrupted by the user."


async def make_calls(agent: AgentWork, result: TurnResult, number: int) -> None:
    """Make the tool calls of a round, and add the round to the conversation.

    They run concurrently, but a read after an acting call waits for that call.
    """
    request, conversation, calls = agent.request, agent.conversation, result.tool_calls
    chosen = positions_to_make(calls)
    used = {each.position: each.result for each in result.used}
    read: Mapping[str, Source] = conversation.citable if any(call.tool == NOTE.name for call in calls) else {}

    async def answer(position: int, call: ToolCall) -> ToolResult:
        if position not in chosen:
            return call.refuse(f"At most {MOST_CALLS} tools can be used at once; ask for this one again.")
        if call.tool == NOTE.name and request.agent.tools:
            return conversation.note(call, read)
        if refusal := _refusal(agent, calls, position):
            return refusal
        if position in used and call.tool in usable_at_once(agent):
            conversation.count_tool_call()
            return _interruption(call, acts=False) if agent.inbox.is_interrupted else used[position]
        if agent.inbox.is_interrupted:
            return _not_made(call)
        lost = result.lost_workers if call.tool in usable_at_once(agent) else 0
        return await _make(agent, call, f"turn-{number}.{position + 1}", lost)

    results: list[ToolResult] = []
    for beside in made_together(calls, request.agent.acting):
        results += await asyncio.gather(*(answer(position, calls[position]) for position in beside))
    conversation.add(Round(calls=calls, results=tuple(results), provider_items=result.provider_items))


def usable_at_once(work: AgentWork) -> tuple[str, ...]:
    """List the tools that may run within a turn: those that neither reach out nor need approval."""
    request, agent, queues = work.request, work.request.agent, work.request.tool_queues
    bound = {*agent.acting, *agent.approvals, *agent.outward, *(each.tool for each in (*agent.policy, *agent.watched))}
    return tuple(tool for tool in agent.at_once if tool not in bound and queues.of(tool) == request.turns_queue)


async def _make(agent: AgentWork, call: ToolCall, step: str, lost_workers: int) -> ToolResult:
    """Make a call if allowed; if its outcome is unknown, a person decides whether to repeat it."""
    reply = await _request_approval(agent, call)
    if reply is not None and reply.verdict not in ALLOWED:
        if reply.verdict == "unknown_before":
            agent.conversation.doubt(call)
        return _not_allowed(call, reply)
    call = _as_decided(call, reply)
    result = await _use_tool(agent, call, step, reply, lost_workers=lost_workers)
    if result.elicitation is not None:
        result = await _use_with_answers(agent, call, step, reply, result)
    if result.is_unknown and not agent.inbox.is_interrupted:
        decision = await _ask_about(agent, call)
        if decision is None:
            return result
        if decision.verdict not in ALLOWED:
            return call.refuse(f"A person has looked into whether this call was applied. {decision.reason}")
        reply, call = decision, _as_decided(call, decision)
        decided_at = workflow.now() if decision.arguments is None else None
        result = await _use_tool(agent, call, f"{step}.again", reply, decided_at)
    if result.is_unknown:
        agent.conversation.doubt(call)
    elif result.ok:
        agent.conversation.settle(call)
    await _report_call(agent, call, result)
    if reply is None or reply.arguments is None:
        return result
    return result.replace(output={**result.output, "arguments_set_by_a_person": reply.arguments})


async def _use_with_answers(
    agent: AgentWork, call: ToolCall, step: str, reply: CallReply | None, result: ToolResult
) -> ToolResult:
    """Have a person answer the questions of a tool's server, and repeat the call with the answers."""
    request, answers = agent.request, dict[str, dict[str, JsonValue] | None]()
    while (query := result.elicitation) is not None and query.key not in answers and len(answers) < _MOST_ANSWERS:
        body = QuestionRequest(subtask=request.subtask.id, agent=request.agent.name, text=query.asks, form=query.form)
        answered = await ask(agent.mailbox, request.session, body, QuestionReply)
        if answered is None or (answered.content is None and not answered.is_declined):
            break
        answers[query.key] = answered.content
        result = await _use_tool(agent, call, f"{step}.answered-{len(answers)}", reply, answers=answers)
    return result.replace(elicitation=None)


async def _use_tool(
    agent: AgentWork,
    call: ToolCall,
    step: str,
    reply: CallReply | None,
    decided_at: datetime | None = None,
    *,
    answers: Mapping[str, dict[str, JsonValue] | None] | None = None,
    lost_workers: int = 0,
) -> ToolResult:
    """Run a tool, unless the round was interrupted and no person approved the call."""
    is_approved = reply is not None and reply.verdict in _DECIDED
    if agent.inbox.is_interrupted and not is_approved:
        return _not_made(call)
    request, conversation, inbox = agent.request, agent.conversation, agent.inbox
    conversation.count_tool_call()
    acts = call.tool in request.agent.acting
    was_interrupted = inbox.is_interrupted
    tool_request = _tool_request(agent, call, f"{step}.{call.tool}", reply, decided_at)
    try:
        using = workflow.start_activity_method(
            ToolActivities.use_tool,
            tool_request.replace(answers=dict(answers or {}), lost_workers=lost_workers),
            task_queue=request.tool_queues.of(call.tool),
            activity_id=f"{step}.{call.tool}",
            priority=workflow.info().priority,
            summary=call_title(call.tool, call.arguments),
            **options.tool(agent.left(workflow.now())),
        )
        with on_exit(lambda: using.done() or using.cancel()):
            await workflow.wait_condition(lambda: using.done() or inbox.is_interrupted > was_interrupted)
        return await using
    except (asyncio.CancelledError, ActivityError) as error:
        if isinstance(error, asyncio.CancelledError) or is_cancelled_exception(error):
            if workflow.cancellation_reason() is None and inbox.is_interrupted:
                return _interruption(call, acts=acts)
            if acts:
                conversation.doubt(call)
            raise
        cause = error.cause if isinstance(error.cause, ApplicationError) else None
        if acts and not (cause and cause.type == ErrorType.TOOL_NOT_CALLED):
            return call.refuse(UNKNOWN_OUTCOME).replace(is_unknown=True)
        if acts:
            conversation.doubt(call, NOT_MADE)
        message = cause.message if cause else "it timed out"
        failed = call.refuse(f"The tool failed and is not retried: {message}. Go another way, or name the gap.")
        return failed.replace(may_be_repeated=acts)


def _tool_request(
    agent: AgentWork, call: ToolCall, step: str, reply: CallReply | None, decided_at: datetime | None
) -> ToolRequest:
    request = agent.request
    now, until = workflow.now(), request.recallable_until
    entries = [entry for entry in request.recallable if call.tool == RECALL and now < until.get(entry.id, now)]
    recallable = {entry.id: entry for entry in entries}
    acts = call.tool in request.agent.acting
    own = frozenset(request.agent.capabilities).union(READS_DOCUMENTS if agent.conversation.has_private_text else ())
    reads = reads_of([frozenset(request.reads)], own) if acts else ()
    return request.make(
        ToolRequest,
        step=step,
        agent=request.agent.name,
        subtask=(request.path or request.subtask.id) if acts else "",
        call=call,
        decision=f"{reply.verdict} by {reply.by or 'a person'}" if reply and reply.verdict in _DECIDED else "",
        decided_at=decided_at,
        outcome=recallable.get(str(call.arguments.get("id"))),
        known=tuple(recallable),
        private=_private_texts(request),
        public=_public_texts(request, agent.conversation),
        reads=tuple(sorted(reads)),
    )


def _as_decided(call: ToolCall, reply: CallReply | None) -> ToolCall:
    if reply is None or reply.arguments is None:
        return call
    return call.replace(arguments=reply.arguments)


async def _ask_about(agent: AgentWork, call: ToolCall) -> CallReply | None:
    """Have a person decide about a call of unknown outcome; None without a decision."""
    agent.conversation.doubt(call)
    reply = await _request_approval(agent, call, is_doubtful=True)
    if reply is None or reply.verdict not in _DECIDED:
        return None
    agent.conversation.settle(call)
    return reply


async def _request_approval(work: AgentWork, call: ToolCall, *, is_doubtful: bool = False) -> CallReply | None:
    """Ask the root session for approval of a call; None if it needs none.

    A doubtful call was made but may not have been applied: a person decides whether to repeat it.
    """
    request, agent = work.request, work.request.agent
    policy = tuple(each for each in agent.policy if each.tool == call.tool)
    needs_approval, acts = call.tool in agent.approvals, call.tool in agent.acting
    why = _why_outgoing(work, call)
    if not policy and not needs_approval and not acts and not why:
        return None
    body = CallRequest(
        subtask=request.path or request.subtask.id,
        agent=agent.name,
        tool=call.tool,
        arguments=call.arguments,
        needs_approval=needs_approval,
        why=why,
        policy=policy,
        acts=acts,
        is_doubtful=is_doubtful,
    )
    reply = await ask(work.mailbox, request.session, body, CallReply)
    return reply or CallReply(verdict="denied", reason="the session that decides about it does not answer")


def _why_outgoing(work: AgentWork, call: ToolCall) -> str:
    """Explain why a call that could leak private text needs a person's decision; empty if it needs none."""
    request, outward = work.request, work.request.agent.outward
    if call.tool not in outward or not work.conversation.has_private_text:
        return ""
    return why_approved(
        call.arguments,
        kept=outward[call.tool],
        said=_user_words(request, work.conversation),
        policy=[each for each in request.agent.policy if each.tool == call.tool],
        calls=work.conversation.count_outgoing(),
    )


async def _report_call(work: AgentWork, call: ToolCall, result: ToolResult) -> None:
    """Report the result of a call to the root session, if a policy depends on it or it acts."""
    request, mailbox = work.request, work.mailbox
    watched = [each for each in request.agent.watched if each.tool == call.tool and result.ok]
    keys = tuple(success_key(each, call.arguments) for each in watched)
    is_certain = call.tool in request.agent.acting and not result.is_unknown
    acted = acting_call(request.path or request.subtask.id, call.tool, call.arguments) if is_certain else ""
    if keys or acted:
        await notify(mailbox, mailbox.outbox(request.session), CallReport(keys=keys, acted=acted, is_applied=result.ok))
        raise_if_cancelled()


def _refusal(work: AgentWork, calls: Sequence[ToolCall], position: int) -> ToolResult | None:
    request, conversation, call = work.request, work.conversation, calls[position]
    if call.tool not in request.agent.tools:
        count_refusal("permission")
        return call.refuse(f"You have no such tool. Your tools: {', '.join(request.agent.tools) or 'none'}.")
    repetition = refuse_repetition(call, conversation.recent, work.effects, calls)
    if repetition is None and call.tool in request.agent.acting:
        repetition = refuse_repetition(call, [*conversation.recent, Round(calls=tuple(calls[:position]))], work.effects)
        # The earlier call may turn out not to be made.
        repetition = repetition and repetition.replace(may_be_repeated=True)
    if repetition is not None:
        count_refusal("loop_guard")
        return repetition
    if call.malformed:
        return call.refuse(f"The arguments could not be read: {call.malformed}. Send them again.")
    return None


def _not_allowed(call: ToolCall, reply: CallReply) -> ToolResult:
    count_refusal(_REFUSALS.get(reply.verdict, "policy"))
    why = _NOT_ALLOWED.get(reply.verdict, "The policy denies this call: {0}. Go another way, or name the gap.")
    return call.refuse(why.format(reply.reason).strip()).replace(may_be_repeated=reply.verdict == "too_early")


def _private_texts(request: SubtaskRequest) -> tuple[str, ...]:
    """Collect the private texts that no address may contain, for an agent that reaches out."""
    if not request.has_private_inputs or "reaches_out" not in request.agent.capabilities:
        return ()
    outcomes = [source.outcome for source in (*request.inputs, *request.recallable)]
    quotes = (source.quote for outcome in outcomes for source in outcome.sources)
    claims = (finding.claim for outcome in outcomes for finding in outcome.findings)
    data = (to_json(outcome.data).decode() for outcome in outcomes if outcome.data is not None)
    return tuple(text for text in (*(outcome.content for outcome in outcomes), *claims, *quotes, *data) if text)


def _public_texts(request: SubtaskRequest, conversation: Conversation) -> tuple[str, ...]:
    """Collect what an agent may send out even if private text also contains it."""
    if "reaches_out" not in request.agent.capabilities:
        return ()
    # Addresses found by an agent without access to private text, unchanged.
    addresses = () if "reads_private" in request.agent.capabilities else conversation.all_addresses
    return (*_user_words(request, conversation), *addresses)


def _user_words(request: SubtaskRequest, conversation: Conversation) -> tuple[str, ...]:
    approved = (request.subtask.instruction, to_json(request.subtask.input).decode()) if request.is_approved else ()
    approved = tuple(text for text in approved if not UNSEEN.search(text))  # people have not seen its content
    return (*request.said, *approved, *(item.text for item in request.messages), *conversation.said)


def _not_made(call: ToolCall) -> ToolResult:
    return call.refuse(f"{_INTERRUPTED} It was not made.").replace(may_be_repeated=True)


def _interruption(call: ToolCall, *, acts: bool) -> ToolResult:
    """Return the result of an interrupted call; whether an acting one was applied is unknown."""
    if acts:
        return call.refuse(f"{_INTERRUPTED} {UNKNOWN_OUTCOME}").replace(is_unknown=True)
    return call.refuse(_INTERRUPTED).replace(may_be_repeated=True)
