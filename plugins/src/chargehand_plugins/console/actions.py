"""What people do with a session, by both faces of the console."""

from http import HTTPStatus

from chargehand import Answer, CallDecision, Plan, PlanDecision, PlanEdit, RaisedLimits, Session, Status, UserMessage
from chargehand_plugins.console.problems import Problem, invalid


async def decide_plan(session: Session, decision: PlanDecision) -> Plan | None:
    """Approve, edit or reject a plan; returns the plan that is carried out, if any."""
    if (decision.plan is not None) != (decision.decision == "edit"):
        raise invalid("decision", ["plan: is required with the decision 'edit', and allowed with no other"])
    if decision.plan is not None:
        return await session.edit(decision.plan)
    if decision.decision == "approve":
        return await session.approve()
    await session.reject(decision.reason)
    return None


async def decide_call(session: Session, decision: CallDecision) -> Status:
    """Approve, edit or reject the tool call that the person has seen."""
    waiting = (await session.status()).calls
    call = next((each for each in waiting if (each.id, each.hash) == (decision.call, decision.hash)), None)
    if call is None:
        raise Problem(HTTPStatus.CONFLICT, f"call: '{decision.call}' with this hash does not wait for a decision.")
    if decision.decision == "reject":
        return await session.reject_call(call, decision.reason)
    if (decision.arguments is not None) != (decision.decision == "edit"):
        raise invalid("decision", ["arguments: are required with the decision 'edit', and allowed with no other"])
    return await session.approve_call(call, decision.arguments)


async def edit_plan(session: Session, edit: PlanEdit) -> Plan:
    """Change what has not begun of a plan."""
    return await session.edit_plan(*edit.edits)


async def tell(session: Session, message: UserMessage) -> Status:
    """Have agents read a message."""
    return await session.tell(message.text, message.subtask)


async def answer_question(session: Session, answer: Answer) -> Status:
    """Answer a question."""
    return await session.answer(answer.subtask, answer.text)


async def raise_limits(session: Session, raised: RaisedLimits) -> Status:
    """Raise limits."""
    return await session.raise_limits(
        max_turns=raised.max_turns, budget_usd=raised.budget_usd, deadline=raised.deadline
    )
