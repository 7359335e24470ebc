"""What the writer of a report reads: outcomes and sources by their numbers, as much of them as fits."""

import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final, TypeVar

from activities.contracts import InputOutcome
from activities.turn_kinds.critique import CritiqueTask
from activities.turn_kinds.outline import OutlineTask
from activities.turn_kinds.protocol import TurnTask
from activities.turn_kinds.rendering import CitedSource, Quotation
from activities.turn_kinds.synthesis import SynthesisTask
from chargehand.contracts import Finding, Source
from workflows.rules.citations import number_refs

WRITER_TOKENS: Final = 50_000
"""The most that the writer of a report reads."""
_STEPS: Final = (
    (64_000, None),
    (32_000, None),
    (16_000, None),
    (8_000, None),
    (4_000, None),
    (2_000, None),
    (1_000, None),
    (500, 20),
    (500, 8),
    (300, 3),
    (100, 1),
    (0, 0),
)
"""Characters of prose and number of findings that are left of each outcome: prose is shortened first."""
_GAP_CHARACTERS: Final = 200
_CHARACTERS_PER_TOKEN: Final = 3
"""At least, of letters and spaces of English; fewer of everything else."""
_PLAIN: Final = (string.ascii_letters + " ").encode()

_Task = TypeVar("_Task", bound=SynthesisTask | CritiqueTask | OutlineTask)


@dataclass(frozen=True)
class Numbering:
    """The numbers under which a report cites its sources and their quotations."""

    sources: Sequence[Source]
    """In citation order."""
    quotations: Mapping[str, Sequence[str]]
    """Words that stand in each source, by its `ref`."""

    @property
    def numbers(self) -> dict[str, int]:
        """The number of each source, by its `ref`."""
        return {source.ref: number for number, source in enumerate(self.sources, start=1)}


def tokens_of(text: str) -> int:
    """Estimate the tokens of a text, rather too many than too few, by how many bytes its characters take."""
    size, wide = len(text.encode(errors="surrogatepass")), len(text.encode("utf-16-le", errors="surrogatepass")) // 2
    ascii_only = text.encode("ascii", errors="ignore")
    of_four = wide - len(text)
    others = len(text) - len(ascii_only) - of_four
    of_three = size - len(ascii_only) - 4 * of_four - 2 * others
    marks = len(ascii_only.translate(None, delete=_PLAIN))
    letters = len(ascii_only) - marks
    return ceil(letters / _CHARACTERS_PER_TOKEN + marks / 2 + (others - of_three) + 1.5 * of_three + 3 * of_four)


def rendered_tokens(task: TurnTask) -> int:
    """Estimate the tokens of a task as its model reads it, without the user's documents."""
    return tokens_of("\n\n".join(task.sections(None)))


def with_outcomes(task: _Task, outcomes: Sequence[InputOutcome], numbering: Numbering) -> _Task:
    """Have a task read outcomes and their sources as they are."""
    read = {"outcomes": numbered_outcomes(outcomes, numbering), "sources": cited_sources(outcomes, numbering)}
    return task.model_copy(update=read)


def fitted_task(
    task: _Task,
    outcomes: Sequence[InputOutcome],
    numbering: Numbering,
    fits: Callable[[_Task], bool] = lambda task: rendered_tokens(task) <= WRITER_TOKENS,
) -> _Task:
    """Have a task read outcomes, shortened until it fits; findings and what they rest on are the last to go."""
    for shortened in _shortened(outcomes):
        task = with_outcomes(task, shortened, numbering)
        if fits(task):
            break
    return task


def numbered_outcomes(outcomes: Sequence[InputOutcome], numbering: Numbering) -> tuple[InputOutcome, ...]:
    """Cite by number in outcomes; what the list of sources says is left out of them."""
    numbers = numbering.numbers

    def numbered(finding: Finding) -> Finding:
        labels = [f"S{numbers[ref]}" for ref in finding.sources]
        known = numbering.quotations.get(finding.sources[0], ()) if finding.sources else ()
        if finding.quote in known:
            labels[0] += f".{known.index(finding.quote) + 1}"
        return finding.model_copy(update={"sources": tuple(labels), "quote": ""})

    return tuple(
        given.model_copy(
            update={
                "outcome": given.outcome.model_copy(
                    update={
                        "content": number_refs(given.outcome.content, numbers),
                        "findings": tuple(map(numbered, given.outcome.findings)),
                        "sources": (),
                    }
                )
            }
        )
        for given in outcomes
    )


def cited_sources(outcomes: Sequence[InputOutcome], numbering: Numbering) -> tuple[CitedSource, ...]:
    """List the sources of outcomes, with the quotations that these outcomes rest on."""
    refs = {source.ref for given in outcomes for source in given.outcome.sources}
    quoted = {
        (finding.sources[0], finding.quote)
        for given in outcomes
        for finding in given.outcome.findings
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


def _shortened(outcomes: Sequence[InputOutcome]) -> Iterator[Sequence[InputOutcome]]:
    """Shorten outcomes evenly, step by step; steps that cannot fit are left out."""
    most_characters = WRITER_TOKENS * 2 * _CHARACTERS_PER_TOKEN
    if sum(len(given.outcome.content) for given in outcomes) <= most_characters:
        yield outcomes
    for characters, findings in _STEPS:
        if sum(min(len(given.outcome.content), characters) for given in outcomes) <= most_characters:
            yield [_cut(given, characters, findings) for given in outcomes]


def _cut(given: InputOutcome, characters: int, findings: int | None) -> InputOutcome:
    outcome = given.outcome
    kept = outcome.findings if findings is None else outcome.findings[:findings]
    named = {ref for finding in kept for ref in finding.sources}
    changes: dict[str, object] = {"content": outcome.content[:characters], "findings": kept}
    if findings is not None:
        changes["sources"] = tuple(source for source in outcome.sources if source.ref in named)
        changes["gaps"] = tuple(gap[:_GAP_CHARACTERS] for gap in outcome.gaps[:findings])
        changes["issues"] = outcome.issues[:findings]
    instruction = given.instruction[: max(characters, _GAP_CHARACTERS)]
    return given.model_copy(update={"instruction": instruction, "outcome": outcome.model_copy(update=changes)})
