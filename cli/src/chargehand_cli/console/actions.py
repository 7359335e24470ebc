"""What people do with a session, by both faces of the console."""

from chargehand import (
    Answer,
    CallDecision,
    Plan,
    PlanDecision,
    PlanEdit,
    RaisedLimits,
    Session,
    Status,
    UserMessage,
)


async def decide_plan(session: Session, decision: PlanDecision) -> Plan:
    """Approve, edit or reject a plan."""
    return await session.decide_plan(decision)


async def decide_call(session: Session, decision: CallDecision) -> Status:
    """Approve, edit or reject a tool call."""
    return await session.decide_call(decision)


async def edit_plan(session: Session, edit: PlanEdit) -> Plan:
    """Change what has not begun of a plan."""
    return await session.edit_plan(*edit.edits)


async def tell(session: Session, message: UserMessage) -> Status:
    """Have agents read a message."""
    return await session.tell(message.text, message.subtask)


async def answer_question(session: Session, answer: Answer) -> Status:
    """Answer a question."""
    return await session.answer(answer)


async def raise_limits(session: Session, raised: RaisedLimits) -> Status:
    """Raise limits."""
    return await session.raise_limits(raised)
