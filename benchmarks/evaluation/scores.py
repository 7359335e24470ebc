"""How good one session is: pure functions of a case, a report, and the recorded traffic."""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Final

from pydantic import BaseModel

from activities.contracts.quotations import PASSAGE_GAP
from benchmarks.evaluation.answers.verdict import Verdict, check_answer
from benchmarks.evaluation.dataset import Case, GoldSubtask
from chargehand.contracts import Report, Source, SubtaskRecord
from chargehand_plugins.tape.contracts import Line
from workflows.rules.citation_checks import NO_SOURCE

_MARK: Final = re.compile(r"\[S(\d+)\]")
_WORD: Final = re.compile(r"\w+")
_THOUSANDS: Final = re.compile(r"(?<=\d)[,\u202f\u00a0](?=\d{3})")
_LEAST_SIMILAR: Final = 0.3
"""Minimum share of common words in two instructions that ask for the same thing."""
_LONGEST: Final = 4_000


class Scores(BaseModel):
    """The measures of one session; None where the case does not define them. Shares are from 0 to 1."""

    case: str
    repetition: int = 1
    passed: bool
    """Whether the answer is the golden one or, if there is none, exactly the right agents were used."""
    reason: str = ""
    """Why the case did not pass, or the judge's reason."""
    said: str = ""
    """The first 4,000 characters of an answer that did not pass."""
    judged: bool = False
    """Whether a judge decided."""
    undecided: bool = False
    """Whether code could not tell if the answer is wrong, and no judge was asked."""
    answer: float | None = None
    """Share of the golden answer that the answer states."""
    error: str = ""
    """Why there is no report."""

    # The process, independent of passing.
    completed: bool = False
    """Whether the plan was carried out to the end and the report written, with or without gaps."""
    plan_valid: bool | None = None
    """Whether the first plan was accepted."""
    nodes: float | None = None
    """Agreement of the subtasks with the gold plan: F1."""
    edges: float | None = None
    """Agreement of the dependencies between subtasks that both plans have: F1."""
    executed: float | None = None
    """Share of the gold subtasks that succeeded."""
    routed: bool | None = None
    """Whether the plan uses the right agents, even if another one took over."""
    citations: float | None = None
    """Share of the answer's citations whose source was returned by a tool and contains the quotation."""
    gaps_named: bool | None = None
    """Whether the report names everything that is missing, and nothing else."""
    turns: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    """Input tokens read from the provider's cache."""
    output_tokens: int = 0
    usd: Decimal = Decimal(0)
    judge_usd: Decimal = Decimal(0)
    seconds: float = 0
    forced: int = 0
    """Turns in which an agent had to answer instead of using more tools."""
    truncated: int = 0
    """Replies that were cut off."""


def score(case: Case, report: Report, lines: Sequence[Line], seconds: float, repetition: int = 1) -> Scores:
    """Score a session that has a report, without a judge."""
    matches = match(case.plan, report.subtasks)
    done = [gold for gold in case.plan if gold.id in matches and matches[gold.id].state == "success"]
    missing = [gold for gold in case.plan if gold not in done]
    routed = _planned(report.subtasks, lines) == Counter(case.agents) if case.agents else None
    verdict = answer_verdict(case, report.answer)
    passed = verdict.right if verdict else routed is not False
    return Scores(
        case=case.id,
        repetition=repetition,
        passed=passed,
        reason=verdict.reason if verdict else "" if passed else "It used other agents.",
        said=report.answer[:_LONGEST] if verdict and not passed else "",
        completed=report.stop_reason in {"completed", "partial", "unanswered"},
        plan_valid=not any(line.turn and line.turn.kind == "plan" and line.turn.attempt for line in lines),
        nodes=f1(len(matches), len(case.plan), len(report.subtasks)) if case.plan else None,
        edges=_edge_agreement(case.plan, report.subtasks, matches) if case.plan else None,
        executed=len(done) / len(case.plan) if case.plan else None,
        routed=routed,
        undecided=bool(verdict and not verdict.is_sure),
        answer=verdict.share if verdict else None,
        citations=citation_share(report, lines),
        gaps_named=_gaps_named(case, report, missing),
        turns=report.usage.turns,
        input_tokens=report.usage.input_tokens,
        cached_tokens=report.usage.cached_input_tokens,
        output_tokens=report.usage.output_tokens,
        usd=report.usage.cost_usd,
        seconds=seconds,
        forced=sum(bool(line.turn and line.turn.kind == "work" and line.turn.must_answer) for line in lines),
        truncated=sum(bool(line.reply and line.reply.stop == "truncated") for line in lines),
    )


def _planned(subtasks: Sequence[SubtaskRecord], lines: Iterable[Line]) -> Counter[str]:
    """Count the agents that the plan chose first, not those that took over unanswered subtasks."""
    began: defaultdict[str, list[str]] = defaultdict(list)
    for turn in (line.turn for line in lines if line.turn and line.turn.kind == "work"):
        began[turn.about].append(turn.agent)
    for record in subtasks:
        began[record.instruction].append(record.agent)
    counts = Counter(record.instruction for record in subtasks)
    return Counter(agent for about, count in counts.items() for agent in [*dict.fromkeys(began[about])][:count])


def answer_verdict(case: Case, answer: str) -> Verdict | None:
    """Compare an answer with the golden one; None if the case has none."""
    if not case.is_golden:
        return None
    golden = () if case.answer is None else case.answer
    return check_answer(golden, answer.replace(NO_SOURCE, ""), question=case.goal, wrong=case.wrong, whole=case.whole)


def normalise(text: str) -> str:
    """Fold case, width, white space and thousands separators, so that only differences in wording remain."""
    plain = _THOUSANDS.sub("", unicodedata.normalize("NFKC", text).casefold().replace("**", ""))
    return " ".join(plain.split())


def citation_share(report: Report, lines: Sequence[Line]) -> float | None:
    """Return the share of the answer's citations that are correct; None if it has none."""
    returned: dict[str, str] = {}
    for line in lines:
        for source in line.result.sources if line.result else ():
            returned[source.ref] = f"{returned.get(source.ref, '')}\n{normalise(source.quote)}"
    marks = [int(number) for number in _MARK.findall(report.answer)]
    valid = [
        number
        for number in marks
        if 0 < number <= len(report.sources) and _was_returned(report.sources[number - 1], returned)
    ]
    return len(valid) / len(marks) if marks else None


def _was_returned(source: Source, returned: Mapping[str, str]) -> bool:
    read = returned.get(source.ref)
    return read is not None and all(normalise(quote) in read for quote in source.quote.split(PASSAGE_GAP))


def match(plan: Sequence[GoldSubtask], subtasks: Sequence[SubtaskRecord]) -> dict[str, SubtaskRecord]:
    """Pair gold subtasks with those of a session, starting with the most similar instructions."""
    pairs = sorted(
        (
            (_similarity(gold.instruction, record.instruction), -position, gold.id, record)
            for gold in plan
            for position, record in enumerate(subtasks)
        ),
        key=lambda pair: pair[:2],
        reverse=True,
    )
    found: dict[str, SubtaskRecord] = {}
    taken: set[str] = set()
    for similarity, _, gold, record in pairs:
        if similarity >= _LEAST_SIMILAR and gold not in found and record.id not in taken:
            found[gold] = record
            taken.add(record.id)
    return found


def f1(common: int, gold: int, given: int) -> float:
    """Combine precision and recall; two empty sets count as agreement."""
    return 2 * common / (gold + given) if gold + given else 1.0


def _similarity(one: str, other: str) -> float:
    mine, theirs = Counter(_WORD.findall(one.casefold())), Counter(_WORD.findall(other.casefold()))
    return (mine & theirs).total() / max(1, (mine | theirs).total())


def _edge_agreement(
    plan: Sequence[GoldSubtask], subtasks: Sequence[SubtaskRecord], matches: dict[str, SubtaskRecord]
) -> float:
    names = {gold: record.id for gold, record in matches.items()}
    golden = {
        (names[need], names[gold.id]) for gold in plan if gold.id in names for need in gold.depends_on if need in names
    }
    common = set(names.values())
    given = {
        (need, record.id) for record in subtasks if record.id in common for need in record.depends_on if need in common
    }
    return f1(len(golden & given), len(golden), len(given))


def _gaps_named(case: Case, report: Report, missing: Iterable[GoldSubtask]) -> bool | None:
    if case.has_gap is not None:
        return bool(report.gaps) == case.has_gap
    if not case.plan:
        return None
    gaps = normalise("\n".join(report.gaps))
    return all(normalise(gold.instruction) in gaps for gold in missing)
