"""Requests of people and subtasks to a session, and the decisions: about plans, tool calls and grants.

The root session decides about the calls of its whole tree, by policy or with a person.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from pydantic import JsonValue
from temporalio import workflow

from activities.contracts.rounds import CallCheck
from activities.turn.tool_use import ToolActivities
from activities.turn_kinds.judgements import JudgeCallAnswer, JudgeCallTask
from chargehand.contracts import Answer, CallDecision, EditRecord, Plan, PlanDecision, PlanEdit, Question, Tier, Wait
from chargehand.contracts.problems import join_problems, one_line
from chargehand.contracts.waits import call_title
from chargehand.converter import non_retryable_error
from chargehand.wire import ErrorType, WorkflowType
from workflows import options
from workflows.budget.ledger import Amount
from workflows.mailbox.contracts import (
    CallReply,
    CallReport,
    CallRequest,
    Envelope,
    Grant,
    GrantRequest,
    PlacesNotice,
    QuestionReply,
    QuestionRequest,
    SteeringItem,
)
from workflows.mailbox.mailbox import Mailbox
from workflows.mailbox.signals import answer, notify
from workflows.metrics import count_refusal
from workflows.rules.forms import read_form
from workflows.rules.plan_edits import apply_edits
from workflows.rules.plan_validation import InvalidPlan
from workflows.rules.refusal import Refused
from workflows.run_end import on_exit
from workflows.state.call_approvals import Pending
from workflows.state.progress import VERDICTS, Progress
from workflows.state.session import Session
from workflows.state.steering import Delivery
from workflows.steps.effects import (
    enter,
    new_wait,
    publish,
    resume,
    try_turn,
    wait_for_budget,
    wait_for_person,
    wait_for_returns,
)
from workflows.steps.plan import invalid_plan, validate

_LONGEST_DOUBT: Final = 300
_MOST_EDITS: Final = 500
"""Maximum per session, since its status and report list them all."""


async def act_on(session: Session, envelope: Envelope) -> bool:
    """Act on a request or notice; false if it cannot be from this session's tree."""
    is_below = session.request.delegation is None and envelope.sender.startswith(f"{session.root}/{session.run}/")
    match envelope.body:
        case GrantRequest() as request if envelope.sender in session.budget.grants.amounts:
            await _answer_grant_request(session, envelope, request)
        case CallRequest() as request if is_below:
            await _answer_call_request(session, envelope, request)
        case QuestionRequest() as request if is_below:
            await _answer_question_request(session, envelope, request)
        case CallReport() as report if is_below:
            session.approvals.policy.note_success(report.keys)
            if report.acted:
                session.approvals.note_outcome(report.acted, is_applied=report.is_applied)
        case SteeringItem() as item if session.request.delegation is not None:
            await _pass_on(session, item)
        case PlacesNotice() as places if (parent := workflow.info().parent) and parent.workflow_id == envelope.sender:
            session.places.grow(min(places.total, session.request.limits.max_parallel))
            if places.is_paused != session.clock.is_paused:
                session.clock.pause() if places.is_paused else session.clock.resume()
        case _:
            return False
    return True


async def _answer_call_request(session: Session, envelope: Envelope, request: CallRequest) -> None:
    """Decide about a subtask's call, with a person if it needs approval, and send the reply."""
    is_message = workflow.info().workflow_type == WorkflowType.CONVERSATION
    doubt = session.approvals.doubt_of_another(request) if is_message else ""
    if not doubt and session.approvals.needs_judge(request):
        doubt = await _doubt(session, request)
    reply, pending = session.approvals.judge(request, doubt), None
    if reply is None:
        wait = new_wait(session, "call", session.approvals.next_id, call_title(request.tool, request.arguments))
        pending = session.approvals.open(envelope, request, wait.until, doubt)
        reply = await _decision(session, pending, wait)
        if request.why and reply.verdict == "expired":
            call = f"{request.tool}, asked for by {request.agent} for {request.subtask}"
            session.progress.add_gaps([f"Not called: {call}. It needed a person's approval in time: {request.why}."])
    is_delivered = await answer(session.mailbox, envelope, reply)
    if not is_delivered:
        # The subtask has ended in the meantime and will not make the call.
        session.approvals.withdraw(request, reply)
    if pending is not None:
        pending.deliver(is_delivered)


async def _answer_question_request(session: Session, envelope: Envelope, request: QuestionRequest) -> None:
    """Ask a person the questions of a subtask's tool, one at a time, and send the reply.

    Subtasks of nested sessions get no answer.
    """
    child, progress = envelope.sender, session.progress

    def is_over() -> bool:
        return session.clock.work_is_over or child not in session.budget.grants.amounts

    reply = QuestionReply()
    if session.may_ask:
        await workflow.wait_condition(lambda: is_over() or request.subtask not in progress.questions)
        if not is_over():
            response = await ask_person(
                session, request.subtask, request.agent, request.text, form=request.form, is_over=is_over
            )
            if response is not None:
                content = None if response.text is None else read_form(request.form, response.text)
                reply = QuestionReply(content=content, is_declined=response.text is None)
    await answer(session.mailbox, envelope, reply)


async def _answer_grant_request(session: Session, envelope: Envelope, request: GrantRequest) -> None:
    """Enlarge a running child's grant, or refuse.

    Running children take precedence over waiting subtasks: everything unspent can be granted. A child waits until
    others return enough, the limits are raised, or no child is left that could return anything.
    """
    child = envelope.sender
    session.budget.grants.queue(child, is_optional=request.is_optional)
    granted = await _enlarge_in_time(session, child, request)
    session.budget.grants.dequeue(child, is_optional=request.is_optional)
    publish(session)
    # A child that has ended needs no reply: its grant was returned with its outcome.
    await answer(session.mailbox, envelope, Grant(turns=granted.turns, usd=granted.usd))


async def _enlarge_in_time(session: Session, child: str, request: GrantRequest) -> Amount:
    """Enlarge a grant as soon as enough is unspent; zero if that will not happen."""
    missing, granted = Amount(request.turns, request.usd), Amount()

    def is_in_vain() -> bool:
        grants = session.budget.grants
        return not grants.may_grow(child, missing) or grants.is_hopeless(child, is_optional=request.is_optional)

    is_hopeless = missing == granted  # only a forged request asks for zero
    while granted == Amount() and not is_hopeless:
        wait = wait_for_returns if request.is_optional else wait_for_budget
        await wait(session, missing, is_in_vain)
        if session.clock.work_is_over:
            break
        # If several children wait for the same amount, the others keep waiting.
        is_hopeless = is_in_vain()
        unfinished = len(session.progress.subtasks) - len(session.progress.outcomes)
        granted = session.budget.grants.enlarge(child, missing, unfinished)
    return granted


async def ask_person(
    session: Session,
    subtask: str,
    agent: str,
    text: str,
    *,
    form: dict[str, JsonValue] | None = None,
    is_over: Callable[[], bool] = lambda: False,
) -> Answer | None:
    """Ask a person a subtask's question; None if no answer arrives in time."""
    progress = session.progress
    wait = new_wait(session, "question", f"question-{subtask}", text)
    progress.ask(Question(subtask=subtask, agent=agent, text=text, form=form or {}, open_until=wait.until))
    enter(session, "awaiting_answer")
    answered: Answer | None = None

    def end() -> None:
        nonlocal answered
        answered = progress.close_question(subtask)

    with on_exit(end):
        await wait_for_person(
            session, wait, lambda: subtask in progress.answers or session.clock.work_is_over or is_over()
        )
    if progress.state == "awaiting_answer":
        resume(session)
    return answered


async def _doubt(session: Session, request: CallRequest) -> str:
    agent, budget = session.facts.crew.agent(request.agent), session.budget
    others = [tier for tier in Tier if agent is None or budget.model(tier).name != budget.model_of(agent).name]
    texts = session.said_since
    task = JudgeCallTask(goal=session.request.goal, said=texts or (), tool=request.tool, arguments=request.arguments)
    if texts is None or not task.is_short:
        return "the call, or what the user has said, is too long for a model to judge"
    judged = await try_turn(session, task, JudgeCallAnswer, tier=others[0] if others else Tier.SMALL)
    if judged is None:
        return "no model could judge it"
    if session.said_since != texts:
        return "the user has said more since a model was asked"
    if judged.is_expected and not judged.reason:
        return ""
    return f"a model finds: {judged.reason[:_LONGEST_DOUBT] or 'it is not expected'}"


async def _decision(session: Session, pending: Pending, wait: Wait) -> CallReply:
    if session.progress.state == "executing":
        enter(session, "awaiting_call_approval")
    publish(session)
    await wait_for_person(session, wait, lambda: pending.reply is not None or session.progress.work_is_over)
    why = "the work was stopped" if session.progress.work_is_over else "it was not approved in time"
    reply = pending.reply or session.approvals.expire(pending, why)
    if session.progress.state == "awaiting_call_approval":
        resume(session)
    publish(session)
    return reply


async def decide_call(session: Session, decision: CallDecision) -> None:
    """Apply a person's decision to its call, and wait until the subtask has received it."""
    if problems := await _argument_problems(session, decision):
        raise Refused(join_problems(problems))
    pending = session.approvals.decide(decision)
    session.progress.waits.decide(decision.call, VERDICTS[decision.decision], decision.by)
    await workflow.wait_condition(lambda: pending.is_delivered is not None)
    if not pending.is_delivered:
        raise Refused(f"call: the subtask of '{decision.call}' has ended meanwhile; the call is not made.")


async def _argument_problems(session: Session, decision: CallDecision) -> list[str]:
    called = next((call for call in session.approvals.pending if call.id == decision.call), None)
    if called is None or decision.arguments is None:
        return []
    checking = workflow.execute_activity_method(
        ToolActivities.check_call,
        CallCheck(session=session.root, tool=called.tool, arguments=decision.arguments),
        summary=f"check the arguments of {called.id}",
        **options.CHECK,
    )
    checked = await options.unless_failed(checking)
    return list(checked.problems) if checked else ["arguments: could not be checked; try again"]


def decide_plan(session: Session, decision: PlanDecision) -> Plan:
    """Apply a person's decision about the plan; an edited plan is validated like any other."""
    if decision.plan is not None:
        try:
            session.progress.adopt(validate(session, decision.plan))
        except InvalidPlan as error:
            session.progress.waits.release("plan")
            raise invalid_plan(error.errors) from None
    return session.progress.decide(decision)


async def await_approval(session: Session) -> Plan | None:
    """Wait for a person's decision on the plan; return the plan, edited or not, or None if none arrives."""
    progress = session.progress
    enter(session, "awaiting_approval")
    asks = "; ".join(
        f"{each.id} by {each.agent}: {one_line(each.instruction, 80).rstrip('.')}" for each in progress.subtasks
    )
    wait = new_wait(session, "plan", "plan", asks)
    await wait_for_person(session, wait, lambda: progress.decision is not None)
    if progress.decision is None:
        session.clock.interrupt()
        progress.add_gaps([f"The plan was not approved by {wait.until:%Y-%m-%d %H:%M} UTC."])
        return None
    if progress.decision.decision == "reject":
        count_refusal("approval")
        raise non_retryable_error(ErrorType.PLAN_REJECTED, f"The plan was rejected. {progress.decision.reason}".strip())
    return progress.plan


def check_edit(session: Session, edit: PlanEdit) -> tuple[Plan, tuple[EditRecord, ...]]:
    """Apply edits to a copy of the plan, and validate it.

    Raises:
        Refused: the work is over.
        InvalidPlan: with all errors.
    """
    progress = session.progress
    progress.refuse_if_over()
    if progress.plan is None:
        raise InvalidPlan(["edits: there is no plan yet"])
    if len(progress.edits) + len(edit.edits) > _MOST_EDITS:
        raise InvalidPlan([f"edits: a session takes {_MOST_EDITS} at most, and has taken {len(progress.edits)}"])
    draft, records = apply_edits(progress.plan, edit.edits, progress.begun, workflow.now())
    if len(draft.subtasks) > 1 and not session.budget.report_reserve.is_payable:
        raise InvalidPlan(["edits: the limits cannot pay for a report on several subtasks; raise them first"])
    return validate(session, draft, begun=progress.begun), records


def edit_plan(session: Session, edit: PlanEdit) -> Plan:
    """Adopt the edited plan."""
    plan, records = check_edit(session, edit)
    if len(plan.subtasks) > 1:
        session.budget.report_reserve.hold()
        session.budget.reserve_report(session.report_words)
    session.progress.edit(plan, records)
    publish(session)
    return plan


def check_steering(progress: Progress, text: str, path: str) -> None:
    """Refuse a message that no agent can read, or an interruption of a subtask that is not running."""
    progress.refuse_if_over()
    subtask, _, below = path.partition("/")
    running = progress.steering.running
    open_ = [each.id for each in progress.subtasks if each.id not in progress.outcomes]
    if text and path and subtask not in open_:
        problem = "has ended" if subtask in progress.outcomes else "is not in the plan"
        raise Refused(f"subtask: '{subtask}' {problem}; subtasks that have not ended: {', '.join(open_) or 'none'}")
    if not text and (not running or (path and subtask not in running)):
        named = f"'{subtask}' does not run" if path else "no agent runs"
        raise Refused(f"subtask: {named}; subtasks that run: {', '.join(running) or 'none'}")
    if below and not progress.steering.nested(subtask):
        raise Refused(f"subtask: '{subtask}' is no nested session that runs; leave out '/{below}'")
    if text:
        progress.steering.check_room(text)


async def steer(mailbox: Mailbox, progress: Progress, text: str, path: str) -> None:
    """Store a message for its addressees, and send it to the running ones; without text, interrupt these."""
    item, ways = progress.steering.address(text, path)

    async def send(way: Delivery) -> None:
        # If the child has ended, the next attempt gets the stored message.
        if await notify(mailbox, way, item):
            way.give([item])

    await asyncio.gather(*map(send, ways))


async def _pass_on(session: Session, item: SteeringItem) -> None:
    """Pass a parent's message on to the agents of a nested session; if none can read it, it becomes a gap."""
    try:
        session.progress.refuse_if_over()
        if item.text:
            check_steering(session.progress, item.text, item.path)
    except Refused:
        session.progress.steering.lose(item)
    else:
        await steer(session.mailbox, session.progress, item.text, item.path)
