"""Agents that find and quote: search once, once more if little came of it, then copy out the best sentences."""

import re
from collections.abc import Sequence
from typing import Final

from pydantic import JsonValue

from activities.contracts import ToolCall, ToolResult
from activities.documents.catalog import Catalog, DocumentEntry
from activities.models.extractive.answers import no_answer
from activities.models.extractive.cues import cues_of
from activities.models.extractive.instructions import Assignment, Lead
from activities.models.extractive.passages import Passage, passages_of
from activities.models.extractive.questions import called, named_documents, split_questions, without_names
from activities.models.extractive.sentences import shown
from activities.models.extractive.terms import stands
from activities.models.extractive.windows import Window, best_windows, missing_words
from activities.models.extractive.wording import (
    content_stems,
    keywords,
    listed,
    one_line,
    read_words,
    shortened,
    stem,
    stems,
    telling_stems,
)
from activities.turn_kinds.work import FindingDraft, WorkAnswer, WorkTask

_SURE: Final = 0.6
"""Support from which on a quotation counts as an answer."""
_POSSIBLE: Final = 0.52
"""Support from which on it may be one."""
_LOOK_FURTHER: Final = 0.75
"""Support below which another search may find something better."""
SEARCHES: Final = 2
"""How often a question is looked for before it is given up."""
_QUOTATIONS: Final = 3
_WEAKER: Final = 0.6
"""Share of the best quotation's support that another one needs."""
_CLOSE: Final = 0.4
"""Share of a question's words that the best quotation itself must have, whatever the titles above it say."""


def quote_passages(
    task: WorkTask, assignment: Assignment, question: str, catalog: Catalog, tools: frozenset[str]
) -> tuple[ToolCall, ...] | WorkAnswer:
    """Search and, when enough was found or nothing more can be tried, answer with quotations."""
    searches = [
        (str(call.arguments.get("query", "")), result)
        for past in task.rounds
        for call, result in zip(past.calls, past.results, strict=False)
        if call.tool in {"search_documents", "search"} and result.ok
    ]
    asked = _asked(question, catalog)
    passages = passages_of(searches, asked)
    made = [call for past in task.rounds for call in past.calls]
    named = called(question, catalog.documents)
    windows = best_windows(asked, passages, _QUOTATIONS, cues_of(question), named)
    if not task.must_answer and len(made) < SEARCHES and _looks_further(windows, named):
        nowhere = frozenset(word for _, result in searches for word in _words_found_nowhere(result))
        places = _places(assignment, question, catalog)
        likely = windows[0].passage.document if windows and windows[0].support >= _POSSIBLE else ""
        wanted = _next_search(made, nowhere, places[0].name if len(places) == 1 else "", named or likely, asked)
        call = _for_tools(wanted, tools, made) if wanted else None
        if call is not None:
            return (call,)
    answer = _answer(question, windows, [result for _, result in searches], catalog, task)
    answer = _with_what_is_left(answer, split_questions(question), passages, catalog)
    return _as_material(answer) if assignment.lead is Lead.GATHER else answer


def _with_what_is_left(
    answer: WorkAnswer, questions: Sequence[str], passages: Sequence[Passage], catalog: Catalog
) -> WorkAnswer:
    """Name those of several questions, asked at once for want of turns, that no quotation answers."""
    if len(questions) < 2 or answer.status == "no_answer":
        return answer
    quotes = [finding.quote for finding in answer.findings]

    def is_answered(question: str) -> bool:
        best = best_windows(_asked(question, catalog), passages, 1, cues_of(question))
        said = best[0].quote if best and best[0].support >= _SURE else ""
        return bool(said) and any(said in quote or quote in said for quote in quotes)

    left = [question for question in questions if not is_answered(question)]
    if not left:
        return answer
    gap = f"Asked together with others, for want of turns, and not answered: {listed(f'“{each}”' for each in left)}."
    return answer.model_copy(
        update={
            "status": "partial",
            "content": f"{gap}\n\n{answer.content}",
            "gaps": [*answer.gaps, gap],
            "message": gap,
        }
    )


def _as_material(answer: WorkAnswer) -> WorkAnswer:
    """Say that quotations are all there is where a text was to be written."""
    lacks = "No text was written: that takes a language model. These passages are what it would rest on."
    if answer.status == "no_answer":
        return answer
    return answer.model_copy(
        update={
            "status": "partial",
            "content": f"{lacks}\n\n{answer.content}",
            "gaps": [lacks, *answer.gaps],
            "message": lacks,
            "confidence": min(answer.confidence, 50),
        }
    )


_HOW: Final = re.compile(
    r"\bhow (?:long|often|far|old|high|fast|heavy|big|large|soon|quickly|deep|wide|tall|late|early)\b", re.IGNORECASE
)


def _asked(question: str, catalog: Catalog) -> str:
    """The question without the words that only say where to look."""
    named = named_documents(question, catalog.documents)
    bare = _HOW.sub("how", without_names(question, named) if len(named) == 1 else question)
    return bare if content_stems(bare) else question


def _looks_further(windows: Sequence[Window], named: str) -> bool:
    if named and windows and windows[0].passage.document != named:
        return True
    return not any(window.is_fitting and window.support >= _LOOK_FURTHER for window in windows)


def _next_search(
    made: Sequence[ToolCall], nowhere: frozenset[str], place: str, likely: str, asked: str
) -> ToolCall | None:
    """Search where the question points, or in the document that it calls by name; then somewhere else."""
    words = keywords(asked) if place else asked
    was_everywhere = bool(made) and not made[0].arguments.get("document")
    if likely and not place and (not made or (was_everywhere and not nowhere)):
        place = likely
        name = frozenset(stems(place))
        others = [word for word in keywords(asked).split() if stem(word) not in name]
        words = " ".join(others) if len(others) > 1 else words
    elif made:
        telling = keywords(asked, telling_only=True)
        words = " ".join(word for word in telling.split() if word.lower() not in nowhere) or telling
        place = ""
    arguments: dict[str, JsonValue] = {"query": words[:900], "document": place}
    if any(call.arguments == arguments for call in made):
        return None
    return ToolCall(id=f"search-{len(made) + 1}", tool="search_documents", arguments=arguments)


def _for_tools(call: ToolCall, tools: frozenset[str], made: Sequence[ToolCall]) -> ToolCall | None:
    """Ask whichever search there is."""
    if call.tool not in tools:
        call = call.model_copy(update={"tool": "search", "arguments": {"query": call.arguments["query"]}})
    is_new = all((call.tool, call.arguments) != (other.tool, other.arguments) for other in made)
    return call if call.tool in tools and is_new else None


def _places(assignment: Assignment, question: str, catalog: Catalog) -> tuple[DocumentEntry, ...]:
    readable = [entry for entry in catalog.documents if not entry.problem]
    chosen = tuple(entry for entry in readable if entry.name == assignment.place)
    return chosen or named_documents(question, readable)


def _words_found_nowhere(result: ToolResult) -> tuple[str, ...]:
    words = result.output.get("words_found_nowhere")
    return tuple(str(word).lower() for word in words) if isinstance(words, list) else ()


def _answer(
    question: str, windows: Sequence[Window], results: Sequence[ToolResult], catalog: Catalog, task: WorkTask
) -> WorkAnswer:
    asked = _asked(question, catalog)
    windows = _worth_quoting(windows)
    seen = frozenset[str]().union(*(stems(window.passage.text) for window in windows))
    lost_stems = {
        word for result in results for word in map(stem, _words_found_nowhere(result)) if not stands(word, seen)
    } & telling_stems(asked)
    nowhere = list(dict.fromkeys(word.text for word in read_words(asked) if word.stem in lost_stems))
    support = max((window.support for window in windows), default=0.0)
    lost = len(nowhere) / max(1, len(telling_stems(asked)))
    if support < _POSSIBLE:
        return _nothing(question, windows, nowhere, catalog, task)
    is_sure = support >= _SURE and windows[0].close >= _CLOSE and not (nowhere and lost > 0.25)
    missing = nowhere if nowhere and not is_sure else ()
    findings = [finding_of(window) for window in windows]
    parts = [f"{shown(window.quote)}\n>\n> — {place_of(window)} [{window.source.ref}]" for window in windows]
    gaps = [] if is_sure else [_doubt(question, windows, missing)]
    content = "\n\n".join(parts)
    if not is_sure:
        content = f"{gaps[0]}\n\n{content}"
    return WorkAnswer(
        status="success" if is_sure else "partial",
        content=content,
        findings=findings,
        confidence=findings[0].confidence if is_sure else min(45, findings[0].confidence),
        gaps=gaps,
        message="" if is_sure else gaps[0],
    )


def _worth_quoting(windows: Sequence[Window]) -> tuple[Window, ...]:
    """Leave out what is much weaker than the best."""
    return tuple(window for window in windows if window.support >= _WEAKER * windows[0].support)


def finding_of(window: Window) -> FindingDraft:
    """Make a finding of a quotation; how sure it is follows from how much of the question it covers."""
    share = 0.35 * min(window.passage_coverage, 1.0) + 0.65 * window.close
    return FindingDraft(
        claim=f"“{shortened(one_line(window.quote), 500)}”",
        source_refs=[window.source.ref],
        quote=window.quote,
        confidence=round(max(10.0, min(90.0, 90 * share))),
    )


def place_of(window: Window) -> str:
    """Say where a quotation stands, for people."""
    document = window.source.ref.split("#", 1)[0].rsplit("/", 1)[-1]
    title = one_line(window.source.title)
    if window.source.url or not title:
        return title or window.source.url or document
    heading = title.rsplit(" > ", 1)[-1]
    return document if heading == document else f"{document}, {heading}"


def _doubt(question: str, windows: Sequence[Window], missing: Sequence[str]) -> str:
    doubt = f"This may not answer “{shortened(question, 160)}”"
    if missing:
        said = listed(f"“{word}”" for word in missing[:4])
        return f"{doubt}: no document has the word{'s' if len(missing) > 1 else ''} {said}."
    left = missing_words(question, windows)
    return f"{doubt}: {listed(f'“{word}”' for word in left[:4])} not found there." if left else f"{doubt}."


def _nothing(
    question: str, windows: Sequence[Window], nowhere: Sequence[str], catalog: Catalog, task: WorkTask
) -> WorkAnswer:
    unreadable = [f"{entry.name} could not be read: {entry.problem}" for entry in catalog.documents if entry.problem]
    if any(not entry.problem for entry in catalog.documents):
        what = "No document here answers this"
    elif windows:
        what = "Nothing that was found answers this"
    else:
        what = "No document could be read" if unreadable else "Nothing was found, and no documents were given"
    words = listed(f"“{word}”" for word in nowhere[:4])
    said = f"; {words} stand{'s' if len(nowhere) == 1 else ''} in none" if nowhere else ""
    message = f"{what}: “{shortened(question, 200)}”{said}."
    nearest = ""
    if windows:
        share = round(100 * windows[0].passage_coverage)
        nearest = f" Nearest, covering {share} % of the words: {place_of(windows[0])}."
    errors = [str(result.output.get("error", "")) for past in task.rounds for result in past.results if not result.ok]
    return no_answer(message, message + nearest, [*unreadable, *(error for error in errors if error and not windows)])
