"""The model adapter of the rules: answers what a language model would be asked, with nothing but what it is shown."""

import asyncio
import re
from itertools import accumulate
from typing import Final

from pydantic import BaseModel

from activities.contracts.rounds import InputOutcome, ToolCall
from activities.documents.catalog import Catalog
from activities.models.protocol import ModelCall, ModelReply
from activities.turn_kinds.judgements import JudgeAnswer, JudgeTask
from activities.turn_kinds.plan import PlanTask
from activities.turn_kinds.registry import Task
from activities.turn_kinds.synthesis import CompressAnswer, CompressTask, SynthesisAnswer, SynthesisTask
from activities.turn_kinds.work import ConverseTask, WorkAnswer, WorkTask
from chargehand.contracts import Failure, Usage
from chargehand_plugins.extractive.evidence import SEARCHES, answer_from, find_evidence
from chargehand_plugins.extractive.figures import declined, state
from chargehand_plugins.extractive.lexicon import data, language_of, sentence
from chargehand_plugins.extractive.planner import QUOTE, plan, point, read_instruction
from chargehand_plugins.extractive.reading import read_query

MODEL_NAME: Final = "extractive"
_UNHEARD: Final = "A message was not taken into account: no language model was used that could read it."
_PIECE: Final = re.compile(r".*?(?:(?<=[.!?…。])(?<!\b\w\.)(?<!\d\.)\s+|\n\s*|\Z)", re.DOTALL)
_BOLD: Final = re.compile(r"\*\*([^*\n]{1,120})\*\*")


class ExtractiveModel:
    """Plans, computes, quotes and reports by rules; the same call is always answered the same way."""

    async def complete(self, call: ModelCall) -> ModelReply:
        """Answer one call without keeping the event loop from other work."""
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
            made = _work(task, call.catalog, frozenset(tool.name for tool in call.tools))
            if isinstance(made, tuple):
                return ModelReply(stop="tools", tool_calls=made, model=MODEL_NAME, provider=MODEL_NAME, usage=usage)
            if task.told or any(past.told for past in task.rounds):
                made = made.model_copy(update={"gaps": [*made.gaps, _UNHEARD]})
            answer = call.answer_type.model_validate({"issues": [], **made.model_dump(exclude={"kind"})})
        case _:
            answer = decide(call.task, call.answer_type)
    return ModelReply(stop="answer", text=answer.model_dump_json(), model=MODEL_NAME, provider=MODEL_NAME, usage=usage)


def _work(task: WorkTask, catalog: Catalog, tools: frozenset[str]) -> tuple[ToolCall, ...] | WorkAnswer:
    """Take one turn at a subtask: a figure if the tables give one beyond doubt, else evidence."""
    kind, question = read_instruction(task.instruction)
    usable = tools | {call.tool for past in task.rounds for call in past.calls}
    if task.inputs and question != point(question, "-"):
        named = [_BOLD.search(given.outcome.content) for given in task.inputs if given.outcome.kind == "success"]
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
    """Ask the tables once; None if they do not answer."""
    query = read_query(question, catalog)
    results = [result for past in task.rounds for result in past.results if result.tool == "query_data"]
    if query is None or (task.must_answer and not results):
        return None
    if not results:
        return (ToolCall(id="query-1", tool="query_data", arguments={"sql": query.sql()}),)
    return state(query, results[-1]) if results[-1].ok and results[-1].sources else None


def decide(task: Task, answer_type: type[BaseModel]) -> BaseModel:
    """Answer a task that is neither a plan nor a subtask: leave things as they are, and say why."""
    match task:
        case SynthesisTask():
            return synthesise(task)
        case JudgeTask():
            return judge(task)
        case CompressTask():
            return compress(task)
        case _:
            return answer_type.model_validate(data()["undecided"][task.kind])


def judge(task: JudgeTask) -> JudgeAnswer:
    """Choose the answer whose own agent is surest of it, and say that nothing was compared."""
    best = max(filter(_has_answer, task.candidates), key=lambda given: given.outcome.confidence, default=None)
    if best is None:
        return JudgeAnswer(chosen="", reason="No candidate has an answer.", confidence=0)
    reason = f"{best.id} has the highest confidence. To compare answers takes a language model, and none was used."
    return JudgeAnswer(chosen=best.id, reason=reason, confidence=min(30, best.outcome.confidence))


def compress(task: CompressTask) -> CompressAnswer:
    """Keep whole sentences and lines from the beginning, as many as fit."""
    pieces: list[str] = _PIECE.findall(task.content.strip())
    lengths = accumulate(len(piece.split()) for piece in pieces)
    kept = [piece for piece, length in zip(pieces, lengths, strict=True) if length < task.most_words]
    text = "".join(kept)
    return CompressAnswer(content=text if kept == pieces or not text else f"{text.rstrip()} […]")


def synthesise(task: SynthesisTask) -> SynthesisAnswer:
    language = language_of(task.goal)
    answered = [given for given in task.outcomes if _has_answer(given)]
    nothing = sentence("nothing", language)
    missing = [given for given in task.outcomes if given not in answered]
    lost = [f"- *{_title(given)}: {getattr(given.outcome, 'message', nothing)}*" for given in missing]
    parts = [f"*{sentence('stopped', language)} {task.stopped_because}*"] if task.stopped_because else []
    parts += [f"### {_title(given)}\n\n{given.outcome.content}" for given in answered]
    parts += ["\n".join([f"### {sentence('open', language)}\n", *lost])] if lost else []
    gaps = list(dict.fromkeys(gap for given in task.outcomes for gap in given.outcome.gaps))
    confidence = min([given.outcome.confidence for given in answered] + [30] * bool(lost), default=0)
    answer = "\n\n".join([*parts, f"*{sentence('no_model', language)}*"])
    return SynthesisAnswer(answer=answer, gaps=gaps, contradictions=[], confidence=confidence if answered else 0)


def _has_answer(given: InputOutcome) -> bool:
    return not isinstance(given.outcome, Failure) and bool(given.outcome.content)


def _title(given: InputOutcome) -> str:
    question = read_instruction(given.instruction)[1].rstrip(" .?")
    return f"{question[:1].upper()}{question[1:200]}?"
