"""Grounding: an agent's claims keep only sources that a tool really returned."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from pydantic import TypeAdapter

from activities.contracts import PASSAGE_GAP, Note, Round
from activities.turn_kinds.work import AgentAnswer, FindingDraft, IssueDraft, WorkWithIssuesAnswer
from chargehand.contracts import Escalation, Finding, Issue, Outcome, Partial, Report, Source, SpendLine
from workflows.rules.citations import name_refs

CONTENT_CHARACTERS: Final = 20_000
"""The longest answer of a subtask, more than its turn may write."""
QUOTE_CHARACTERS: Final = 600
CLAIM_CHARACTERS: Final = 1_000
MESSAGE_CHARACTERS: Final = 500
FINDINGS: Final = 40
GAPS: Final = 20
ISSUES: Final = 40
_OUTCOME: Final = TypeAdapter[Outcome](Outcome)


def sources_read(rounds: Iterable[Round], known: Iterable[Source]) -> dict[str, Source]:
    """Collect everything that a claim of this subtask may rest on, by `ref`: what was known, and what was read."""
    read: dict[str, Source] = {}
    for source in (*known, *(source for past in rounds for result in past.results for source in result.sources)):
        before = read.get(source.ref)
        if before is None:
            read[source.ref] = source
        elif source.quote not in before.quote:
            read[source.ref] = before.model_copy(update={"quote": PASSAGE_GAP.join((before.quote, source.quote))})
    return read


def ground(answer: AgentAnswer, read: Mapping[str, Source], spend: tuple[SpendLine, ...]) -> Outcome:
    """Turn an agent's answer into an outcome.

    A source that no tool returned is dropped, and a quotation is kept only if the source contains its words.
    """
    quotes: dict[str, str] = {}
    findings = tuple(_finding(draft, read, quotes) for draft in answer.findings[:FINDINGS])
    cited = dict.fromkeys(ref for finding in findings for ref in finding.sources)
    facts: dict[str, object] = {
        "content": answer.content[:CONTENT_CHARACTERS],
        "findings": findings,
        "sources": tuple(_as_cited(read[ref], quotes.get(ref, "")) for ref in cited),
        "confidence": percentage(answer.confidence),
        "gaps": tuple(gap[:MESSAGE_CHARACTERS] for gap in answer.gaps[:GAPS]),
        "issues": tuple(_issue(draft) for draft in _issues(answer)[:ISSUES]),
        "spend": spend,
    }
    message = answer.message[:MESSAGE_CHARACTERS]
    match answer.status:
        case "success":
            ending: dict[str, object] = {"kind": "success"}
        case "partial":
            ending = {"kind": "partial", "reason": message}
        case "no_answer":
            ending = {"kind": "failure", "reason": "no_answer", "message": message}
        case escalated:
            ending = {"kind": "escalation", "reason": escalated, "message": message}
    return _OUTCOME.validate_python(facts | ending)


def _issues(answer: AgentAnswer) -> list[IssueDraft]:
    return answer.issues if isinstance(answer, WorkWithIssuesAnswer) else []


def _issue(draft: IssueDraft) -> Issue:
    return Issue(
        severity=draft.severity,
        location=draft.location[:MESSAGE_CHARACTERS],
        message=draft.message[:CLAIM_CHARACTERS],
        suggestion=draft.suggestion[:CLAIM_CHARACTERS],
        confidence=percentage(draft.confidence),
    )


def _finding(draft: FindingDraft, read: Mapping[str, Source], quotes: dict[str, str]) -> Finding:
    refs = tuple(dict.fromkeys(ref for ref in draft.source_refs if ref in read))
    if refs and is_quoted_from(draft.quote, read[refs[0]].quote):
        quotes.setdefault(refs[0], draft.quote)
    return Finding(claim=draft.claim[:CLAIM_CHARACTERS], sources=refs, confidence=percentage(draft.confidence))


def is_quoted_from(quote: str, text: str) -> bool:
    """Whether a text contains the words of a quotation, whatever the white space between them."""
    return bool(quote.strip()) and " ".join(quote.split()) in _words(text)


@lru_cache(maxsize=8)
def _words(text: str) -> str:
    """Set single blanks between the words of what was read, once for all quotations from it."""
    return " ".join(text.split())


def _as_cited(source: Source, quote: str) -> Source:
    return source.model_copy(update={"quote": (quote or source.quote)[:QUOTE_CHARACTERS]})


def percentage(value: int) -> int:
    """Clamp a model's own number to a confidence: 0 to 100."""
    return min(max(value, 0), 100)


def unfinished(notes: Sequence[Note], read: Mapping[str, Source], reason: str) -> Partial | None:
    """Build an outcome from what a subtask had noted and read when it had to stop; None if that is nothing."""
    if not notes and not read:
        return None
    sources = [note.source for note in notes if note.source is not None]
    quoted = {source.ref: source for source in reversed(sources) if source.quote}
    noted = {source.ref: quoted.get(source.ref) or read.get(source.ref, source) for source in sources}
    others = [source for source in read.values() if source.ref not in noted][: max(FINDINGS - len(notes), 0)]
    return Partial(
        content="The findings list what was noted and read before the subtask had to stop.",
        findings=(
            *(
                Finding(claim=note.claim, sources=(note.source.ref,) if note.source else (), confidence=50)
                for note in notes
            ),
            *(
                Finding(claim=source.quote[:QUOTE_CHARACTERS], sources=(source.ref,), confidence=30)
                for source in others
            ),
        ),
        sources=tuple(_as_cited(source, "") for source in (*noted.values(), *others)),
        confidence=20,
        gaps=("The subtask stopped before it could evaluate what it had read.",),
        reason=reason,
    )


def out_of_time(notes: Sequence[Note], read: Mapping[str, Source]) -> Outcome:
    """Build an outcome from what an attempt had when its time was up: its supervisor may split the work."""
    partial = unfinished(notes, read, "timeout") or Partial()
    return Escalation(
        reason="timeout",
        message="The time for this subtask was used up before it had an answer.",
        content=partial.content,
        findings=partial.findings,
        sources=partial.sources,
        confidence=partial.confidence,
        gaps=partial.gaps,
    )


def nested_outcome(report: Report) -> Outcome:
    """Turn a nested session's report into an outcome: its numbered citations become refs again."""
    content = name_refs(report.answer, [source.ref for source in report.sources])
    if report.stop_reason == "nothing_succeeded":
        ending: dict[str, object] = {
            "kind": "failure",
            "reason": "no_answer",
            "message": "No subtask of the nested session found anything.",
        }
    elif report.stop_reason == "completed" and not report.gaps:
        ending = {"kind": "success"}
    else:
        ending = {"kind": "partial", "reason": report.stop_reason}
    return _OUTCOME.validate_python(
        {
            "content": content[:CONTENT_CHARACTERS],
            "findings": (
                Finding(
                    claim=content[:QUOTE_CHARACTERS],
                    sources=tuple(source.ref for source in report.sources),
                    confidence=report.confidence,
                ),
            ),
            "sources": report.sources,
            "confidence": report.confidence,
            "gaps": report.gaps,
            "spend": report.spend,
        }
        | ending
    )
