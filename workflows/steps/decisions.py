"""What people decide: about a plan and changes of it, and about tool calls.

The session at the root decides about the calls of its whole tree, by policy or with a person.
"""

from collections.abc import Callable
from typing import Final

from pydantic import JsonValue
from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

from activities.contracts.calls import CallCheck
from activities.turn.tool_use import ToolActivities
from activities.turn_kinds.judge_call import JudgeCallAnswer, JudgeCallTask
from chargehand.contracts import CallDecision, EditRecord, Plan, PlanDecision, PlanEdit, Question, Tier, Wait
from chargehand.contracts.problems import join_problems
from chargehand.contracts.waits import call_title
from chargehand.wire import ErrorType, WorkflowType
from workflows import options
from workflows.mailbox.contracts import CallReply, CallReport, CallRequest, Envelope, QuestionReply, QuestionRequest
from workflows.mailbox.signals import answer
from workflows.metrics import count_refusal
from workflows.on_exit import on_exit
from workflows.rules.forms import read_form
from workflows.rules.plan_edits import apply_edits
from workflows.rules.plan_validation import InvalidPlan
from workflows.rules.refusal import Refused
from workflows.state.call_approvals import Pending
from workflows.state.progress import VERDICTS
from workflows.state.session import Session
from workflows.steps.plan import invalid_plan, validate
from workflows.steps.turns import try_turn
from workflows.steps.visibility import enter, publish, resume
from workflows.steps.waits import new_wait, wait_for_person

_LONGEST_DOUBT: Final = 300
_MOST_EDITS: Final = 500
"""Of one session: its status and its report name them all."""


async def answer_subtask(session: Session, envelope: Envelope, request: CallRequest | QuestionRequest) -> bool:
    """Answer what a subtask asks, with a person if need be.

    False if no subtask of this session can have sent the request.
    """
    if not _is_below(session, envelope.sender):
        return False
    if isinstance(request, CallRequest):
        await _answer_call_request(session, envelope, request)
    else:
        await _answer_question_request(session, envelope, request)
    return True


async def _answer_call_request(session: Session, envelope: Envelope, request: CallRequest) -> None:
    """Decide about a call of a subtask, with a person if it needs approval, and send the reply."""
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
            asked = f"{request.tool}, asked for by {request.agent} for {request.subtask}"
            session.progress.add_gaps([f"Not called: {asked}. It needed a person's approval in time: {request.why}."])
    is_delivered = await answer(session.mailbox, envelope, reply)
    if not is_delivered:
        # The subtask has ended meanwhile, and does not make the call.
        session.approvals.withdraw(request, reply)
    if pending is not None:
        pending.deliver(is_delivered)


async def _answer_question_request(session: Session, envelope: Envelope, request: QuestionRequest) -> None:
    """Ask a person what a tool of a subtask needs to know, one question after the other, and send the reply.

    Subtasks of nested sessions get no answer.
    """
    child, progress = envelope.sender, session.progress

    def is_over() -> bool:
        return session.clock.work_is_over or child not in session.budget.grants.amounts

    content = None
    if session.may_ask:
        await workflow.wait_condition(lambda: is_over() or request.subtask not in progress.questions)
        if not is_over():
            text = await ask_person(
                session, request.subtask, request.agent, request.text, form=request.form, is_over=is_over
            )
            content = None if text is None else read_form(request.form, text)
    await answer(session.mailbox, envelope, QuestionReply(content=content))


async def ask_person(
    session: Session,
    subtask: str,
    agent: str,
    text: str,
    *,
    form: dict[str, JsonValue] | None = None,
    is_over: Callable[[], bool] = lambda: False,
) -> str | None:
    """Ask a person a question of a subtask; None without an answer in time."""
    progress = session.progress
    wait = new_wait(session, "question", f"question-{subtask}", text)
    progress.ask(Question(subtask=subtask, agent=agent, text=text, form=form or {}, open_until=wait.until))
    enter(session, "awaiting_answer")
    answered: str | None = None

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


def note_outcome(session: Session, envelope: Envelope, report: CallReport) -> bool:
    """Note what became of a call; false if no subtask of this session can have said so."""
    if not _is_below(session, envelope.sender):
        return False
    session.approvals.policy.note_success(report.keys)
    if report.acted:
        session.approvals.note_outcome(report.acted, is_applied=report.is_applied)
    return True


async def _doubt(session: Session, request: CallRequest) -> str:
    """Have a model judge a call; returns why a person has to decide, empty if it is expected."""
    agent, budget = session.facts.crew.agent(request.agent), session.budget
    others = [tier for tier in Tier if agent is None or budget.model(tier).name != budget.model_of(agent).name]
    task = JudgeCallTask(goal=session.request.goal, tool=request.tool, arguments=request.arguments)
    judged = await try_turn(session, task, JudgeCallAnswer, tier=others[0] if others else Tier.SMALL)
    if judged is None:
        return "no model could judge it"
    return "" if judged.is_expected else f"a model finds: {judged.reason[:_LONGEST_DOUBT] or 'it is not expected'}"


async def _decision(session: Session, pending: Pending, wait: Wait) -> CallReply:
    """Wait for a person, until the session stops its work."""
    if session.progress.state == "executing":
        enter(session, "awaiting_call_approval")
    publish(session)
    await wait_for_person(session, wait, lambda: pending.reply is not None or session.progress.work_is_over)
    reply = pending.reply or session.approvals.expire(pending)
    if session.progress.state == "awaiting_call_approval":
        resume(session)
    publish(session)
    return reply


async def decide_call(session: Session, decision: CallDecision) -> None:
    """Apply a person's decision to the call that it names, and wait until the subtask has it."""
    if problems := await _argument_problems(session, decision):
        raise Refused(join_problems(problems))
    pending = session.approvals.decide(decision)
    session.progress.waits.decide(decision.call, VERDICTS[decision.decision], decision.by)
    await workflow.wait_condition(lambda: pending.is_delivered is not None)
    if not pending.is_delivered:
        raise Refused(f"call: the subtask of '{decision.call}' has ended meanwhile; the call is not made.")


async def _argument_problems(session: Session, decision: CallDecision) -> list[str]:
    """List what keeps a tool from being called with the arguments that a person has written."""
    called = next((call for call in session.approvals.pending if call.id == decision.call), None)
    if called is None or decision.arguments is None:
        return []
    try:
        checked = await workflow.execute_activity_method(
            ToolActivities.check_call,
            CallCheck(session=session.root, tool=called.tool, arguments=decision.arguments),
            summary=f"check the arguments of {called.id}",
            **options.CHECK,
        )
    except ActivityError as error:
        if is_cancelled_exception(error):
            raise
        return ["arguments: could not be checked; try again"]
    return list(checked.problems)


def _is_below(session: Session, child: str) -> bool:
    return session.request.delegation is None and child.startswith(f"{session.root}/{session.run}/")


def decide_plan(session: Session, decision: PlanDecision) -> Plan:
    """Apply a person's decision; an edited plan is validated like any plan."""
    if decision.plan is not None:
        try:
            session.progress.adopt(validate(session, decision.plan))
        except InvalidPlan as error:
            session.progress.receive_decision(is_received=False)
            raise invalid_plan(error.errors) from None
    return session.progress.decide(decision)


async def await_approval(session: Session) -> Plan | None:
    """Wait for a person's decision on the plan; returns the plan, as edited, or None without a decision in time."""
    progress = session.progress
    enter(session, "awaiting_approval")
    asks = "; ".join(f"{each.id} by {each.agent}: {each.instruction[:80]}" for each in progress.subtasks)
    wait = new_wait(session, "plan", "plan", asks)
    await wait_for_person(session, wait, lambda: progress.decision is not None)
    if progress.decision is None:
        session.clock.interrupt()
        progress.add_gaps([f"The plan was not approved by {wait.until:%Y-%m-%d %H:%M} UTC."])
        return None
    if progress.decision.decision == "reject":
        count_refusal("approval")
        raise ApplicationError(
            f"The plan was rejected. {progress.decision.reason}".strip(),
            type=ErrorType.PLAN_REJECTED,
            non_retryable=True,
        )
    return progress.plan


def check_edit(session: Session, edit: PlanEdit) -> tuple[Plan, tuple[EditRecord, ...]]:
    """Apply an edit to a copy of the plan, and check that like any plan.

    Raises:
        Refused: the work is over.
        InvalidPlan: with every reason against it.
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
    """Follow the plan as edited."""
    plan, records = check_edit(session, edit)
    if len(plan.subtasks) > 1:
        session.budget.report_reserve.hold()
        session.budget.reserve_report(session.report_words)
    session.progress.edit(plan, records)
    publish(session)
    return plan
