"""An agent that plays a task's golden actions, one a turn, and a customer who confirms each that changes something.

They measure what surrounds the models: anything missing or duplicated at the end is the machinery's fault.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from activities.contracts.cards import ModelCard, PriceStep
from activities.models.protocol import ModelCall, ModelReply
from activities.models.tiers import Models
from activities.turn_kinds.work import ConverseTask, WorkTask
from benchmarks.evaluation.desks.desk import Action, Desk, Task
from chargehand.contracts import Tier
from tests import scripted_model
from worker.parts import Traffic

_CARD: Final = ModelCard(
    provider="oracle",
    name="oracle",
    prices=(PriceStep(input_usd_per_million=Decimal(3), output_usd_per_million=Decimal(15)),),
)
_ASKS: Final = re.compile(r"Do you confirm step (\d+)\?")
_CONFIRMS: Final = "Yes, I confirm step {number}."
_CONFIRMED: Final = re.compile(_CONFIRMS.format(number=r"(\d+)"))


def goal_of(task: Task) -> str:
    """Word the goal of a conversation, by which the oracle recognises the task."""
    return f"Serve the customer of case {task.id}."


def steps_of(task: Task, desk: Desk) -> list[list[Action]]:
    """Split the golden actions where the customer is asked: before each action that changes something."""
    steps: list[list[Action]] = [[]]
    for action in task.actions:
        if action.name in desk.acting:
            steps.append([])
        steps[-1].append(action)
    return steps


def turns_of(task: Task, desk: Desk) -> int:
    """Count the turns of the golden actions: one per action, and one per step to answer."""
    return len(task.actions) + len(steps_of(task, desk))


@dataclass(frozen=True)
class ScriptedUser:
    """A customer who states the request and confirms."""

    opening: str

    async def reply(self, said: str) -> str | None:
        """Answer the agent; return None once it asks for nothing more."""
        asked = _ASKS.search(said)
        return _CONFIRMS.format(number=asked[1]) if asked else None


class Oracle:
    """An agent that knows each task's golden actions."""

    def __init__(self, desk: Desk) -> None:
        self._steps = {goal_of(task): steps_of(task, desk) for task in desk.tasks}
        self._tells = {goal_of(task): task.tells for task in desk.tasks}

    def wrap(self, traffic: Traffic) -> Traffic:
        """Answer in place of the models."""
        return Traffic(Models(self, dict.fromkeys(Tier, _CARD)), traffic.tools, traffic.absent)

    async def complete(self, call: ModelCall) -> ModelReply:
        if not isinstance(call.task, ConverseTask):
            return await scripted_model.ScriptedModel(scripted_model.Script()).complete(call)
        return self._converse(call.task.goal, call.task.latest())

    def _converse(self, goal: str, latest: WorkTask) -> ModelReply:
        """Take the next action of the step that the customer confirmed; after the last, ask about the next step."""
        confirmed = _CONFIRMED.search(latest.instruction)
        number = int(confirmed[1]) if confirmed else 0
        steps = self._steps[goal]
        done = len(latest.rounds)
        if done < len(steps[number]):
            action = steps[number][done]
            return scripted_model.request_tool(action.name, **action.arguments)
        return scripted_model.reply(scripted_model.say(_say(steps, number + 1, self._tells[goal])))


def _say(steps: Sequence[Sequence[Action]], following: int, tells: Sequence[str]) -> str:
    if following < len(steps):
        action = steps[following][0]
        words = ", ".join(f"{name}: {value}" for name, value in action.arguments.items())
        return f"I would {action.name.replace('_', ' ')} ({words}). Do you confirm step {following}?"
    return " ".join(("That is all.", *tells))
