"""Prompt sections shared by several kinds of turns: documents, outcomes, sources. Untrusted text is marked."""

from collections.abc import Sequence
from typing import Final

from pydantic_core import to_json

from activities.contracts.drafts import ContradictionDraft
from activities.contracts.rounds import InputOutcome, Note
from activities.documents.catalog import Catalog
from activities.turn_kinds.short_refs import WHOLE, ShortRefs
from activities.turn_kinds.untrusted_text import data_block, request_block
from chargehand.contracts import Contract, Contradiction, Escalation, Failure, Finding, Issue, left_out

CATALOG_BYTES: Final = 9_000
"""Maximum size of a prompt's section about the session's documents."""

_UNITS: Final = {"pdf": "pages", "picture": "page", "xlsx": "rows", "ods": "rows", "csv": "rows"}


def request_section(goal: str, *, context_only: bool = False, criteria: Sequence[str] = ()) -> str:
    """Render the user's request with its grading criteria."""
    if criteria:
        numbered = "\n".join(f"{number}. {each}" for number, each in enumerate(criteria, start=1))
        goal = f"{goal}\n\nThe report will be graded by these criteria:\n{numbered}"
    return f"{'For context, the' if context_only else 'The'} user's request:\n{request_block(goal)}"


def told_section(told: Sequence[str]) -> list[str]:
    """Render the user's messages to an agent since its task was planned, if any."""
    heading = "The user has written to you. Follow this from now on, also where your instruction says otherwise:"
    return ["\n".join([heading, *map(request_block, told)])] if told else []


def said_text(text: str) -> str:
    """Render the user's message in a conversation."""
    return f"The user says:\n{request_block(text)}"


def nesting_note(*, may_nest: bool) -> str:
    """Tell a planner whether a subtask may be a nested session."""
    if may_nest:
        return "The agent supervisor is a session of its own, for a part that needs several agents; use it rarely."
    return "Nested sessions are not available."


def document_sections(catalog: Catalog | None) -> list[str]:
    """Render the user's documents that the model may know, if any."""
    if catalog is None or not catalog.documents:
        return []
    return [f"Documents of the user:\n{data_block(catalog_text(catalog))}"]


def catalog_text(catalog: Catalog) -> str:
    """Describe documents and tables, one per line, up to `CATALOG_BYTES`."""
    tabular = {table.document for table in catalog.tables}  # tables have columns instead of headings
    lines = [
        f"- {entry.name} ({entry.kind}, {entry.units} {_UNITS.get(entry.kind, 'lines')})"
        + (f" — cannot be read: {entry.problem}" if entry.problem else "")
        + (f" — {' / '.join(entry.headings[:8])}" if entry.headings and entry.name not in tabular else "")
        for entry in catalog.documents
    ]
    lines += [
        f'- table "{table.name}" ({table.document}, {table.rows} rows): '
        + ", ".join(
            f"{column.name} {column.type}" + (f" e.g. {', '.join(column.examples[:4])}" if column.examples else "")
            for column in table.columns
        )
        for table in catalog.tables
    ]
    length = 0
    for number, line in enumerate(lines):
        length += len(line.encode()) + 1
        if length > CATALOG_BYTES:
            return "\n".join([*lines[:number], f"(and {len(lines) - number} more; search finds them too)"])
    return "\n".join(lines)


def bullet_list(items: Sequence[str]) -> str:
    return "\n".join(f"- {item}" for item in items) or "(none)"


def contradiction_lines(contradictions: Sequence[Contradiction | ContradictionDraft], unresolved: str) -> str:
    """List contradictions with their resolutions."""
    return bullet_list(
        [
            "\n  ".join([found.about, *(f"- {each}" for each in found.positions), found.resolution or unresolved])
            for found in contradictions
        ]
    )


class Quotation(Contract):
    """A quotation from a source."""

    number: int
    """The second quotation of the first source is cited as `[S1.2]`."""
    text: str


class CitedSource(Contract):
    """A source as cited by the writer of a report."""

    number: int
    """The first is cited as `[S1]`."""
    ref: str
    title: str = left_out("")
    quotations: tuple[Quotation, ...] = left_out(())


def sources_section(sources: Sequence[CitedSource]) -> str:
    """Render sources and quotations with the numbers by which a report cites them."""
    return f"Sources:\n{data_block(chr(10).join(map(_source_lines, sources)) or '(none)')}"


def _source_lines(source: CitedSource) -> str:
    title = f" — {source.title}" if source.title and source.title != source.ref else ""
    quotations = "".join(f"\n  [S{source.number}.{each.number}] “{each.text}”" for each in source.quotations)
    return f"[S{source.number}] {source.ref}{title}{quotations}"


def outcome_heading(result: InputOutcome) -> str:
    return f"Outcome of {result.id} ({result.agent})"


def refs_of(results: Sequence[InputOutcome]) -> list[str]:
    """List the refs of outcomes' sources in order."""
    return [source.ref for result in results for source in result.outcome.sources]


def outcome_section(result: InputOutcome, refs: ShortRefs = WHOLE) -> str:
    """Render an outcome for a model that works or writes with it."""
    outcome = result.outcome
    if isinstance(outcome, Failure | Escalation):
        lost = f"It produced no result ({outcome.reason.replace('_', ' ')}): work without it and name the gap."
        return f"{outcome_heading(result)}:\n{data_block(instruction_line(result).rstrip())}\n{lost}"
    titles = {source.ref: source.title for source in outcome.sources}
    text = refs.explain(f"{instruction_line(result)}{outcome.content}\n\n{findings_text(result)}".rstrip(), titles)
    return f"{outcome_heading(result)}, confidence {outcome.confidence}:\n{data_block(text)}"


def verdict_section(result: InputOutcome, refs: ShortRefs = WHOLE) -> str:
    """Render an outcome for a model that decides what remains to be done, failures with their messages."""
    outcome = result.outcome
    if isinstance(outcome, Failure | Escalation):
        message = data_block(instruction_line(result) + outcome.message)
        return f"{outcome_heading(result)}, which produced no result ({outcome.reason.replace('_', ' ')}):\n{message}"
    return outcome_section(result, refs)


def instruction_line(result: InputOutcome) -> str:
    """Render the instruction of an outcome; written by a model, it is data to other models."""
    return f"Asked: {result.instruction}\n\n"


def note_lines(notes: Sequence[Note]) -> str:
    return "\n".join(
        f"- {note.claim}"
        + (f" [{note.source.ref}]" if note.source else "")
        + (f" Quote: {note.source.quote}" if note.source and note.source.quote else "")
        for note in notes
    )


def evidence_text(result: InputOutcome, refs: ShortRefs) -> str:
    parts = [refs.shorten(result.outcome.content), refs.shorten(findings_text(result))]
    parts += [f"{refs.entry(source.ref, source.title)}\n{source.quote}" for source in result.outcome.sources]
    return "\n\n".join(filter(None, parts))


def findings_text(result: InputOutcome) -> str:
    """Render the findings, gaps and data of an outcome; empty if it has none."""
    outcome = result.outcome
    findings = dict.fromkeys(map(_finding_line, outcome.findings))
    lines = ["Findings:", *findings] if findings else []
    lines += [*(f"Gap: {gap}" for gap in outcome.gaps), *map(_issue_line, result.issues_by_id.items())]
    return "\n".join([*lines, *([f"Data: {to_json(outcome.data).decode()}"] if outcome.data is not None else [])])


def _issue_line(named: tuple[str, Issue]) -> str:
    name, issue = named
    place = f"{issue.file}:{issue.line}" if issue.file else issue.location
    said = f"Issue {name} ({issue.severity}, confidence {issue.confidence}) at {place}: {issue.message}"
    return said + (f" Suggestion: {issue.suggestion}" if issue.suggestion else "")


def _finding_line(finding: Finding) -> str:
    sources = " ".join(f"[{ref}]" for ref in finding.sources) or "[no source]"
    quote = f" “{finding.quote}”" if finding.quote not in {"", finding.claim} else ""
    return f"- {finding.claim} {sources}{quote} (confidence {finding.confidence})"
