"""Decisions and the report: without a language model nothing is rewritten, weighed or judged, and the texts say so."""

import re
from itertools import accumulate
from typing import Final

from pydantic import BaseModel

from activities.contracts.rounds import InputOutcome
from activities.turn_kinds.judgements import JudgeAnswer, JudgeTask
from activities.turn_kinds.registry import Task
from activities.turn_kinds.synthesis import CompressAnswer, CompressTask, SynthesisAnswer, SynthesisTask
from chargehand.contracts import Failure
from chargehand_plugins.extractive.lexicon import data, language_of, sentence
from chargehand_plugins.extractive.planner import read_instruction

_PIECE: Final = re.compile(r".*?(?:(?<=[.!?…。])(?<!\b\w\.)(?<!\d\.)\s+|\n\s*|\Z)", re.DOTALL)


def decide(task: Task, answer_type: type[BaseModel]) -> BaseModel:
    """Answer a task that is neither a plan nor a subtask: change nothing, and say why."""
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
    """Choose the answer with the highest confidence, and say that nothing was compared."""
    best = max(filter(_has_answer, task.candidates), key=lambda given: given.outcome.confidence, default=None)
    if best is None:
        return JudgeAnswer(chosen="", reason="No candidate has an answer.", confidence=0)
    reason = f"{best.id} has the highest confidence. To compare answers takes a language model, and none was used."
    return JudgeAnswer(chosen=best.id, reason=reason, confidence=min(30, best.outcome.confidence))


def compress(task: CompressTask) -> CompressAnswer:
    """Keep as many whole sentences and lines from the beginning as fit."""
    pieces: list[str] = _PIECE.findall(task.content.strip())
    lengths = accumulate(len(piece.split()) for piece in pieces)
    beginning = [piece for piece, length in zip(pieces, lengths, strict=True) if length < task.most_words]
    text = "".join(beginning)
    return CompressAnswer(content=text if beginning == pieces or not text else f"{text.rstrip()} […]")


def synthesise(task: SynthesisTask) -> SynthesisAnswer:
    language = language_of(task.goal)
    answered = [entry for entry in task.outcomes if _has_answer(entry)]
    nothing = sentence("nothing", language)
    missing = [entry for entry in task.outcomes if entry not in answered]
    lost = [f"- *{_title(entry)}: {getattr(entry.outcome, 'message', nothing)}*" for entry in missing]
    parts = [f"*{sentence('stopped', language)} {task.stopped_because}*"] if task.stopped_because else []
    parts += [f"### {_title(entry)}\n\n{entry.outcome.content}" for entry in answered]
    parts += ["\n".join([f"### {sentence('open', language)}\n", *lost])] if lost else []
    gaps = list(dict.fromkeys(gap for entry in task.outcomes for gap in entry.outcome.gaps))
    confidence = min([entry.outcome.confidence for entry in answered] + [30] * bool(lost), default=0)
    answer = "\n\n".join([*parts, f"*{sentence('no_model', language)}*"])
    return SynthesisAnswer(answer=answer, gaps=gaps, contradictions=[], confidence=confidence if answered else 0)


def _has_answer(given: InputOutcome) -> bool:
    return not isinstance(given.outcome, Failure) and bool(given.outcome.content)


def _title(given: InputOutcome) -> str:
    question = read_instruction(given.instruction)[1].rstrip(" .?")
    return f"{question[:1].upper()}{question[1:200]}?"
