"""The outcomes that models read: as much as fits, with numbered sources for writing a report."""

import string
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Final, TypeVar

from pydantic_core import to_json

from activities.contracts.quotations import PASSAGE_GAP
from activities.contracts.rounds import InputOutcome
from activities.turn_kinds.judgements import CritiqueTask
from activities.turn_kinds.protocol import TurnTask
from activities.turn_kinds.rendering import CitedSource, Quotation
from activities.turn_kinds.synthesis import OutlineTask, SynthesisTask
from activities.turn_kinds.work import WorkTask
from chargehand.contracts import Finding, Source
from workflows.rules.citations import number_refs

WRITER_TOKENS: Final = 50_000
"""Maximum for the writer of a report and its critic."""
SUBTASK_TOKENS: Final = 25_000
"""Maximum that a subtask reads of the outcomes it depends on, which multiply in dense plans."""
EARLIER_TOKENS: Final = 6_000
"""Maximum that a planner or an agent reads of the previous session."""
REVIEW_TOKENS: Final = 15_000
"""Maximum for a reviewer."""
DECISION_TOKENS: Final = 12_000
"""Maximum for any other decision."""
_BYTES_PER_TOKEN: Final = 6
"""Maximum JSON bytes of outcomes per token, including unrendered parts; used to reserve their turn."""
_STEPS: Final = (
    (128_000, 600, None),
    (64_000, 600, None),
    (32_000, 600, None),
    (16_000, 600, None),
    (8_000, 400, None),
    (4_000, 200, None),
    (2_000, 100, None),
    (1_000, 100, None),
    (500, 50, 20),
    (500, 0, 8),
    (300, 0, 3),
    (100, 0, 1),
    (0, 0, 0),
)
"""Kept per outcome at each step: characters of prose, characters of each source, number of findings."""
_GAP_CHARACTERS: Final = 200
_ISSUE_CHARACTERS: Final = 100
_CHARACTERS_PER_TOKEN: Final = 3
"""A lower bound for English letters and spaces; all other text has fewer."""
_PLAIN: Final = (string.ascii_letters + " ").encode()

_Task = TypeVar("_Task", bound=TurnTask)
_CitingTask = TypeVar("_CitingTask", bound=SynthesisTask | CritiqueTask | OutlineTask)
_MOST_NAMES: Final = 8


@dataclass(frozen=True)
class Numbering:
    """The numbers by which a report cites its sources and their quotations."""

    sources: list[Source]
    """In citation order."""
    quotations: Mapping[str, Sequence[str]]
    """Verified quotations by the source's `ref`."""

    def add(self, source: Source) -> int:
        """Add a source that was read after the outcomes, or extend the one it repeats; return its number."""
        number = self.numbers.get(source.ref)
        if number is None:
            self.sources.append(source)
            return len(self.sources)
        known = self.sources[number - 1]
        self.sources[number - 1] = known.replace(quote=PASSAGE_GAP.join((known.quote, source.quote)))
        return number

    @property
    def numbers(self) -> dict[str, int]:
        return {source.ref: number for number, source in enumerate(self.sources, start=1)}


def tokens_of(text: str) -> int:
    """Estimate the tokens of a text, erring on the high side, from its bytes per character."""
    size, wide = len(text.encode(errors="surrogatepass")), len(text.encode("utf-16-le", errors="surrogatepass")) // 2
    ascii_only = text.encode("ascii", errors="ignore")
    of_four = wide - len(text)
    others = len(text) - len(ascii_only) - of_four
    of_three = size - len(ascii_only) - 4 * of_four - 2 * others
    marks = len(ascii_only.translate(None, delete=_PLAIN))
    letters = len(ascii_only) - marks
    return ceil(letters / _CHARACTERS_PER_TOKEN + marks / 2 + (others - of_three) + 1.5 * of_three + 3 * of_four)


def beginning(text: str, most_tokens: int) -> str:
    tokens = tokens_of(text)
    return text if tokens <= most_tokens else text[: len(text) * most_tokens // tokens]


def rendered_tokens(task: TurnTask) -> int:
    """Estimate the tokens of a rendered task, without the user's documents."""
    return tokens_of("\n\n".join((*task.shared_sections(None), *task.sections(None))))


def with_outcomes(task: _CitingTask, outcomes: Sequence[InputOutcome], numbering: Numbering) -> _CitingTask:
    """Give a task outcomes and their sources unchanged."""
    read = {"outcomes": numbered_outcomes(outcomes, numbering), "sources": cited_sources(outcomes, numbering)}
    return task.replace(**read)


def fit_task(
    task: _CitingTask,
    outcomes: Sequence[InputOutcome],
    numbering: Numbering,
    can_be_paid: Callable[[_CitingTask], bool] = lambda _: True,
) -> _CitingTask:
    """Give outcomes to a task that cites by numbers, shortened to fit."""
    return fit(outcomes, lambda read: with_outcomes(task, read, numbering), WRITER_TOKENS, can_be_paid)


def fit(
    outcomes: Sequence[InputOutcome],
    reading: Callable[[tuple[InputOutcome, ...]], _Task],
    most_tokens: int,
    can_be_paid: Callable[[_Task], bool] = lambda _: True,
) -> _Task:
    """Give a task outcomes, shortened evenly until they fit; findings and their quotations are dropped last.

    `most_tokens` is the maximum that the outcomes may add to the rendered task.
    """
    *longer, shortest = _versions(outcomes, most_tokens)
    least = reading(shortest())
    most_bytes = _json_bytes(least) + _BYTES_PER_TOKEN * most_tokens
    most_tokens += rendered_tokens(least)
    for version in longer:
        task = reading(version())
        if _json_bytes(task) <= most_bytes and rendered_tokens(task) <= most_tokens and can_be_paid(task):
            return task
    return least


def fit_inputs(outcomes: Sequence[InputOutcome], most_tokens: int = SUBTASK_TOKENS) -> tuple[InputOutcome, ...]:
    """Shorten outcomes until an agent can read them as its inputs."""
    return fit(outcomes, lambda read: WorkTask(goal="", instruction="", inputs=read), most_tokens).inputs


def prior_knowledge(earlier: Sequence[InputOutcome]) -> tuple[InputOutcome, ...]:
    """Shorten the findings of an earlier session to what each plan and agent of this one can read."""
    return fit_inputs(earlier, EARLIER_TOKENS) if earlier else ()


def _json_bytes(task: TurnTask) -> int:
    return len(task.model_dump_json().encode())


def numbered_outcomes(outcomes: Sequence[InputOutcome], numbering: Numbering) -> tuple[InputOutcome, ...]:
    """Number the citations in outcomes, and drop what the list of sources repeats."""
    numbers = numbering.numbers

    def numbered(finding: Finding) -> Finding:
        labels = [f"S{numbers[ref]}" for ref in finding.sources]
        known = numbering.quotations.get(finding.sources[0], ()) if finding.sources else ()
        if finding.quote in known:
            labels[0] += f".{known.index(finding.quote) + 1}"
        return finding.replace(sources=tuple(labels), quote="")

    return tuple(
        entry.replace(
            outcome=entry.outcome.replace(
                content=number_refs(entry.outcome.content, numbers),
                findings=tuple(map(numbered, entry.outcome.findings)),
                sources=(),
            )
        )
        for entry in outcomes
    )


def cited_sources(outcomes: Sequence[InputOutcome], numbering: Numbering) -> tuple[CitedSource, ...]:
    """List the sources of outcomes, with the quotations taken from them."""
    refs = {source.ref for entry in outcomes for source in entry.outcome.sources}
    quoted = {
        (finding.sources[0], finding.quote)
        for entry in outcomes
        for finding in entry.outcome.findings
        if finding.sources and finding.quote
    }
    with_quotes = {ref for ref, _ in quoted}
    return tuple(
        CitedSource(
            number=number,
            ref=source.ref,
            title=source.title,
            quotations=tuple(
                Quotation(number=position, text=quote)
                for position, quote in enumerate(numbering.quotations.get(source.ref, ()), start=1)
                if (source.ref, quote) in quoted or source.ref not in with_quotes
            ),
        )
        for number, source in enumerate(numbering.sources, start=1)
        if source.ref in refs
    )


def _versions(outcomes: Sequence[InputOutcome], most_tokens: int) -> Iterator[Callable[[], tuple[InputOutcome, ...]]]:
    """Yield ever shorter versions of outcomes, skipping those that cannot fit."""
    most_characters = most_tokens * 2 * _CHARACTERS_PER_TOKEN
    if sum(len(entry.outcome.content) for entry in outcomes) <= most_characters:
        yield partial(tuple[InputOutcome, ...], outcomes)
    for step in _STEPS:
        if sum(min(len(entry.outcome.content), step[0]) for entry in outcomes) <= most_characters:
            yield lambda step=step: tuple(_cut(entry, *step) for entry in outcomes)


def unread_issues(outcomes: Sequence[InputOutcome], read: Sequence[InputOutcome], reader: str) -> list[str]:
    """Name the issues that a subtask did not receive because they did not fit."""
    counts: Counter[str] = Counter()
    for whole, part in zip(outcomes, read, strict=True):
        counts[whole.agent] += len(whole.outcome.issues) - len(part.outcome.issues)
    if not counts.total():
        return []
    return [f"{reader}: issues it was not given, too long together: {counts.total()} ({by_name(+counts)})."]


def _cut(entry: InputOutcome, characters: int, of_source: int, findings: int | None) -> InputOutcome:
    outcome = entry.outcome
    selected = outcome.findings if findings is None else outcome.findings[:findings]
    named = {ref for finding in selected for ref in finding.sources}
    sources = tuple(
        source.replace(quote=source.quote[:of_source])
        for source in outcome.sources
        if findings is None or source.ref in named
    )
    changes: dict[str, object] = {"content": outcome.content[:characters], "findings": selected, "sources": sources}
    if len(to_json(outcome.data)) > characters:
        changes["data"] = None
    if findings is not None:
        changes["gaps"] = tuple(gap[:_GAP_CHARACTERS] for gap in outcome.gaps[:findings])
    most = max(of_source, _ISSUE_CHARACTERS)
    changes["issues"] = tuple(
        issue.replace(suggestion=issue.suggestion[:of_source], message=issue.message[:most])
        for issue in outcome.issues[:findings]
    )
    instruction = entry.instruction[: max(characters, _GAP_CHARACTERS)]
    return entry.replace(instruction=instruction, outcome=outcome.replace(**changes))


def by_name(counts: Counter[str]) -> str:
    """List counts, largest first: `logic 5, style 2`; the smallest of many are combined."""
    ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    listed = [f"{name or 'no file'} {count}" for name, count in ordered[:_MOST_NAMES]]
    others = sum(count for _, count in ordered[_MOST_NAMES:])
    return ", ".join([*listed, *([f"others {others}"] if others else [])])
