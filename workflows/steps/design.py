"""Before the plan, where a crew allows it: agents that a model describes for the request."""

from typing import Final

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

from activities.contracts.cards import AgentDraft
from activities.contracts.session import AddAgentsRequest, AddedAgents
from activities.opening.activity import SessionActivities
from activities.turn_kinds.design_agents import DesignAnswer, DesignTask
from chargehand.contracts.problems import join_problems
from workflows import options
from workflows.budget.model_calls import TurnLost
from workflows.state.session import Session
from workflows.steps.turns import take_turn

_ATTEMPTS: Final = 2


async def design_agents(session: Session) -> None:
    """Have a model describe agents, and give them to the session; without usable ones it has those of its crew.

    Nested sessions have what the session above has.
    """
    crew = session.facts.crew
    if not crew.custom_tools or session.request.delegation is not None:
        return
    problems: tuple[str, ...] = ()
    for _ in range(_ATTEMPTS):
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
        session.spending.waste_last()
        problems = added.problems
    session.progress.add_gaps([f"No agents were described for this request: {join_problems(problems[:1])}."])


async def _add(session: Session, drafts: list[AgentDraft]) -> AddedAgents:
    asked = AddAgentsRequest(
        session=workflow.info().workflow_id,
        request=session.original.model_copy(update={"documents": session.request.documents}),
        crew=session.facts.crew.reference,
        agents=tuple(drafts),
    )
    try:
        return await workflow.execute_activity_method(
            SessionActivities.add_agents,
            asked,
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
