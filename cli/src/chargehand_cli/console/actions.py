"""What people do with a session, by both faces of the console."""

from chargehand import (
    Answer,
    CallDecision,
    Plan,
    PlanDecision,
    RaisedLimits,
    Session,
    Status,
)


async def decide_plan(session: Session, decision: PlanDecision) -> Plan:
    """Approve, edit or reject a plan."""
    return await session.decide_plan(decision)


async def decide_call(session: Session, decision: CallDecision) -> Status:
    """Approve, edit or reject a tool call."""
    return await session.decide_call(decision)


async def answer_question(session: Session, answer: Answer) -> Status:
    """Answer a question."""
    return await session.answer(answer)


async def raise_limits(session: Session, raised: RaisedLimits) -> Status:
    """Raise limits."""
    return await session.raise_limits(raised)
