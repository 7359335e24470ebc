"""The agent's turn at a summary: for each part of a document its most telling sentence, in the document's own words."""

import re
from collections.abc import Sequence
from typing import Final

from pydantic import JsonValue

from activities.contracts import ToolCall, ToolResult
from activities.documents.catalog import Catalog, DocumentEntry, Table
from activities.models.extractive.answers import no_answer
from activities.models.extractive.instructions import Assignment
from activities.models.extractive.key_sentences import key_windows
from activities.models.extractive.reader import finding_of, place_of
from activities.models.extractive.sentences import shown
from activities.models.extractive.windows import Window
from activities.models.extractive.wording import keywords, listed, shortened
from activities.turn_kinds.work import FindingDraft, WorkAnswer, WorkTask
from chargehand.contracts import Source

_READ_AT_ONCE: Final = 6
_SECTIONS: Final = 12
_QUERY_CHARACTERS: Final = 400


def summarise(
    task: WorkTask, assignment: Assignment, catalog: Catalog, tools: frozenset[str]
) -> tuple[ToolCall, ...] | WorkAnswer:
    """Look through documents by their own headings, and quote a sentence or two of each part."""
    names = {name.strip() for name in assignment.place.split(", ")}
    entries = [entry for entry in catalog.documents if entry.name in names][:_READ_AT_ONCE]
    texts = [entry for entry in entries if not _tables(entry, catalog)]
    found = _sources(task)
    if not task.must_answer and len(task.rounds) < 2:
        wanted = [entry for entry in texts if not found.get(entry.name)]
        calls = [call for i, entry in enumerate(wanted, start=1) if (call := _look(entry, i, len(task.rounds), tools))]
        if calls:
            return tuple(calls)
    return _answer(entries, catalog, found, assignment)


def _tables(entry: DocumentEntry, catalog: Catalog) -> list[Table]:
    return [table for table in catalog.tables if table.document == entry.name]


def _sources(task: WorkTask) -> dict[str, list[Source]]:
    """What was read so far, by document."""
    results: list[ToolResult] = [result for past in task.rounds for result in past.results if result.ok]
    found: dict[str, list[Source]] = {}
    for source in (source for result in results for source in result.sources):
        found.setdefault(source.ref.split("#", 1)[0], []).append(source)
    return found


def _look(entry: DocumentEntry, number: int, rounds: int, tools: frozenset[str]) -> ToolCall | None:
    """Search a document for what its headings name; read its beginning when that finds nothing."""
    words = keywords(" ".join(entry.headings) or entry.opening)[:_QUERY_CHARACTERS]
    if rounds == 0 and words and "search_documents" in tools:
        arguments: dict[str, JsonValue] = {"query": words, "document": entry.name}
        return ToolCall(id=f"search-{number}", tool="search_documents", arguments=arguments)
    if "read_document" in tools:
        arguments = {"document": entry.name, "first": 1, "last": 0}
        return ToolCall(id=f"read-{number}", tool="read_document", arguments=arguments)
    return None


def _answer(
    entries: Sequence[DocumentEntry], catalog: Catalog, found: dict[str, list[Source]], assignment: Assignment
) -> WorkAnswer:
    findings: list[FindingDraft] = []
    parts: list[str] = []
    silent: list[str] = []
    for entry in entries:
        windows = _windows(found.get(entry.name, []), 5 if len(entries) == 1 else 2)
        findings += [finding_of(window) for window in windows]
        tables = _tables(entry, catalog)
        parts.append(_outline(entry, tables))
        parts += [f"{shown(window.quote)}\n>\n> — {place_of(window)} [{window.source.ref}]" for window in windows]
        if not windows and not tables:
            silent.append(entry.name)
    if len(silent) == len(entries):
        message = f"Nothing could be quoted from {assignment.place or 'the documents'}."
        return no_answer(message, "\n\n".join([message, *parts]))
    gaps = [f"Nothing could be quoted from {listed(silent)}."] if silent else []
    return WorkAnswer(
        status="partial" if gaps else "success",
        content="\n\n".join(parts),
        findings=findings,
        confidence=60,
        gaps=gaps,
        message=gaps[0] if gaps else "",
    )


def _outline(entry: DocumentEntry, tables: Sequence[Table]) -> str:
    described = [
        f"{table.sheet or table.name}: {table.rows:,} rows of "
        + ", ".join(column.name for column in table.columns[:_SECTIONS])
        for table in tables
    ]
    headings = [shortened(heading, 80) for heading in entry.headings] if not tables else []
    more = f" · and {len(headings) - _SECTIONS} more" if len(headings) > _SECTIONS else ""
    lines = "; ".join(described) or (f"{' · '.join(headings[:_SECTIONS])}{more}" if headings else "")
    return f"**{entry.name}**" + (f" — {lines}" if lines else "")


def _position(source: Source) -> tuple[int, ...]:
    """Where in its document something stands, to put quotations in reading order."""
    return tuple(int(number) for number in re.findall(r"\d+", source.ref.partition("#")[2]))


def _windows(sources: Sequence[Source], most: int) -> list[Window]:
    """One sentence of each passage, in reading order; more of the first where there are few passages."""
    sources = sorted(sources, key=_position)
    each = max(1, -(-most // max(1, len(sources))))
    windows = [window for source in sources[:most] for window in key_windows(source, each)]
    return windows[:most]
