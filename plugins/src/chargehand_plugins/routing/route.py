"""Routes of a crew by rule or model instead of a plan, and backups of agents whose task queue is slow."""

from datetime import timedelta
from typing import Final

from temporalio import workflow

from activities.contracts.session import BacklogRequest
from activities.opening.backlogs import BacklogActivities
from activities.turn_kinds.plan import RouteAnswer, RouteDraft, RouteTask
from chargehand.contracts import Plan, Route, Subtask, Tier
from chargehand.errors import InvalidInput
from chargehand_plugins.routing.rules import plan_by_model, plan_by_rule, plan_for_agent, rule_for
from workflows import options
from workflows.budget.model_calls import TurnLost
from workflows.rules.information_flow import capabilities_of, is_leak
from workflows.rules.plan_validation import InvalidPlan
from workflows.state.session import Session
from workflows.steps.attempts import is_unapproved
from workflows.steps.effects import add_route, take_turn
from workflows.steps.plan import validate

_MOST_ROUTES: Final = 2
_REASON_CHARACTERS: Final = 300


async def route(session: Session) -> Plan | None:
    """Route the request to agents by the crew's routes and adopt that plan; None if it must be planned.

    Takes at most one model turn. Unused routes are recorded with the reason.
    """
    routing, delegation = session.facts.crew.routing, session.request.delegation
    if delegation is not None and not delegation.crew_changes:
        return None
    rule_match = rule_for(routing, session.request.goal)
    if rule_match is not None:
        rule, pattern = rule_match
        agents = (*rule.agents, rule.then) if rule.then else rule.agents
        reason = f"the request matches {pattern}"
        plan = plan_by_rule(rule, session.request.goal, session.facts.crew.strategy)
        return _adopt(session, plan, [Route(by="rule", agent=agent, reason=reason) for agent in agents])
    match routing.otherwise:
        case "model":
            return await _by_model(session)
        case "fallback":
            return _by_fallback(session, "no rule matches the request")
        case "plan":
            return None


async def around_backlog(session: Session, subtask: Subtask) -> tuple[Subtask, Tier | None]:
    """Choose the backup of an agent whose task queue is slow: another agent or tier."""
    agent = session.facts.crew.agent(subtask.agent)
    if agent is None or agent.slow is None:
        return subtask, None
    slow = agent.slow
    queue = slow.queue or session.facts.turns_queue or workflow.info().task_queue
    age = await _age_of(queue)
    if age is None or age <= slow.after:
        return subtask, None
    waits = f"the oldest task of queue {queue} waits {age.total_seconds():.0f} s"
    if slow.tier is not None:
        reason = f"{waits}; tier {slow.tier} instead of {agent.tier}"
        add_route(session, Route(by="load", subtask=subtask.id, agent=agent.name, reason=reason))
        return subtask, slow.tier
    backup = slow.agent or ""
    planned, able = session.progress.planned_version(subtask), capabilities_of(backup, session.facts.crew)
    against = ""
    if is_leak(able, session.provenance.of_inputs(subtask, planned)):
        against = "its inputs are private"
    elif is_unapproved(session, able, planned):
        against = f"it reaches out, and the plan was approved with {agent.name}"
    reason = f"{waits}, but {against}" if against else f"{waits}; instead of {agent.name}"
    add_route(session, Route(by="load", subtask=subtask.id, agent=backup, reason=reason, used=not against))
    return (subtask if against else subtask.model_copy(update={"agent": backup})), None


async def _by_model(session: Session) -> Plan | None:
    try:
        result = await take_turn(session, RouteTask(goal=session.request.goal), tier=Tier.SMALL)
    except TurnLost as error:
        return _by_fallback(session, f"no model named a route: {error}")
    answer = result.answer_as(RouteAnswer)
    if answer is None:
        return _by_fallback(session, f"the router's answer was not usable: {result.problem or result.stop}")
    threshold = session.facts.crew.confidence_threshold
    if answer.confidence < threshold:
        problem = f"the router's confidence of {answer.confidence} is below {threshold}"
    elif not answer.routes:
        problem = "the router named no agent"
    elif (plan := _usable(session, answer.routes)) is not None:
        return plan
    else:
        problem = "the router's first route was not usable"
    session.budget.spending.waste_last()
    return _by_fallback(session, problem)


def _usable(session: Session, drafts: list[RouteDraft]) -> Plan | None:
    """Adopt the routes, or else only the first one; None if that is also unusable."""
    for count in range(min(len(drafts), _MOST_ROUTES), 0, -1):
        selected = drafts[:count]
        try:
            plan = validate(session, plan_by_model(selected, session.facts.crew.strategy))
        except (InvalidPlan, InvalidInput) as error:
            problem = error.errors[0] if isinstance(error, InvalidPlan) else str(error)
            add_route(session, _route(selected[-1], f"dropped: {problem}", used=False))
            continue
        for draft in drafts[_MOST_ROUTES:]:
            add_route(session, _route(draft, f"dropped: at most {_MOST_ROUTES} routes are used", used=False))
        return _adopt(session, plan, [_route(draft, draft.reason) for draft in selected])
    return None


def _route(draft: RouteDraft, reason: str, *, used: bool = True) -> Route:
    return Route(by="model", agent=draft.agent[:40], reason=reason[:_REASON_CHARACTERS], used=used)


def _by_fallback(session: Session, reason: str) -> Plan | None:
    agent = session.facts.crew.routing.fallback
    if agent is None:
        return None
    plan = plan_for_agent(agent, session.request.goal, session.facts.crew.strategy)
    return _adopt(session, plan, [Route(by="fallback", agent=agent, reason=reason[:_REASON_CHARACTERS])])


def _adopt(session: Session, plan: Plan, routes: list[Route]) -> Plan | None:
    """Adopt a plan with its routes; if it is invalid here, use the fallback, or else plan the request."""
    try:
        adopted = session.progress.adopt(validate(session, plan))
    except InvalidPlan as error:
        reason = f"dropped: {error.errors[0]}"[:_REASON_CHARACTERS]
        for each in routes:
            add_route(session, each.model_copy(update={"reason": reason, "used": False}))
        return None if routes[0].by == "fallback" else _by_fallback(session, reason)
    for each in routes:
        add_route(session, each)
    return adopted


async def _age_of(queue: str) -> timedelta | None:
    """Return the age of a queue's oldest task; None if unknown."""
    reading = workflow.execute_activity_method(
        BacklogActivities.read_backlog,
        BacklogRequest(queue=queue),
        summary=f"read the backlog of {queue}"[:100],
        **options.BACKLOG,
    )
    backlog = await options.unless_failed(reading)
    return backlog.age if backlog else None
