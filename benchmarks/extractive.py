"""How well the rules that need no model find and quote what answers: labelled questions over real documents."""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.extractive_desk import Answered, Harness
from benchmarks.extractive_documents import gather
from benchmarks.extractive_questions import Question, bare, read_questions
from benchmarks.tables import Row

_TARGETS: Final = (
    "Targets: right document among the first three 95 %, quoted words answer 75 %, unanswerable refused 90 %."
)


async def extractive() -> tuple[Sequence[Row], Sequence[str]]:
    """Ask every question as a session would, and count what came of it, for each half of the questions."""
    questions = read_questions()
    with tempfile.TemporaryDirectory() as folder:
        names = gather(Path(folder) / "documents")
        before = time.perf_counter()
        harness = await Harness.open(Path(folder) / "documents", Path(folder) / "state")
        indexed = time.perf_counter() - before
        there = {bare(name) for name in names}
        asked = [question for question in questions if question.is_askable(there)]
        answered = [(question, await harness.ask(question.text)) for question in asked]
    labelled = {name for question in questions for name in question.documents}
    absent = sorted(labelled - there)
    halves = {half: [one for one in answered if one[0].half == half] for half in ("tuning", "held out")}
    notes = [
        f"{len(names)} documents, indexed in {indexed:.1f} s; {len(labelled) - len(absent)} of them hold answers.",
        _TARGETS,
    ]
    if absent:
        left_out = len(questions) - len(asked)
        notes.append(f"Not on this machine: {', '.join(absent)}; so {left_out} questions were not asked.")
    return [_row(name, some) for name, some in (*halves.items(), ("both", answered))], notes


def _row(half: str, given: Sequence[tuple[Question, Answered]]) -> Row:
    found = [(question, answered) for question, answered in given if question.is_answerable]
    others = [answered for question, answered in given if not question.is_answerable]
    times = sorted(answered.seconds for _, answered in given)
    return {
        "half": half,
        "answerable": len(found),
        "document in first 3 %": _share(
            [not question.documents.isdisjoint(map(bare, answered.documents[:3])) for question, answered in found]
        ),
        "quoted words answer %": _share(
            [any(map(question.is_answered_by, answered.quotations)) for question, answered in found]
        ),
        "first quotation answers %": _share(
            [any(map(question.is_answered_by, answered.quotations[:1])) for question, answered in found]
        ),
        "unanswerable": len(others),
        "refused %": _share([answered.is_refused for answered in others]),
        "median ms": round(1_000 * times[len(times) // 2]) if times else None,
        "slowest ms": round(1_000 * times[-1]) if times else None,
    }


def _share(held: Sequence[bool]) -> int | None:
    return round(100 * sum(held) / len(held)) if held else None
