"""A sample of simulated sessions that are carried out on a real server too, and the model that answers there."""

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from functools import cache
from typing import Final

from hypothesis import Phase, given, settings

from activities.models.protocol import ModelCall, ModelReply
from tests.simulation.script import Work
from tests.simulation.strategies import limits, scenarios, scripts
from tests.simulation.world import Scenario

_COST: Final = Decimal("0.01")
_WORKS: Final[tuple[Work, ...]] = (
    "success",
    "tools",
    "partial",
    "no_answer",
    "out_of_scope",
    "confidence_too_low",
    "too_big",
    "truncated",
    "unknown tool",
)


@cache
def sample() -> tuple[Scenario, ...]:
    """Draw sessions with plans of one to six subtasks, always the same.

    Nothing in them depends on what a machine is quicker at: subtasks run one after the other.
    """
    drawn: dict[int, Scenario] = {}

    @settings(max_examples=120, derandomize=True, database=None, phases=[Phase.generate], deadline=None)
    @given(
        scenarios(
            scripted=scripts(works=_WORKS),
            limited=limits(turns=(20,), dollars=("5",), seconds=(600,)),
            fates=("answers",),
            tool_fates=("answers",),
        )
    )
    def draw(scenario: Scenario) -> None:
        one_by_one = scenario.request.limits.model_copy(
            update={"max_parallel": 1, "max_depth": 3, "subtask_deadline": timedelta(minutes=5), "on_limit": "finish"}
        )
        request = scenario.request.model_copy(update={"limits": one_by_one, "approval": "none", "questions": "none"})
        planned = scenario.script.plans[0]
        size = len(planned)
        if len({(each.agent, each.topic) for each in planned}) < size:
            return  # such a plan is refused
        drawn[size] = Scenario(request=request, script=scenario.script, flat_cost=_COST, latencies=(1,), durations=(5,))

    draw()
    return tuple(drawn[size] for size in sorted(drawn))


def respond_as(scenario_of: Callable[[str], tuple[Scenario, str]]) -> Callable[[ModelCall], ModelReply]:
    """Make the model; `scenario_of` finds a call's session by its workflow's id, and the id below the session's."""

    def respond(call: ModelCall) -> ModelReply:
        workflow_id, _, step = call.idempotency_key.rsplit(":", 2)
        scenario, below = scenario_of(workflow_id)
        tools = [tool.name for tool in call.tools]
        return scenario.script.reply(below, step, call.task, tools, _COST)

    return respond
