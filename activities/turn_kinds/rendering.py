"""Prompt sections shared by several kinds of turns: documents, outcomes, sources. Untrusted text is marked."""

import re
from collections.abc import Sequence
from typing import Final

from pydantic_core import to_json

from activities.contracts.cards import LEAST_TURNS_OF_SESSION
from activities.contracts.rounds import InputOutcome, Note
from activities.documents.catalog import Catalog
from activities.turn_kinds.protocol import ContradictionDraft
from activities.turn_kinds.short_refs import WHOLE, ShortRefs
from chargehand.contracts import Contract, Contradiction, Escalation, Failure, Finding, Issue, left_out

CATALOG_BYTES: Final = 9_000
"""Maximum size of a prompt's section about the session's documents."""

_UNITS: Final = {"pdf": "pages", "picture": "page", "xlsx": "rows", "ods": "rows", "csv": "rows"}


def request_section(goal: str, *, context_only: bool = False, criteria: Sequence[str] = ()) -> str:
    if criteria:
        numbered = "\n".join(f"{number}. {each}" for number, each in enumerate(criteria, start=1))
        goal = f"{goal}\n\nThe report will be graded by these criteria:\n{numbered}"
    return f"{'For context, the' if context_only else 'The'} user's request:\n{request_block(goal)}"


def told_section(told: Sequence[str]) -> list[str]:
    """Render the user's messages to an agent since its task was planned, if any."""
    heading = "The user has written to you. Follow this from now on, even where your instruction says otherwise:"
    return ["\n".join([heading, *map(request_block, told)])] if told else []


def said_text(text: str) -> str:
    return f"The user says:\n{request_block(text)}"


def nesting_note(*, may_nest: bool) -> str:
    """Tell a planner whether subtasks can be nested sessions."""
    if may_nest:
        rare = f"Use it rarely: it counts as {LEAST_TURNS_OF_SESSION} turns."
        return f"The agent supervisor is a session of its own, for a part that needs several agents. {rare}"
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
            return "\n".join([*lines[:number], f"(and {len(lines) - number} more that are not listed)"])
    return "\n".join(lines)


def bullet_list(items: Sequence[str]) -> str:
    return "\n".join(f"- {item}" for item in items) or "(none)"


def contradiction_lines(contradictions: Sequence[Contradiction | ContradictionDraft], unresolved: str) -> str:
    return bullet_list(
        [
            "\n  ".join([entry.about, *(f"- {each}" for each in entry.positions), entry.resolution or unresolved])
            for entry in contradictions
        ]
    )


class Quotation(Contract):
    number: int
    """The quotation's number: the second quotation of the first source is cited as `[S1.2]`."""
    text: str


class CitedSource(Contract):
    """A source as cited by the writer of a report."""

    number: int
    """The source's number: the first is cited as `[S1]`."""
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
    """Render the instruction of an outcome; since a model wrote it, other models get it as data."""
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
    text = f"Issue {name} ({issue.severity}, confidence {issue.confidence}) at {place}: {issue.message}"
    return text + (f" Suggestion: {issue.suggestion}" if issue.suggestion else "")


def _finding_line(finding: Finding) -> str:
    sources = " ".join(f"[{ref}]" for ref in finding.sources) or "[no source]"
    quote = f" “{finding.quote}”" if finding.quote not in {"", finding.claim} else ""
    return f"- {finding.claim} {sources}{quote} (confidence {finding.confidence})"


_OPENING: Final = r"(?:[<\uff1c\ufe64\u2039\u3008\u27e8\u2329\u276e]|&lt;?|&#0*60;?|&#x0*3c;?|%3c|\\u003c|\\x3c)"
# White space, slashes, punctuation, and invisible characters: controls, joiners, direction marks, accents, tags.
_BETWEEN: Final = (
    r"[\s/\\|\-_.:;,'\"!?*\x00-\x1f\x7f-\xa0\u2044\u2215\u2571\u29f8\uff0f\uff3c\u00ad\u034f\u061c\u115f\u1160\u17b4"
    r"\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\u0300-\u036f"
    r"\U000e0000-\U000e0fff]*+"
)
# Circled and mathematical letters.
_ALIKE: Final = r"\u24b6-\u24e9\U0001d400-\U0001d6d3\U0001f130-\U0001f189"
# Each letter of a mark with its lookalikes in other alphabets, small capitals and full width.
_A: Final = (
    rf"[a\u00aa\u00c0-\u00c5\u00e0-\u00e5\u0251\u0391\u03b1\u0410\u0430\u1d00\u1d2c\u1d43\u2090\uff21\uff41{_ALIKE}]"
)
_D: Final = (
    rf"[d\u00d0\u0111\u0256\u0257\u0500\u0501\u056a\u1d05\u1d30\u1d48\u2145\u2146\u216e\u217e\uff24\uff44{_ALIKE}]"
)
_E: Final = (
    r"[e\uff25\uff45\u00c8-\u00cb\u00e8-\u00eb\u0112-\u011b\u0395\u03b5\u0415\u0435\u0451\u1d07\u1d31\u1d49\u2091"
    rf"\u212f\u2130\u2147{_ALIKE}]"
)
_Q: Final = rf"[q\u051a\u051b\u0566\ua757\uff31\uff51{_ALIKE}]"
_R: Final = rf"[r\u0154-\u0159\u0280\u0433\u1d26\u1d3f\u02b3\u1d63\u211b-\u211d\uff32\uff52{_ALIKE}]"
_S: Final = rf"[s\u015a-\u0161\u017f\u0405\u0455\ua731\u02e2\u209b\uff33\uff53{_ALIKE}]"
_T: Final = rf"[t\u03a4\u03c4\u0422\u0442\u1d1b\u1d40\u1d57\u209c\uff34\uff54{_ALIKE}]"
_U: Final = rf"[u\u00d9-\u00dc\u00f9-\u00fc\u0168-\u0173\u03c5\u0446\u1d1c\u1d41\u1d58\u1d64\uff35\uff55{_ALIKE}]"
_DATA: Final = _BETWEEN.join([_D, _A, _T, _A])
_REQUEST: Final = _BETWEEN.join([_R, _E, _Q, _U, _E, _S, _T])
_MARK: Final = re.compile(f"{_OPENING}(?={_BETWEEN}(?:{_DATA}|{_REQUEST})(?![0-9A-Za-z]))", re.IGNORECASE)


def data_block(text: str) -> str:
    return f"<data>\n{escape_marks(text)}\n</data>"


def request_block(text: str) -> str:
    return f"<request>\n{escape_marks(text)}\n</request>"


def escape_marks(text: str) -> str:
    """Replace the first character of anything that could be read as a mark by a square bracket.

    This never makes the text longer.
    """
    return _MARK.sub("[", text)
