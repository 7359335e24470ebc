"""The model adapter of the rules: answers what a language model would be asked, with nothing but what it is shown."""

import asyncio
from typing import Final

from pydantic import BaseModel

from activities import contracts
from activities.models.extractive.agents import work
from activities.models.extractive.decisions import decide
from activities.models.extractive.planner import plan
from activities.models.protocol import ModelCall, ModelReply
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
        case contracts.PlanTask():
            answer: BaseModel = plan(call.task, call.catalog, call.crew_agents)
        case contracts.WorkTask():
            made = work(call.task, call.catalog, frozenset(tool.name for tool in call.tools))
            if isinstance(made, tuple):
                return ModelReply(stop="tools", tool_calls=made, model=MODEL_NAME, provider=MODEL_NAME, usage=usage)
            reviews = call.answer_type is contracts.ReviewerAnswer
            answer = contracts.ReviewerAnswer.model_validate(made.model_dump() | {"issues": []}) if reviews else made
        case _:
            answer = decide(call.task)
    return ModelReply(stop="answer", text=answer.model_dump_json(), model=MODEL_NAME, provider=MODEL_NAME, usage=usage)
