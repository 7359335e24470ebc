"""What people do with a session, by both faces of the console."""

from chargehand import Plan, PlanDecision, Session


async def decide_plan(session: Session, decision: PlanDecision) -> Plan | None:
    """Approve, edit or reject a plan; returns the plan that is carried out, if any."""
    if decision.plan is not None:
        return await session.edit(decision.plan)
    if decision.decision == "approve":
        return await session.approve()
    await session.reject(decision.reason)
    return None
