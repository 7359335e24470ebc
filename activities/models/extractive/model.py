"""The model adapter of the rules: answers what a language model would be asked, with nothing but what it is shown."""

import asyncio
from typing import Final

from pydantic import BaseModel

from activities.models.extractive.agents import checked, work
from activities.models.extractive.deciding import compress, critique, judge, refine, review
from activities.models.extractive.planner import plan
from activities.models.extractive.synthesis import synthesise
from activities.models.protocol import ModelCall, ModelReply
from activities.turn_kinds.compress import CompressTask
from activities.turn_kinds.critique import CritiqueTask
from activities.turn_kinds.judge import JudgeTask
from activities.turn_kinds.plan import PlanTask
from activities.turn_kinds.refine import RefineTask
from activities.turn_kinds.review import ReviewTask
from activities.turn_kinds.synthesis import SynthesisTask
from activities.turn_kinds.work import WorkTask, WorkWithIssuesAnswer
from chargehand.contracts import Usage

MODEL_NAME: Final = "extractive"
"""The name of the model and of its provider."""


class ExtractiveModel:
    """Plans, computes, quotes and reports by rules; the same call is always answered the same way."""

    async def complete(self, call: ModelCall) -> ModelReply:
        """Answer one call without keeping the event loop from other work."""
        return await asyncio.to_thread(reply, call)


def reply(call: ModelCall) -> ModelReply:
    """Answer one call."""
    usage = Usage(turns=1)
    match call.task:
        case PlanTask():
            answer: BaseModel = plan(call.task, call.catalog, call.crew_agents)
        case WorkTask():
            made = work(call.task, call.catalog, frozenset(tool.name for tool in call.tools))
            if isinstance(made, tuple):
                return ModelReply(stop="tools", tool_calls=made, model=MODEL_NAME, provider=MODEL_NAME, usage=usage)
            answer = made if call.answer_type is not WorkWithIssuesAnswer else checked(made, call.task)
        case SynthesisTask():
            answer = synthesise(call.task)
        case RefineTask():
            answer = refine()
        case ReviewTask():
            answer = review()
        case JudgeTask():
            answer = judge(call.task)
        case CritiqueTask():
            answer = critique()
        case CompressTask():
            answer = compress(call.task)
    return ModelReply(
        stop="answer", text=answer.model_dump_json(exclude={"kind"}), model=MODEL_NAME, provider=MODEL_NAME, usage=usage
    )
