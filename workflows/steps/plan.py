"""The second step of a session: a valid plan, preceded by agents designed for the request if the crew allows."""

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from contextvars import ContextVar
from datetime import timedelta
from decimal import Decimal
from math import ceil
from typing import Final, Literal

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

from activities.contracts.cards import AgentDraft
from activities.contracts.session import AddAgentsRequest, AddedAgents
from activities.opening.activity import SessionActivities
from activities.turn_kinds.plan import Allowance, DesignAnswer, DesignTask, PlanAnswer, PlanTask, RejectedPlan
from activities.turn_kinds.protocol import SubtaskDraft
from chargehand.contracts import Plan
from chargehand.contracts.limits import PROFILES, Profile
from chargehand.contracts.problems import join_problems
from chargehand.converter import non_retryable_error
from chargehand.wire import ErrorType
from workflows import options
from workflows.budget.ledger import Amount
from workflows.budget.model_calls import CannotPay, TurnLost
from workflows.rules.inputs import prior_knowledge
from workflows.rules.plan_validation import SUPERVISOR, Funds, InvalidPlan, check_plan
from workflows.state.session import Session
from workflows.steps.effects import ask_parent, take_turn

_ATTEMPTS: Final = 3
"""The first plan, and two corrections."""
_CENT: Final = Decimal("0.01")
_LARGER: Final[Mapping[Profile, Profile]] = {"quick": "standard", "standard": "deep"}
"""The profile with higher limits."""

Phase = Literal["plan"]
OpenSpan = Callable[[Phase], AbstractContextManager[None]]
OPEN_SPAN: Final[ContextVar[OpenSpan]] = ContextVar("open_span", default=lambda _: nullcontext())
"""Opens the span of a phase; set by the tracing interceptor."""
_DESIGN_ATTEMPTS: Final = 2


async def make_plan(session: Session) -> Plan:
    """Have a model write a plan and correct it while it is invalid, or else plan by rule; adopt the plan.

    Raises:
        ApplicationError: `InvalidPlan` with all errors, or why no model answered.
    """
    rejected: list[RejectedPlan] = []
    for _ in range(_ATTEMPTS):
        try:
            draft = await _draft(session, rejected)
        except TurnLost as error:
            if rejected:
                break
            raise _planning_error(error) from error
        if isinstance(draft, RejectedPlan):
            rejected.append(draft)
            continue
        await ask_parent(session, _least(session, draft))
        try:
            plan = session.progress.adopt(validate(session, draft))
            session.progress.add_gaps(_gaps_of_omissions(session, draft))
            return plan
        except InvalidPlan as error:
            session.budget.spending.waste_last()
            rejected.append(RejectedPlan(plan=draft.model_dump_json(exclude={"kind"}), errors=error.errors))
    return session.progress.adopt(_plan_undivided(session, rejected[-1].errors))


def validate(session: Session, draft: PlanAnswer | Plan, *, begun: Collection[str] = ()) -> Plan:
    """Validate a plan against this session's crew and limits; some of its subtasks may already have begun.

    Raises:
        InvalidPlan: with all errors.
    """
    room, agents = _room_for(session, draft), _known_agents(session, draft, begun)
    return check_plan(
        draft,
        session.facts.crew,
        turns=room.turns,
        funds=Funds(room.usd, *session.budget.dollars_for(agents)),
        begun=begun,
        may_nest=session.may_nest,
        ancestors=session.ancestors,
        inherited=session.provenance.inherited,
        is_approved_by_person=session.request.approval == "plan",
    )


def invalid_plan(errors: tuple[str, ...]) -> ApplicationError:
    return non_retryable_error(ErrorType.INVALID_PLAN, f"The plan is invalid: {join_problems(errors)}")


def _room_for(session: Session, draft: PlanAnswer | Plan) -> Amount:
    """Compute what a plan's subtasks can use; a plan of one subtask needs no turn for the report.

    A session that pauses at its limits can get more.
    """
    if session.request.limits.on_limit == "pause":
        return Amount(session.facts.ceilings.max_turns, session.facts.ceilings.budget_usd)
    unspent, needs_report = session.budget.unspent, len(draft.subtasks) > 1
    of_report = needs_report - session.budget.report_reserve.is_held
    return Amount(max(unspent.turns - of_report, 0), unspent.usd)


async def _draft(session: Session, rejected: list[RejectedPlan]) -> PlanAnswer | RejectedPlan:
    unspent, limits = session.budget.unspent, session.request.limits
    turns = max(1, unspent.turns - 1)  # the current turn is paid before the plan is executed
    task = PlanTask(
        goal=session.request.goal,
        criteria=session.request.criteria,
        earlier=prior_knowledge(session.earlier),
        thread=session.facts.earlier.thread[:-1] if session.facts.earlier else (),
        max_subtasks=session.budget.agents_within(Amount(turns, unspent.usd)),
        allowance=Allowance(
            turns=turns,
            usd=unspent.usd.quantize(_CENT),
            minutes=ceil((session.clock.report_starts_at - session.clock.started_at) / timedelta(minutes=1)),
            max_rounds=limits.max_rounds,
            max_parallel=limits.max_parallel,
        ),
        may_nest=session.may_nest,
        may_ask_for_more=session.request.delegation is not None and not rejected,
        is_approved_by_person=session.request.approval == "plan",
        rejected=tuple(rejected),
    )
    result = await take_turn(session, task)
    if result.stop == "refused":
        raise non_retryable_error(ErrorType.MODEL_DECLINED, "The model declined to plan this request.")
    answer = result.answer_as(PlanAnswer)
    return answer or RejectedPlan(plan=result.text, errors=(result.problem or f"the reply was {result.stop}",))


def _least(session: Session, draft: PlanAnswer) -> Amount:
    """Estimate the minimum that a plan needs; zero if that is available."""
    grant = session.budget.planned_grant if len(draft.subtasks) > 1 else session.budget.least_grant
    agents = _known_agents(session, draft)
    turns = sum(grant(agent).turns for agent in agents) + sum(bool(subtask.for_each) for subtask in draft.subtasks)
    needed = Amount(turns, sum(session.budget.dollars_for(agents), Decimal(0)))
    return Amount() if _room_for(session, draft).covers(needed) else needed


def _known_agents(session: Session, draft: PlanAnswer | Plan, begun: Collection[str] = ()) -> list[str]:
    known = {SUPERVISOR, *(agent.name for agent in session.facts.crew.agents)}
    return [each.agent for each in draft.subtasks if each.id not in begun and each.agent in known]


def _gaps_of_omissions(session: Session, draft: PlanAnswer) -> list[str]:
    """Turn a planner's omissions into gaps, naming the profile that has room for them."""
    profile, granted = session.facts.terms.profile, session.budget.ledger.granted
    usual, larger = PROFILES[profile], _LARGER.get(profile)
    is_allowed = larger is not None and not PROFILES[larger].above(session.facts.ceilings)
    # A larger profile changes nothing for a session with explicit limits or a grant from its parent.
    is_usual = granted == Amount(usual.max_turns, usual.budget_usd) and session.request.delegation is None
    advice = f" The profile '{larger}' has room for more." if is_usual and is_allowed else ""
    return [f"Not planned, for want of room in the limits: {part[:500]}{advice}" for part in draft.omitted[:20]]


def _planning_error(error: TurnLost) -> ApplicationError:
    spent = "The limits could not pay for a plan; raise max_turns or budget_usd."
    message = spent if isinstance(error, CannotPay) else error.message
    return non_retryable_error(error.error_type, message, *error.details)


def _plan_undivided(session: Session, errors: tuple[str, ...]) -> Plan:
    """Give the whole request to the first suitable agent of the crew, because no valid plan was written.

    A nested session fails instead, since its parent has other ways to recover.
    """
    if session.request.delegation is not None:
        raise invalid_plan(errors)
    instruction = f"Answer this request: {session.request.goal}"
    for agent in session.facts.crew.agents:
        whole = SubtaskDraft(id="T1", agent=agent.name, instruction=instruction)
        with suppress(InvalidPlan):
            plan = validate(session, PlanAnswer(subtasks=[whole]))
            session.progress.add_gaps([f"No plan was valid, so '{agent.name}' got the whole request: {errors[0]}."])
            return plan
    raise invalid_plan(errors)


async def design_agents(session: Session) -> None:
    """Have a model design agents for the session; fall back to the crew's agents if none are usable.

    Nested sessions use the agents of the session above.
    """
    crew = session.facts.crew
    if not crew.custom_tools or session.request.delegation is not None:
        return
    problems: tuple[str, ...] = ()
    for _ in range(_DESIGN_ATTEMPTS):
        task = DesignTask(goal=session.request.goal, tools=crew.custom_tools, most=crew.most_custom, problems=problems)
        try:
            answer = (await take_turn(session, task)).answer_as(DesignAnswer)
        except TurnLost as error:
            problems = (str(error),)
            break
        if answer is None:
            problems = ("the reply was not the required JSON",)
            continue
        if not answer.agents:
            return
        added = await _add(session, answer.agents)
        if added.crew is not None:
            session.use_crew(added.crew)
            return
        session.budget.spending.waste_last()
        problems = added.problems
    session.progress.add_gaps([f"No agents were described for this request: {join_problems(problems[:1])}."])


async def _add(session: Session, drafts: list[AgentDraft]) -> AddedAgents:
    add_request = AddAgentsRequest(
        session=workflow.info().workflow_id,
        request=session.original.replace(documents=session.request.documents),
        crew=session.facts.crew.reference,
        agents=tuple(drafts),
    )
    try:
        return await workflow.execute_activity_method(
            SessionActivities.add_agents,
            add_request,
            activity_id="add-agents",
            summary="check and store the agents that were described",
            **options.ADD_AGENTS,
        )
    except ActivityError as error:
        if is_cancelled_exception(error):
            raise
        problem = (
            error.cause.message if isinstance(error.cause, ApplicationError) else "they could not be stored in time"
        )
        return AddedAgents(problems=(problem,))
