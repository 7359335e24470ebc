"""Evidence: passages quoted verbatim, best first.

If a question needs no judgement, a passage with every significant word of it counts as the documents' answer.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from typing import Final, NamedTuple

from pydantic import BaseModel, JsonValue

from activities.contracts.quotations import PASSAGE_GAP
from activities.contracts.rounds import ToolCall, ToolResult
from activities.documents.catalog import Catalog
from activities.documents.passages import LONGEST_CHARACTERS
from activities.documents.words import content_words, function_words, stem, words
from activities.tools.search.engine import QUERY_CHARACTERS
from activities.turn_kinds.work import FindingDraft, WorkAnswer, WorkTask
from chargehand_plugins.extractive import lexicon
from chargehand_plugins.extractive.figures import declined
from chargehand_plugins.extractive.reading import read_query, why_unread

SEARCHES: Final = ("search_documents", "search")
_CONFIDENCE: Final = 30
_QUOTED_CONFIDENCE: Final = 60
_PASSAGES: Final = 3
_COVERED: Final = 0.3
"""Weighted share of a question's words that a passage must contain to be evidence."""
_TABLE: Final = re.compile(r"\.(?:csv|tsv|xlsx|xls|ods|json|jsonl|ndjson)#")
_DATE: Final = re.compile(r"\b(?:19|20)\d\d(?:-\d\d(?:-\d\d)?)?")
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+|\n")
_EMPHASIS: Final = re.compile(r"[*_]{2,3}")


class _Found(BaseModel):
    """What a search states about its results; a web search states nothing and is trusted."""

    coverage: list[float] = []
    words_found_nowhere: list[str] = []


class _Quote(NamedTuple):
    """A passage, the telling words that it lacks, and its document's date and status as stated at the beginning."""

    ref: str
    text: str
    lacking: tuple[str, ...]
    is_whole: bool
    """Whether it has every word, and everything else that the question asks for."""
    is_outdated: bool
    date: str


def find_evidence(
    task: WorkTask, question: str, tools: frozenset[str], catalog: Catalog
) -> tuple[ToolCall, ...] | WorkAnswer:
    results = [result for past in task.rounds for result in past.results if result.tool in SEARCHES]
    tool = next((tool for tool in SEARCHES if tool in tools), None)
    if results or task.must_answer or tool is None:
        return answer_from(question, results, catalog)
    # `combien` does not occur in answers, and the index would report it as not found.
    telling = [part for part in question.split() if not any(lexicon.matches("asked", word) for word in words(part))]
    query = " ".join(telling or [question])[:QUERY_CHARACTERS]
    arguments: dict[str, JsonValue] = {"query": query} if tool == "search" else {"query": query, "document": ""}
    return (ToolCall(id="search-1", tool=tool, arguments=arguments),)


def answer_from(question: str, results: Sequence[ToolResult], catalog: Catalog) -> WorkAnswer:
    """Quote the passages with every word of the question, or else with enough of them, or else say why not."""
    language, needs_model = lexicon.language_of(question), lexicon.says("needs_model", question)
    quotes = sorted(_quotes(question, language, results, catalog), key=lambda quote: quote.date, reverse=True)
    quotes.sort(key=lambda quote: (not quote.is_whole, len(quote.lacking), quote.is_outdated))
    reason = None if needs_model else _reason(question, results, catalog)
    if not quotes:
        unread = None if needs_model or reason else why_unread(question, catalog, is_figure=True)
        return declined(language, *(reason or unread or ("nothing",)), is_final=bool(reason))
    is_plain = not (needs_model or (reason and lexicon.says("limits", question)))
    whole = [quote for quote in quotes if quote.is_whole and is_plain]
    lacking = ("lacks", *quotes[0].lacking[:1]) if quotes[0].lacking else ("no_figure",)
    key, *filled = reason or (("evidence",) if needs_model else lacking)
    gap = "" if whole else lexicon.sentence(key, language).format(*filled)
    confidence = _QUOTED_CONFIDENCE if whole else _CONFIDENCE
    parts, findings = [f"*{gap}*"] if gap else [], list[FindingDraft]()
    for quote in (whole or quotes)[:_PASSAGES]:
        plain = _EMPHASIS.sub("", quote.text)
        parts.append("> " + plain.replace("\n", "\n> ") + f"\n>\n> — [{quote.ref}]")
        claim = f"“{lexicon.one_line(plain)}”"
        findings.append(FindingDraft(claim=claim, source_refs=[quote.ref], quote=quote.text, confidence=confidence))
    return WorkAnswer(
        status="success" if whole else "partial",
        content="\n\n".join(parts),
        findings=findings,
        confidence=confidence,
        gaps=[gap] if gap else [],
        message=gap,
    )


def _quotes(question: str, language: str, results: Sequence[ToolResult], catalog: Catalog) -> Iterator[_Quote]:
    silent = {stem(word, language) for word in function_words(language)}
    stems = {word: stem(word, language) for word in content_words(question)}
    telling = [word for word in stems if stems[word] not in silent and not lexicon.is_silent(word, language)]
    wanted = {word: stems[word] for word in telling} or stems
    following = () if language == "de" else lexicon.read_tokens(question, "")[1:]
    names = {token.word for token in following if token.text[0].isupper()}
    price = next((word for word in stems if lexicon.matches("paying", word)), "")
    is_double = len(re.findall(rf"\b(?:{lexicon.pattern('asking')})\b", question, re.IGNORECASE)) > 1

    def roots(text: str) -> set[str]:
        return {stem(word, language) for word in words(text)}

    def lacking(text: str, title: str = "") -> tuple[str, ...]:
        known = roots(f"{text} {title}" if 2 * len(roots(text).intersection(wanted.values())) >= len(wanted) else text)
        missing = tuple(word for word, root in wanted.items() if root not in known)
        # The price of one thing may stand beside another.
        beside = " ".join(each for each in _SENTENCE.split(text) if is_double or roots(each) & {*wanted.values()})
        tokens = lexicon.read_tokens(beside, "")
        is_priced = any(lexicon.is_currency(each.stem) or lexicon.matches("priced", each.word) for each in tokens)
        is_priced |= not price or stems[price] in roots(beside) or lexicon.says("free", beside)
        return missing or (() if is_priced else (price,))

    entries = {entry.name: entry for entry in catalog.documents}
    searched = ((result, chain(_Found.model_validate(result.output).coverage, repeat(1.0))) for result in results)
    sources = (pair for result, shares in searched for pair in zip(result.sources, shares, strict=False))
    for source, share in sources:
        is_evidence = share >= _COVERED and not _TABLE.search(source.ref)
        passage = min(source.quote.split(PASSAGE_GAP), key=lambda text: len(lacking(text))) if is_evidence else ""
        # One paragraph with every word is enough.
        part = min(map(str.strip, passage.split("\n\n")), key=lambda part: len(lacking(part)))
        passage = (passage.strip() if lacking(part) else part)[:LONGEST_CHARACTERS]
        entry = entries.get(source.ref.rsplit("#", 1)[0])
        opening = " ".join((entry.name, *entry.headings[:1], entry.opening)) if entry else ""
        # Questions about rows are answered from tables.
        if not all("|" in line for line in passage.splitlines() if line):
            lacks, date = lacking(passage, source.title), max(_DATE.findall(opening), default="")
            # A passage with only the name does not answer the question.
            is_whole = not (lacks or names.issuperset(wanted)) and _has_figure(question, passage, language)
            yield _Quote(source.ref, passage, lacks, is_whole, lexicon.says("outdated", opening), date)


def _has_figure(question: str, text: str, language: str) -> bool:
    """Whether a text has what a question counts, a number for `how much`, and words like `most` or `in total`."""
    tokens = [token for token in lexicon.read_tokens(question, language) if token.word != "mean"]  # asks for a meaning
    held = lexicon.read_tokens(text, language)
    marks, text_marks = (
        {mark for at in range(len(each)) for mark, _ in lexicon.marks_at(each, at, language)} for each in (tokens, held)
    )
    numbers = [at for at, token in enumerate(held) if token.word[0].isdigit() or lexicon.matches("numbers", token.word)]
    counted = {token.stem for token in tokens if not lexicon.is_silent(token.word, language)}
    is_counted = any(token.stem in counted for at in numbers for token in held[at + 1 : at + 3])
    is_amount = "amount" in marks and (bool(numbers) or lexicon.says("free", text))
    has_number = is_counted or is_amount or marks.isdisjoint({"count", "amount"})
    return has_number and marks & (lexicon.AGGREGATES | lexicon.SIGNS.keys()) <= text_marks


def _reason(question: str, results: Sequence[ToolResult], catalog: Catalog) -> tuple[str, ...] | None:
    """Return why the tables cannot answer, as a sentence's key and values; None if they are not asked."""
    language = lexicon.language_of(question)
    nowhere = [word for result in results for word in _Found.model_validate(result.output).words_found_nowhere]
    telling = (word for word in nowhere if not (word.isdigit() or word in lexicon.numbered("months")))
    missing = [word for word in telling if not lexicon.is_silent(word, language)]
    if query := read_query(question, catalog):
        return "doubt", "", query.fields.table.document
    return why_unread(question, catalog) or (("no_word", missing[0]) if missing else None)
