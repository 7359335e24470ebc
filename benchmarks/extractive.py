"""How often the model without a language model is right on labelled questions, and that it states no errors."""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.extractive_harness import Answered, Harness
from benchmarks.extractive_questions import Kind, Question, read_questions
from benchmarks.tables import Row

_TARGETS = "Targets: right passage among the first three 90 %; wrong figures 0; wrong in bold 0."


async def extractive() -> tuple[Sequence[Row], Sequence[str]]:
    """Ask every question as a session would, and count the results."""
    given = await ask_all(read_questions())
    rows = [_row(folder, [one for one in given if one[0].folder.name == folder]) for folder in _folders(given)]
    wrong = [question.text for question, answered, _ in given if is_wrong(question, answered)]
    return [*rows, _row("all", given)], [_TARGETS, *(f"Wrong: {text}" for text in wrong)]


async def ask_all(questions: Sequence[Question]) -> list[tuple[Question, Answered, float]]:
    """Ask the questions about their own documents; return the answers and the seconds that each took."""
    given: list[tuple[Question, Answered, float]] = []
    with tempfile.TemporaryDirectory() as state:
        harnesses: dict[Path, Harness] = {}
        for question in questions:
            if question.folder not in harnesses:
                harnesses[question.folder] = await Harness.open(question.folder, Path(state))
            before = time.perf_counter()
            answered = await harnesses[question.folder].ask(question.text)
            given.append((question, answered, time.perf_counter() - before))
    return given


def is_right(question: Question, answered: Answered) -> bool:
    """Return whether the right figure is stated, or the right passage is among the first three."""
    if question.kind == "figure":
        return any(map(question.is_answered_by, answered.figures))
    return any(map(question.is_answered_by, (*answered.figures, *answered.passages[:3])))


def is_wrong(question: Question, answered: Answered) -> bool:
    """Return whether a wrong answer is stated, quoted as an answer, or set in bold."""
    stated = [*answered.answered, *(" ".join(answered.bold) for _ in answered.bold[:1])]
    return bool(stated) and not (question.answer and any(map(question.is_answered_by, stated)))


def _folders(given: Sequence[tuple[Question, Answered, float]]) -> list[str]:
    return list(dict.fromkeys(question.folder.name for question, _, _ in given))


def _row(name: str, given: Sequence[tuple[Question, Answered, float]]) -> Row:
    def of(kind: Kind) -> list[tuple[Question, Answered]]:
        return [(question, answered) for question, answered, _ in given if question.kind == kind]

    figures, passages, others = of("figure"), of("passage"), [*of("declined"), *of("unanswerable")]
    right = sum(is_right(*one) for one in figures)
    wrong = sum(bool(answered.figures) and not is_right(question, answered) for question, answered in figures)
    times = sorted(seconds for _, _, seconds in given)
    return {
        "documents": name,
        "passages": len(passages),
        "in first three %": round(100 * sum(is_right(*one) for one in passages) / len(passages)) if passages else None,
        "figures": len(figures),
        "right": right,
        "wrong": wrong,
        "declined": len(figures) - right - wrong,
        "others": len(others),
        "others declined %": round(100 * sum(not answered.figures for _, answered in others) / len(others))
        if others
        else None,
        "nothing quoted %": _share_silent(of("unanswerable")),
        "wrong or bold wrong": sum(is_wrong(question, answered) for question, answered, _ in given),
        "median ms": round(1_000 * times[len(times) // 2]),
    }


def _share_silent(given: Sequence[tuple[Question, Answered]]) -> int | None:
    silent = sum(not answered.figures and not answered.passages for _, answered in given)
    return round(100 * silent / len(given)) if given else None
