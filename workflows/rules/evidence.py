"""Grounding: an agent's claims and notes keep only sources that a tool actually returned."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pydantic import TypeAdapter

from activities.contracts.quotations import PASSAGE_GAP
from activities.contracts.rounds import InputOutcome, Note, Round, ToolCall, ToolResult
from activities.contracts.session import EarlierWork
from activities.tools.recall import NOTE
from activities.turn_kinds.work import AgentAnswer, FindingDraft, IssueDraft, WorkAnswer, WorkWithIssuesAnswer
from chargehand.contracts import Escalation, Failure, Finding, Issue, Outcome, Partial, Report, Source, Success
from workflows.rules.citation_checks import is_computed, stands_in
from workflows.rules.citations import name_refs
from workflows.rules.inputs import by_name

EARLIER: Final = "earlier report"
"""Id of the outcome that represents the previous session; no subtask can have it."""
CONTENT_CHARACTERS: Final = 80_000
"""Maximum length of a subtask's answer, which is more than its turn can write."""
QUOTE_CHARACTERS: Final = 600
_SOURCE_CHARACTERS: Final = 2_400
"""Maximum size of the stored part of a source: its quotations, or the result of a query."""
CLAIM_CHARACTERS: Final = 1_000
MESSAGE_CHARACTERS: Final = 500
FINDINGS: Final = 40
GAPS: Final = 20
ISSUES: Final = 200
_OUTCOME: Final = TypeAdapter[Outcome](Outcome)
_NUMBER: Final = re.compile(r"\d+")
"""Number of a page, line or row after the name of a document."""
MOST_NOTES: Final = 100
_MOST_BYTES: Final = 60_000
"""Total of all notes as JSON, since each compacted conversation begins with them."""


def sources_read(rounds: Iterable[Round], known: Iterable[Source]) -> dict[str, Source]:
    """Collect the sources that a claim of this subtask may cite, by `ref`: known before, or read."""
    read: dict[str, Source] = {}
    for source in (*known, *(source for past in rounds for result in past.results for source in result.sources)):
        before = read.get(source.ref)
        if before is None or (before.session and not source.session):
            read[source.ref] = source  # the source may have changed since an earlier session read it
        elif source.quote not in before.quote:
            read[source.ref] = before.replace(quote=PASSAGE_GAP.join((before.quote, source.quote)))
    return read


def ground(answer: AgentAnswer, read: Mapping[str, Source], agent: str = "The agent") -> Outcome:
    """Turn an agent's answer into an outcome.

    A source that no tool returned is dropped, and a quotation is kept only if the source contains its words.
    """
    findings = tuple(_finding(draft, read) for draft in answer.findings[:FINDINGS])
    counts = _counts(agent, len(answer.findings), _issues(answer))
    named = [ref for ref in read if f"[{ref}]" in answer.content]
    cited = dict.fromkeys([*(ref for finding in findings for ref in finding.sources), *named])
    facts: dict[str, object] = {
        "content": answer.content[:CONTENT_CHARACTERS],
        "findings": findings,
        "sources": tuple(_as_cited(read[ref], findings) for ref in cited),
        "confidence": percentage(answer.confidence),
        "data": answer.data,
        "gaps": tuple(gap[:MESSAGE_CHARACTERS] for gap in [*counts, *answer.gaps][:GAPS]),
        "issues": tuple(_issue(draft) for draft in _issues(answer)[:ISSUES]),
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


def doubt_below(outcome: Outcome, threshold: int) -> Outcome:
    """Turn an answer below its crew's confidence threshold into an escalation to the supervisor."""
    if not isinstance(outcome, Success | Partial) or outcome.confidence >= threshold:
        return outcome
    message = f"Its confidence of {outcome.confidence} is below the {threshold} that the crew asks for."
    facts = outcome.model_dump(exclude={"kind", "reason"})
    return Escalation(reason="confidence_too_low", message=message, **facts)


def _counts(agent: str, findings: int, issues: Sequence[IssueDraft | Issue]) -> list[str]:
    """Count the findings of an agent in excess of those that are kept."""
    files = Counter(issue.file for issue in issues[ISSUES:])
    left_out = [("findings", FINDINGS, f"{findings - FINDINGS}")] if findings > FINDINGS else []
    left_out += [("issues", ISSUES, f"{files.total()} ({by_name(files)})")] if files else []
    return [f"{agent}: {what} left out beyond the first {most}: {count}." for what, most, count in left_out]


def _issues(answer: AgentAnswer) -> list[IssueDraft]:
    return answer.issues if isinstance(answer, WorkWithIssuesAnswer) else []


def _issue(draft: IssueDraft) -> Issue:
    return Issue(
        severity=draft.severity,
        location=draft.location[:MESSAGE_CHARACTERS],
        message=draft.message[:CLAIM_CHARACTERS],
        suggestion=draft.suggestion[:CLAIM_CHARACTERS],
        file=draft.file[:MESSAGE_CHARACTERS],
        line=max(draft.line, 0),
        confidence=percentage(draft.confidence),
    )


def _finding(draft: FindingDraft, read: Mapping[str, Source]) -> Finding:
    refs = tuple(dict.fromkeys(ref for ref in draft.source_refs if ref in read))
    claim, quote = draft.claim[:CLAIM_CHARACTERS], draft.quote[:QUOTE_CHARACTERS]
    is_quoted = bool(refs) and (stands_in(quote, read[refs[0]].quote) or _stands_across(quote, refs[0], read))
    return Finding(claim=claim, sources=refs, confidence=percentage(draft.confidence), quote=quote if is_quoted else "")


def _stands_across(quote: str, ref: str, read: Mapping[str, Source]) -> bool:
    """Return whether a quotation begins in a passage and ends in a following passage of its document."""
    start = f"{ref.partition('#')[0]}#"
    parts = [other for other in read if other.startswith(start)]
    places = sorted(([*map(int, _NUMBER.findall(part.removeprefix(start)))], part) for part in parts)
    text, last = "", 0
    for numbers, part in places:
        follows = not numbers or numbers[0] <= last + 1
        text += ("\n" if follows else PASSAGE_GAP) + read[part].quote
        last = max([last, *numbers])
    return len(places) > 1 and stands_in(quote, text)


def _as_cited(source: Source, findings: Iterable[Finding]) -> Source:
    """Keep only the quoted parts of a source; all of it, up to a limit, if nothing is quoted or it is a result."""
    if is_computed(source):
        return source.replace(quote=source.quote[:_SOURCE_CHARACTERS])
    return source.replace(quote=_quote(source, findings) or source.quote[:QUOTE_CHARACTERS])


def _quote(source: Source, findings: Iterable[Finding]) -> str:
    quotes = dict.fromkeys(each.quote for each in findings if each.quote and each.sources[:1] == (source.ref,))
    return PASSAGE_GAP.join(quotes)[:_SOURCE_CHARACTERS]


def without_quotes(outcome: Outcome) -> Outcome:
    """Drop source texts that the findings repeat, since a history holds each outcome twice."""
    sources = (
        each.replace(quote="") if each.quote == _quote(each, outcome.findings) else each for each in outcome.sources
    )
    return outcome.replace(sources=tuple(sources))


def with_quotes(outcome: Outcome) -> Outcome:
    """Restore what `without_quotes` dropped."""
    sources = (each if each.quote else each.replace(quote=_quote(each, outcome.findings)) for each in outcome.sources)
    return outcome.replace(sources=tuple(sources))


def percentage(value: int) -> int:
    """Clamp a number from a model to a confidence between 0 and 100."""
    return min(max(value, 0), 100)


def without_data(outcome: Outcome, problems: str) -> Failure:
    """Turn an outcome whose data never became valid into a failure that contains its text."""
    rest = {name: getattr(outcome, name) for name in ("content", "findings", "sources", "confidence", "gaps", "issues")}
    message = f"Its data is not valid by the agent's output schema: {problems}"[:MESSAGE_CHARACTERS]
    return Failure(reason="invalid_output", message=message, **rest)


def in_prose(text: str, read: Mapping[str, Source], name: str, problem: str, *, has_data: bool) -> Outcome | None:
    """Keep an agent's prose answer: its words, and the sources that they name; None for an attempt at JSON."""
    if text.lstrip().startswith(("{", "[")) or '"content"' in text or not text.strip():
        return None
    gap = f"{name} answered in prose, which is kept as written: unchecked, and without findings."
    answer = WorkAnswer(status="partial", content=text.strip(), confidence=20, gaps=[gap], message=gap)
    outcome = ground(answer, read)
    return without_data(outcome, problem) if has_data else outcome


def in_part(outcome: Outcome, gaps: Sequence[str]) -> Outcome:
    """Add problems from before an answer as gaps, which cause a review however confident the agent is."""
    if not gaps:
        return outcome
    outcome = outcome.replace(gaps=(*gaps, *outcome.gaps))
    if not isinstance(outcome, Success):
        return outcome
    return Partial(reason=gaps[0], **outcome.model_dump(exclude={"kind"}))


def unfinished_outcome(notes: Sequence[Note], read: Mapping[str, Source], reason: str, gap: str) -> Partial | None:
    """Build an outcome from the notes and sources of a stopped subtask; None if there are none."""
    if not notes and not read:
        return None
    sources = [note.source for note in notes if note.source is not None]
    quoted = {source.ref: source for source in reversed(sources) if source.quote}
    noted = {source.ref: quoted.get(source.ref) or read.get(source.ref, source) for source in sources}
    others = [source for source in read.values() if source.ref not in noted][: max(FINDINGS - len(notes), 0)]
    return Partial(
        content="*What was noted and read before this subtask had to stop was not evaluated.*",
        findings=(
            *(_raw_finding(note.claim, note.source, 50) for note in notes),
            *(_raw_finding(source.quote[:QUOTE_CHARACTERS], source, 30) for source in others),
        ),
        sources=tuple(_as_cited(source, ()) for source in (*noted.values(), *others)),
        confidence=20,
        gaps=(gap,),
        reason=reason,
    )


def _raw_finding(claim: str, source: Source | None, confidence: int) -> Finding:
    if source is None:
        return Finding(claim=claim, sources=(), confidence=confidence)
    return Finding(claim=claim, sources=(source.ref,), confidence=confidence, quote=source.quote[:QUOTE_CHARACTERS])


def out_of_time(notes: Sequence[Note], read: Mapping[str, Source], gap: str) -> Outcome:
    """Build an escalation from the work of an attempt that ran out of time; the supervisor may split the work."""
    partial = unfinished_outcome(notes, read, "timeout", gap) or Partial()
    facts = partial.model_dump(exclude={"kind", "reason"})
    message = "The time for this subtask was used up before it had an answer."
    return Escalation(reason="timeout", message=message, **facts)


def earlier_outcome(earlier: EarlierWork) -> InputOutcome:
    """Turn the report of an earlier session into an outcome; numbered citations become refs again."""
    return InputOutcome(
        id=EARLIER,
        agent="the session before this one",
        instruction=earlier.goal,
        outcome=earlier.make(Success, content=name_refs(earlier.answer, [source.ref for source in earlier.sources])),
    )


def nested_outcome(report: Report, subtask: str) -> Outcome:
    """Turn the report of a subtask's session into an outcome: citations become refs again, gaps name the subtask."""
    content = name_refs(report.answer, [source.ref for source in report.sources])
    if report.stop_reason == "nothing_succeeded":
        ending: dict[str, object] = {
            "kind": "failure",
            "reason": "no_answer",
            "message": "No subtask of the nested session found anything.",
        }
    elif report.stop_reason == "completed":
        ending = {"kind": "success"}
    else:
        ending = {"kind": "partial", "reason": report.stop_reason}
    claims = [claim for claim in report.claims if claim.sources]
    return _OUTCOME.validate_python(
        {
            "content": content[:CONTENT_CHARACTERS],
            "findings": tuple(
                Finding(
                    claim=claim.text,
                    sources=claim.sources,
                    confidence=report.confidence,
                    quote=claim.quote[:QUOTE_CHARACTERS],
                )
                for claim in claims[:FINDINGS]
            ),
            "sources": report.sources,
            "confidence": report.confidence,
            "data": report.output,
            "gaps": (*_counts(subtask, len(claims), report.issues), *(f"{subtask}: {gap}" for gap in report.gaps)),
            "issues": report.issues[:ISSUES],
            "spend": report.spend,
        }
        | ending
    )


class Notes:
    """The notes of one subtask, without duplicates, bounded in number and bytes."""

    def __init__(self, kept: Iterable[Note] = ()) -> None:
        self._kept: dict[tuple[str, str], Note] = {}
        self._bytes = 0
        for note in kept:
            self._keep(note)

    @property
    def kept(self) -> tuple[Note, ...]:
        return tuple(self._kept.values())

    def answer(self, call: ToolCall, read: Mapping[str, Source]) -> ToolResult:
        """Answer a call of the tool `note`."""
        claim, ref, quote = (call.arguments.get(name, "") for name in ("claim", "ref", "quote"))
        if call.malformed:
            problem = f"The arguments could not be read: {call.malformed}"
        elif isinstance(claim, str) and isinstance(ref, str) and isinstance(quote, str):
            problem = self.add(claim, ref, quote, read)
        else:
            problem = "claim, ref and quote are texts."
        output = {"error": problem} if problem else {"notes": len(self._kept)}
        return ToolResult(call_id=call.id, tool=NOTE.name, ok=not problem, output={**output})

    def add(self, claim: str, ref: str, quote: str, read: Mapping[str, Source]) -> str:
        """Keep a claim citing a source that was read, or none; return why it was refused, or an empty text."""
        claim, ref, quote = claim.strip(), ref.strip().removeprefix("[").removesuffix("]"), quote.strip()
        source = read.get(ref)
        if not claim or len(claim) > CLAIM_CHARACTERS:
            return f"A claim has 1 to {CLAIM_CHARACTERS:,} characters."
        if (claim, ref) in self._kept:
            return "You have kept this note already."
        if source is not None:
            problem = _problem_with(quote, source)
            return problem or self._keep(Note(claim=claim, source=source.replace(quote=quote)))
        if ref:
            return "No tool has returned this ref; copy it exactly as it is in brackets."
        return self._keep(Note(claim=claim))

    def _keep(self, note: Note) -> str:
        size = len(note.model_dump_json().encode())
        if len(self._kept) == MOST_NOTES or self._bytes + size > _MOST_BYTES:
            return f"No more notes fit beside the {len(self._kept)} that you have kept; go on, and answer from them."
        self._bytes += size
        self._kept[note.claim, note.source.ref if note.source else ""] = note
        return ""


def _problem_with(quote: str, source: Source) -> str:
    if len(quote) > QUOTE_CHARACTERS:
        return f"A quote has at most {QUOTE_CHARACTERS} characters; copy only the words that matter."
    if quote and not stands_in(quote, source.quote):
        return "The source does not contain these words; copy them exactly, or leave the quote empty."
    return ""
