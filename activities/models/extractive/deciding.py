"""Decisions by rules: without a language model nothing is rewritten, weighed or criticised, and that is said."""

import re
from typing import Final

from activities.contracts import InputOutcome
from activities.turn_kinds.compress import CompressAnswer, CompressTask
from activities.turn_kinds.critique import CritiqueAnswer
from activities.turn_kinds.judge import JudgeAnswer, JudgeTask
from activities.turn_kinds.refine import RefineAnswer
from activities.turn_kinds.review import ReviewAnswer
from chargehand.contracts import Failure

_NO_MODEL: Final = "No language model was used"
_SHORTENED: Final = "*(Shortened to its first sentences.)*"
_FENCE: Final = re.compile(r"[ \t]*(?:```|~~~)")
_LINE_BY_LINE: Final = re.compile(r"[ \t]*(?:[-*+][ \t]|[>|]|\d{1,3}[.)][ \t]|#{1,6}[ \t])")
_TABLE_RULE: Final = re.compile(r"[ \t]*+(?:\|[ \t]*+)?:?--[-:| \t]*+\s*$")
_LEADS_ON: Final = re.compile(r"#{1,6}[ \t][^\n]*|[^\n]*\n[ \t]*+(?:\|[ \t]*+)?:?--[-:| \t]*|.*:[*_]{0,3}", re.DOTALL)
"""What makes no sense without what follows: a heading, the head of a table, words before a colon."""
_SENTENCE: Final = re.compile(
    r".*?(?:"
    r"[.!?…](?<!\b\w\.)(?<!\b\d\d\.)(?<!\b(?:vs|cf|ca|Mr|Dr|Ms|No|no|St|Nr)\.)(?<!\b(?:Mrs|etc|Fig|bzw|usw|Abs|Art)\.)"
    r"(?<!\bapprox\.)[\"'”’)\]*_»]{0,3}(?:\s*\[[^\]\n]+\])*(?=\s+[\"'“‘„«(\[*_`]{0,3}[^\W_a-z])"
    r"|[。！？]|\Z)",
    re.DOTALL,
)


def refine() -> RefineAnswer:
    """Leave an instruction as it is: the rules would read any other words of it the same way."""
    return RefineAnswer(worthwhile=False, instruction="", reason=f"{_NO_MODEL}; rules do not rewrite instructions.")


def review() -> ReviewAnswer:
    """Take what there is for enough: whatever is missing, the rules would look for it in the same places again."""
    return ReviewAnswer(enough=True, missing=[], contradictions=[], subtasks=[])


def judge(task: JudgeTask) -> JudgeAnswer:
    """Choose the answer whose own agent is surest of it; the first of those that are equally sure."""
    answers = [given for given in task.candidates if _is_answer(given)]
    if not answers:
        return JudgeAnswer(chosen="", reason="None of the candidates has an answer.", confidence=0)
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
    return JudgeAnswer(chosen=best.id, reason=reason, confidence=confidence)


def critique() -> CritiqueAnswer:
    """Let a report pass: the sheet quotes and computes, and holds nothing that rules could find wrong with it."""
    return CritiqueAnswer(acceptable=True, problems=[])


def compress(task: CompressTask) -> CompressAnswer:
    """Keep the first sentences, whole, and say that there were more; nothing if not even the first one fits."""
    content = task.content.strip()
    if len(content.split()) <= task.most_words:
        return CompressAnswer(content=content)
    left = task.most_words - len(_SHORTENED.split())
    kept: list[str] = []
    for piece in _pieces(content):
        left -= len(piece.split())
        if left < 0:
            break
        kept.append(piece)
    while kept and (not kept[-1].strip() or _LEADS_ON.fullmatch(kept[-1].strip())):
        kept.pop()
    return CompressAnswer(content=f"{''.join(kept).rstrip()}\n\n{_SHORTENED}" if kept else "")


def _is_answer(given: InputOutcome) -> bool:
    return not isinstance(given.outcome, Failure) and bool(given.outcome.content or given.outcome.findings)


def _pieces(content: str) -> list[str]:
    """Cut a text where it may end: after sentences, list items, table rows and blocks of code. Nothing gets lost."""
    groups: list[str] = []
    in_code = is_prose = False
    for line in content.splitlines(keepends=True):
        is_fence = _FENCE.match(line) is not None
        joins = in_code or _TABLE_RULE.match(line) or (line.strip() and not _LINE_BY_LINE.match(line) and is_prose)
        if groups and (joins or not line.strip()) and not (is_fence and not in_code):
            groups[-1] += line
        else:
            groups.append(line)
        in_code ^= is_fence
        is_prose = bool(line.strip()) and not is_fence
    return [piece for group in groups for piece in _sentences(group)]


def _sentences(group: str) -> list[str]:
    if _FENCE.match(group) or _LINE_BY_LINE.match(group):
        return [group]
    return [sentence for sentence in _SENTENCE.findall(group) if sentence]
