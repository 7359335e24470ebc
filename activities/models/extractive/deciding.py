"""Decisions by rules: without a language model nothing is rewritten, weighed or criticised, and that is said."""

import re
from typing import Final

from activities.contracts import (
    CompressDraft,
    CompressTask,
    CritiqueDraft,
    InputOutcome,
    JudgeDraft,
    JudgeTask,
    RefineDraft,
    ReviewDraft,
)
from chargehand.contracts import Failure

_NO_MODEL: Final = "No language model was used"
_SHORTENED: Final = "*(Shortened to its first sentences.)*"
_FENCE: Final = re.compile(r"^[ \t]*(?:```|~~~)")
_LINE_BY_LINE: Final = re.compile(r"^[ \t]*(?:[-*+>|]|\d+[.)][ \t]|#{1,6}[ \t])")
_LEADS_ON: Final = re.compile(r"^[ \t]*(?:#{1,6}[ \t].*|\|[-:| \t]+\||[^\n]*:)$")
_SENTENCE_END: Final = re.compile(r"(?<=[.!?…])(?=[ \t\n]+[^a-zß-ÿ\s])|(?<=[。！？])|(?=\n)")  # noqa: RUF100
_CITATION: Final = re.compile(r"^\s*\[[^\]\n]+\]")


def refine() -> RefineDraft:
    """Leave an instruction as it is: the rules would read any other words of it the same way."""
    return RefineDraft(worthwhile=False, instruction="", reason=f"{_NO_MODEL}; rules do not rewrite instructions.")


def review() -> ReviewDraft:
    """Take what there is for enough: whatever is missing, the rules would look for it in the same places again."""
    return ReviewDraft(enough=True, missing=[], contradictions=[], subtasks=[])


def judge(task: JudgeTask) -> JudgeDraft:
    """Choose the answer whose own agent is surest of it; the first of those that are equally sure."""
    answers = [given for given in task.candidates if _is_answer(given)]
    if not answers:
        return JudgeDraft(chosen="", reason="None of the candidates has an answer.", confidence=0)
    best = max(answers, key=lambda given: given.outcome.confidence)
    confidence = best.outcome.confidence
    others = [given.outcome.confidence for given in answers if given is not best]
    if not others:
        why = "it is the only one with an answer"
    elif max(others) == confidence:
        why = f"it is the first of those whose agents are surest ({confidence} of 100)"
    else:
        why = f"its agent is surer of it ({confidence} of 100) than any other of its own ({max(others)} at most)"
    reason = f"{best.id} was chosen because {why}. {_NO_MODEL}: what the answers say was not compared."
    return JudgeDraft(chosen=best.id, reason=reason, confidence=confidence)


def critique() -> CritiqueDraft:
    """Let a report pass: the sheet quotes and computes, and holds nothing that rules could find wrong with it."""
    return CritiqueDraft(acceptable=True, problems=[])


def compress(task: CompressTask) -> CompressDraft:
    """Keep the first sentences, whole, and say that there were more; nothing if not even the first one fits."""
    content = task.content.strip()
    if len(content.split()) <= task.most_words:
        return CompressDraft(content=content)
    left = task.most_words - len(_SHORTENED.split())
    kept: list[str] = []
    for piece in _pieces(content):
        left -= len(piece.split())
        if left < 0:
            break
        kept.append(piece)
    while kept and (not kept[-1].strip() or _LEADS_ON.match(kept[-1].strip())):
        kept.pop()
    return CompressDraft(content=f"{''.join(kept).rstrip()}\n\n{_SHORTENED}" if kept else "")


def _is_answer(given: InputOutcome) -> bool:
    return not isinstance(given.outcome, Failure) and bool(given.outcome.content or given.outcome.findings)
