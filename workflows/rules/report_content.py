"""From outcomes to the report: numbered sources, checked citations, gaps, money and time."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Final, cast, get_args

from pydantic_core import to_json

from activities.contracts.rounds import InputOutcome, Note
from activities.turn_kinds.rendering import note_lines
from activities.turn_kinds.synthesis import SynthesisAnswer
from chargehand.contracts import (
    Artifact,
    Escalation,
    Failure,
    Issue,
    Outcome,
    Plan,
    Report,
    Severity,
    Source,
    SpendLine,
    StopReason,
    Subtask,
    SubtaskRecord,
    SubtaskState,
    Success,
    Timing,
    Usage,
    without_control_characters,
)
from chargehand.contracts.problems import shorten
from chargehand.contracts.request import LONGEST_GOAL
from chargehand.state_words import reason_words
from workflows.rules.citation_checks import Evidence
from workflows.rules.citations import CITES_NOTHING, cited_numbers, number_more_refs, number_refs, replace_citations
from workflows.rules.graph import USABLE, critical_path

_SEVERITIES: Final = get_args(Severity)
_LONG_REPORT: Final = 3_000
"""A report of at least this many words is written by section."""
_SECTION_WORDS: Final = 1_000
_MOST_SECTIONS: Final = 20
_NOTES_CHARACTERS: Final = 12_000
"""Maximum of an earlier attempt's notes in the goal of a nested session."""
_REPORT_BYTES: Final = 1_000_000
"""Half of Temporal's payload limit, so that every client can read a report without external storage."""
_REPORT_STEPS: Final = ((100_000, 2_000), (20_000, 1_000), (5_000, 500), (2_000, 200), (500, 100))
"""Maximum text and list lengths tried in order until the report fits."""


def sections_for(words: int) -> int:
    """Compute the maximum number of sections of a report; 0 if it is written in one piece."""
    return min(ceil(words / _SECTION_WORDS), _MOST_SECTIONS) if words >= _LONG_REPORT else 0


def numbered_sources(outcomes: Iterable[InputOutcome]) -> tuple[Source, ...]:
    """List every source once, in plan order: the first is cited as `[S1]`."""
    return tuple({source.ref: source for entry in outcomes for source in entry.outcome.sources}.values())


def quotations_of(outcomes: Iterable[InputOutcome]) -> dict[str, tuple[str, ...]]:
    """List the verified quotations of agents by the source's `ref`."""
    quotes: dict[str, dict[str, None]] = {}
    for finding in (finding for entry in outcomes for finding in entry.outcome.findings):
        if finding.quote and finding.sources:
            quotes.setdefault(finding.sources[0], {})[finding.quote] = None
    return {ref: tuple(each) for ref, each in quotes.items()}


def read_again(earlier: InputOutcome, outcomes: Iterable[InputOutcome]) -> InputOutcome:
    """Drop earlier quotations from sources that this session has read again, since they may have changed.

    Sources known only from the earlier session keep their quotations.
    """
    own = {source.ref for entry in outcomes for source in entry.outcome.sources if not source.session}
    if not own:
        return earlier

    findings = earlier.outcome.findings
    reduced = earlier.outcome.replace(
        findings=tuple(each if own.isdisjoint(each.sources) else each.replace(quote="") for each in findings),
        sources=tuple(source for source in earlier.outcome.sources if source.ref not in own),
    )
    return earlier.replace(outcome=reduced)


def evidence_of(outcomes: Sequence[InputOutcome], sources: Sequence[Source], gaps: Iterable[str]) -> Evidence:
    """Collect the evidence that the statements of a report may use."""
    findings = tuple(finding for entry in outcomes for finding in entry.outcome.findings)
    return Evidence(sources, quotations_of(outcomes), findings, tuple(gaps))


def check_citations(text: str, sources: Sequence[Source], unknown: str = "") -> str:
    """Replace citations of sources that no agent returned."""
    return number_more_refs(text, {source.ref: number for number, source in enumerate(sources, start=1)}, unknown)


def keep_cited(text: str, sources: Sequence[Source]) -> tuple[str, tuple[Source, ...]]:
    """Keep only the cited sources, renumbered in order of citation."""
    order = cited_numbers(text)
    renumbered = {old: new for new, old in enumerate(order, start=1)}
    return (
        replace_citations(text, lambda number: f"[S{renumbered[number]}]"),
        tuple(sources[number - 1] for number in order),
    )


def draft_from(outcome: Outcome, sources: Sequence[Source]) -> SynthesisAnswer:
    """Build a draft from one outcome: its answer with its citations."""
    numbers = {source.ref: number for number, source in enumerate(sources, start=1)}
    answer = number_refs(outcome.content, numbers, CITES_NOTHING)
    own = [f"[S{numbers[source.ref]}]" for source in outcome.sources]
    uncited = [citation for citation in own if citation not in answer]
    if uncited:
        answer = f"{answer}\n\n*Read for this: {', '.join(uncited)}*"
    return SynthesisAnswer(answer=answer, gaps=list(outcome.gaps), contradictions=[], confidence=outcome.confidence)


def draft_without_writer(outcomes: Sequence[InputOutcome], sources: Sequence[Source], notice: str) -> SynthesisAnswer:
    """Build a draft from the outcomes unedited, if no model can write the report."""
    numbers = {source.ref: number for number, source in enumerate(sources, start=1)}
    parts = [f"*{notice}*"]
    for entry in outcomes:
        if entry.outcome.content:
            parts.append(f"## {entry.id} · {entry.agent}\n\n{number_refs(entry.outcome.content, numbers)}")
            cited = " ".join(f"[S{numbers[source.ref]}]" for source in entry.outcome.sources)
            parts += [f"*Sources: {cited}*"] if cited else []
    usable = [entry.outcome.confidence for entry in outcomes if entry.outcome.content]
    return SynthesisAnswer(answer="\n\n".join(parts), gaps=[], contradictions=[], confidence=min(usable, default=0))


def bound_report(report: Report) -> Report:
    """Shorten the longest texts and lists of a report until it fits into a workflow result."""
    for longest, most in _REPORT_STEPS:
        if len(report.model_dump_json().encode()) <= _REPORT_BYTES:
            break
        cut = Report.model_validate(_cut(report.model_dump(mode="json", exclude={"output"}), longest, most))
        report = cut.replace(output=report.output)
        gap = f"The report was too large: texts were cut to {longest:,} characters, and lists to {most:,} items."
        report = report.replace(gaps=(*report.gaps, gap))
    return report


def _cut(value: object, longest: int, most: int) -> object:
    match value:
        case str():
            return shorten(value, longest)
        case list():
            return [_cut(item, longest, most) for item in cast("list[object]", value)[:most]]
        case dict():
            return {name: _cut(item, longest, most) for name, item in cast("dict[str, object]", value).items()}
        case _:
            return value


def gaps_of(outcomes: Iterable[InputOutcome], named: Iterable[str]) -> tuple[str, ...]:
    """List the gaps: those named by the writer and by agents, and every failed subtask."""
    lost = (
        f"{entry.id} ({entry.agent}) {'was skipped' if outcome.reason == 'skipped' else 'failed'}: "
        f"{outcome.message or reason_words(outcome.reason)}"
        for entry in outcomes
        if isinstance(outcome := entry.outcome, Failure | Escalation)
    )
    return tuple(dict.fromkeys([*named, *(gap for entry in outcomes for gap in entry.outcome.gaps), *lost]))


def state_of(outcome: Outcome) -> SubtaskState:
    return "skipped" if isinstance(outcome, Failure) and outcome.reason == "skipped" else outcome.kind


def reason_of(outcome: Outcome) -> str:
    """Return why a subtask did not succeed; empty if it did."""
    return "" if isinstance(outcome, Success) else outcome.reason


def usage_of(spend: Iterable[SpendLine]) -> Usage:
    return sum((line.usage for line in spend), Usage())


def merge_spend(spend: Iterable[SpendLine]) -> tuple[SpendLine, ...]:
    """Add up the lines of each agent, model and purpose."""
    merged: dict[tuple[str, str, str], Usage] = {}
    for line in spend:
        key = (line.agent, line.model, line.purpose)
        merged[key] = merged.get(key, Usage()) + line.usage
    return tuple(
        SpendLine(agent=agent, model=model, purpose=purpose, usage=usage)
        for (agent, model, purpose), usage in merged.items()
    )


def timing_of(plan: Plan | None, records: Sequence[SubtaskRecord], started_at: datetime, ended_at: datetime) -> Timing:
    """Compare the duration of a session with that of its steps run in sequence."""
    spans = {each.id: (each.started_at, each.ended_at) for each in records if each.started_at and each.ended_at}
    durations = {id_: end - start for id_, (start, end) in spans.items()}
    wall = ended_at - started_at
    sequential = sum(durations.values(), timedelta(0))
    overlapped = sequential - _covered_time(spans.values())
    return Timing(
        started_at=started_at,
        ended_at=ended_at,
        wall=wall,
        subtasks_one_after_another=sequential,
        critical_path=critical_path(plan, durations) if plan else timedelta(0),
        speed_up=round((wall + overlapped) / wall, 2) if wall else 1.0,
    )


def _covered_time(spans: Iterable[tuple[datetime, datetime]]) -> timedelta:
    total, reached = timedelta(0), datetime.min.replace(tzinfo=UTC)
    for start, end in sorted(spans):
        total += max(end - max(start, reached), timedelta(0))
        reached = max(reached, end)
    return total


def brain_of(spend: Iterable[SpendLine]) -> str:
    """Name the models used by a session."""
    models = sorted({line.model for line in spend if line.model})
    if models == ["extractive"]:
        return "No language model was used: quoted passages and computed figures only."
    return ", ".join(models) if models else "No model was called."


def issues_of(outcomes: Iterable[Outcome]) -> tuple[Issue, ...]:
    """List the reviewers' issues, by severity and confidence."""
    issues = [issue for outcome in outcomes for issue in outcome.issues if issue.message]
    return tuple(sorted(issues, key=lambda issue: (_SEVERITIES.index(issue.severity), -issue.confidence)))


def artifacts_of(outcomes: Iterable[Outcome]) -> tuple[Artifact, ...]:
    """List every file created by tools once."""
    by_uri = {artifact.uri: artifact for outcome in outcomes for artifact in outcome.artifacts}
    return tuple(by_uri.values())


def input_for(subtask: Subtask, outcome: Outcome) -> InputOutcome:
    """Turn an outcome into an input of other subtasks, without its spend."""
    return subtask.make(InputOutcome, outcome=outcome.replace(spend=()))


def nested_goal(
    subtask: Subtask, inputs: Iterable[InputOutcome], notes: Sequence[Note] = (), told: Sequence[str] = ()
) -> str:
    """Build the goal of a nested session: the instruction, the user's messages since, and what is known."""
    noted = [f"Noted in an attempt that did not end:\n{note_lines(notes)}"[:_NOTES_CHARACTERS]] if notes else []
    known = [f"Known already, from {entry.id}:\n{entry.outcome.content}" for entry in inputs if entry.outcome.content]
    data = [] if subtask.input is None else [f"Input: {to_json(subtask.input).decode()}"]
    return without_control_characters("\n\n".join([subtask.instruction, *told, *data, *noted, *known]))[:LONGEST_GOAL]


def stop_reason_of(outcomes: Sequence[Outcome], stopped: StopReason | None) -> StopReason:
    """Return the stop reason of a session; `stopped` is what ended it before its plan was complete."""
    if stopped is not None:
        return stopped
    reasons = {reason_of(outcome) for outcome in outcomes}
    if "out_of_budget" in reasons:
        return "out_of_budget"
    if "out_of_turns" in reasons:
        return "out_of_turns"
    return "completed" if any(outcome.kind in USABLE for outcome in outcomes) else "nothing_succeeded"
