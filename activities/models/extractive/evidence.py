"""Evidence: passages quoted word for word, best first.

They are called an answer only where the question asks what a text says about something, and all of that is in the best.
"""

import re
from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from activities.contracts.rounds import PASSAGE_GAP, ToolCall, ToolResult
from activities.documents.words import content_words, language_of, stem, words
from activities.models.extractive.wording import one_line, sentence
from activities.turn_kinds.work import FindingDraft, WorkAnswer, WorkTask
from chargehand.contracts import Source

_CONFIDENCE: Final = 30
_QUOTED_CONFIDENCE: Final = 60
_PASSAGES: Final = 3
_COVERED: Final = 0.3
"""Share of a question's words, the telling ones counting more, that a passage must hold to be evidence."""
_TABLE: Final = re.compile(r"\.(?:csv|tsv|xlsx|xls|ods)#")
_LONGEST: Final = 900
_LONGEST_QUERY: Final = 400
_TOPIC: Final = r"(?:(?!(?:and|or|but|und|oder|aber)\b)[^?.,:;])+\??"
_ASKS_WHAT_IS_SAID: Final = re.compile(
    rf"what (?:do|does|did) [^?.,:;]+ (?:say|state) (?:about|on) (?P<topic>{_TOPIC})"
    rf"|was (?:sagt|sagen|steht) [^?.,:;]+ (?:zu|zum|zur|über) (?P<thema>{_TOPIC})",
    re.IGNORECASE,
)
_EMPHASIS: Final = re.compile(r"[*_]{2,3}")
SEARCHES: Final = ("search_documents", "search")


def find_evidence(task: WorkTask, question: str, tools: frozenset[str]) -> tuple[ToolCall, ...] | WorkAnswer:
    results = [result for past in task.rounds for result in past.results if result.tool in SEARCHES]
    tool = next((tool for tool in SEARCHES if tool in tools), None)
    if results or task.must_answer or tool is None:
        return _quote(question, results)
    query = question[:_LONGEST_QUERY]
    arguments: dict[str, JsonValue] = {"query": query} if tool == "search" else {"query": query, "document": ""}
    return (ToolCall(id="search-1", tool=tool, arguments=arguments),)


def nothing(language: str, key: str = "nothing") -> WorkAnswer:
    said = sentence(key, language)
    return WorkAnswer(status="no_answer", content=said, findings=[], confidence=0, gaps=[], message=said)


def _quote(question: str, results: list[ToolResult]) -> WorkAnswer:
    language = language_of(question)
    found = [source for result in results for at, source in enumerate(result.sources) if _covers(result.output, at)]
    # Rows of tables repeat a question's words without saying anything: text comes first.
    ranked = sorted(enumerate(found), key=lambda one: one[0] + (_PASSAGES if _TABLE.search(one[1].ref) else 0))
    quotes = [(source.ref, _passage(source, question, language)) for _, source in ranked if source.quote.strip()]
    if not quotes:
        return nothing(language)
    saying = [(ref, quote) for ref, quote in quotes if _says(quote, question, language)]
    is_answer = saying[:1] == quotes[:1]
    gap = sentence("evidence", language)
    confidence = _QUOTED_CONFIDENCE if is_answer else _CONFIDENCE
    parts = [] if is_answer else [f"*{gap}*"]
    findings: list[FindingDraft] = []
    for ref, quote in (saying if is_answer else quotes)[:_PASSAGES]:
        plain = _EMPHASIS.sub("", quote)
        parts.append("> " + plain.replace("\n", "\n> ") + f"\n>\n> — [{ref}]")
        claim = f"“{one_line(plain)}”"
        findings.append(FindingDraft(claim=claim, source_refs=[ref], quote=quote, confidence=confidence))
    said = "\n\n".join(parts)
    if is_answer:
        return WorkAnswer(status="success", content=said, findings=findings, confidence=confidence, gaps=[], message="")
    return WorkAnswer(status="partial", content=said, findings=findings, confidence=confidence, gaps=[gap], message=gap)


def _says(passage: str, question: str, language: str) -> bool:
    """Whether a question asks what a text says about something, and the passage has every word of that."""
    asked = _ASKS_WHAT_IS_SAID.fullmatch(question.strip())
    if asked is None:
        return False
    wanted = {stem(word, language) for word in content_words(asked["topic"] or asked["thema"])}
    return bool(wanted) and wanted <= {stem(word, language) for word in words(passage)}


def _covers(output: Mapping[str, JsonValue], at: int) -> bool:
    """Whether a source holds enough of the question; a web search does not say and is believed."""
    coverage = output.get("coverage")
    share = coverage[at] if isinstance(coverage, list) and at < len(coverage) else 1.0
    return isinstance(share, int | float) and share >= _COVERED


def _passage(source: Source, question: str, language: str) -> str:
    """Choose the passage of a place, or the row of a table, that has most of the question's words."""
    wanted = {stem(word, language) for word in content_words(question)}
    between = "\n" if _TABLE.search(source.ref) else PASSAGE_GAP
    passages = [passage.strip() for passage in source.quote.split(between)]
    best = max(passages, key=lambda passage: len(wanted & {stem(word, language) for word in words(passage)}))
    return best[:_LONGEST]
