"""The model adapter of the rules: answers the calls of a language model, from their prompts alone."""

import asyncio
import re
from typing import Final

from pydantic import BaseModel

from activities.contracts.rounds import ToolCall
from activities.documents.catalog import Catalog
from activities.models.protocol import ModelCall, ModelReply
from activities.turn_kinds.plan import PlanTask
from activities.turn_kinds.work import ConverseTask, WorkAnswer, WorkTask
from chargehand.contracts import Usage
from chargehand_plugins.extractive.decisions import decide
from chargehand_plugins.extractive.evidence import SEARCHES, answer_from, find_evidence
from chargehand_plugins.extractive.figures import declined, state
from chargehand_plugins.extractive.lexicon import language_of
from chargehand_plugins.extractive.planner import QUOTE, RELATE, plan, point, read_instruction
from chargehand_plugins.extractive.reading import read_query

MODEL_NAME: Final = "extractive"
_UNHEARD: Final = "A message was not taken into account: no language model was used that could read it."
_BOLD: Final = re.compile(r"\*\*([^*\n]{1,120})\*\*")


class ExtractiveModel:
    """Plans, computes, quotes and reports by deterministic rules."""

    async def complete(self, call: ModelCall) -> ModelReply:
        """Answer one call without blocking the event loop."""
        return await asyncio.to_thread(reply, call)


def open_model(*_: object) -> ExtractiveModel:
    return ExtractiveModel()


def reply(call: ModelCall) -> ModelReply:
    usage = Usage(turns=1)
    match call.task:
        case PlanTask():
            answer: BaseModel = plan(call.task, call.catalog, call.crew_agents)
        case WorkTask():
            task = call.task.latest() if isinstance(call.task, ConverseTask) else call.task
            result = _work(task, call.catalog, frozenset(tool.name for tool in call.tools))
            if isinstance(result, tuple):
                return ModelReply(stop="tools", tool_calls=result, model=MODEL_NAME, provider=MODEL_NAME, usage=usage)
            if task.told or any(past.told for past in task.rounds):
                result = result.model_copy(update={"gaps": [*result.gaps, _UNHEARD]})
            answer = call.answer_type.model_validate({"issues": [], **result.model_dump(exclude={"kind"})})
        case _:
            answer = decide(call.task, call.answer_type)
    return ModelReply(stop="answer", text=answer.model_dump_json(), model=MODEL_NAME, provider=MODEL_NAME, usage=usage)


def _work(task: WorkTask, catalog: Catalog, tools: frozenset[str]) -> tuple[ToolCall, ...] | WorkAnswer:
    """Take one turn of a subtask: a figure if the tables determine one, or else evidence."""
    kind, question = read_instruction(task.instruction)
    if kind == RELATE:
        return declined(language_of(question), "dependent", is_final=True)
    usable = tools | {call.tool for past in task.rounds for call in past.calls}
    if task.inputs and question != point(question, "-"):
        named = [_BOLD.search(entry.outcome.content) for entry in task.inputs if entry.outcome.kind == "success"]
        if not named or named[0] is None:
            return declined(language_of(question), "no_name")
        question = point(question, named[0][1])
    figure = _compute(task, question, catalog) if "query_data" in usable and kind != QUOTE else None
    if usable.intersection(SEARCHES) and getattr(figure, "status", "no_answer") == "no_answer":
        return find_evidence(task, question, tools, catalog)
    if figure is None and not (usable or catalog.documents):
        return declined(language_of(question), "no_text")
    return figure or answer_from(question, [], catalog)


def _compute(task: WorkTask, question: str, catalog: Catalog) -> tuple[ToolCall, ...] | WorkAnswer | None:
    """Query the tables once; None if they do not answer."""
    query = read_query(question, catalog)
    results = [result for past in task.rounds for result in past.results if result.tool == "query_data"]
    if query is None or (task.must_answer and not results):
        return None
    if not results:
        return (ToolCall(id="query-1", tool="query_data", arguments={"sql": query.sql()}),)
    return state(query, results[-1]) if results[-1].ok and results[-1].sources else None
