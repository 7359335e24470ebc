"""From what an agent says to what it may say."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from activities.contracts.rounds import PASSAGE_GAP, Note, Round, ToolResult
from activities.turn_kinds.work import FindingDraft, WorkAnswer
from chargehand.contracts import (
    Claim,
    Escalation,
    Failure,
    Finding,
    Issue,
    Outcome,
    Partial,
    Source,
    SpendLine,
    Success,
    Usage,
)
from tests.security.hostile_reports import honest_report
from workflows.rules.evidence import (
    ground,
    nested_outcome,
    sources_read,
    unfinished_outcome,
    with_quotes,
    without_quotes,
)

HANDBOOK = Source(ref="handbook.md#L1-L3", title="Notice", quote="Notice is given\n  three months before the end.")
COSTS = Source(ref="sql:1", title="SELECT 1", quote="1")
READ = {source.ref: source for source in (HANDBOOK, COSTS)}
SPEND = (SpendLine(agent="reader", model="m", purpose="work", usage=Usage(turns=1)),)


def _finding(*refs: str, quote: str = "", confidence: int = 80) -> FindingDraft:
    return FindingDraft(claim="Notice is three months.", source_refs=list(refs), quote=quote, confidence=confidence)


def _answer(*findings: FindingDraft, **changes: Any) -> WorkAnswer:
    facts: dict[str, Any] = {
        "status": "success",
        "content": "Three months.",
        "confidence": 70,
        "gaps": [],
        "message": "",
    }
    return WorkAnswer.model_validate(facts | {"findings": list(findings)} | changes)


def test_a_sourced_answer_keeps_its_sources() -> None:
    """Content, findings, confidence and spend are taken over; of what was read, only what is cited."""
    outcome = ground(_answer(_finding("handbook.md#L1-L3", quote="three months before")), READ, SPEND)

    assert outcome == Success(
        content="Three months.",
        findings=(
            Finding(
                claim="Notice is three months.",
                sources=("handbook.md#L1-L3",),
                confidence=80,
                quote="three months before",
            ),
        ),
        sources=(HANDBOOK.model_copy(update={"quote": "three months before"}),),
        confidence=70,
        spend=SPEND,
    )


@given(
    quotes=st.lists(
        st.sampled_from(["", "Notice is given", "three months before the end", "no such words"]), max_size=4
    ),
    refs=st.lists(st.sampled_from([*READ, "nowhere"]), max_size=3),
)
def test_a_quotation_is_sent_once(quotes: list[str], refs: list[str]) -> None:
    """A source travels without the words that findings quote from it, and has them again when it arrives."""
    findings = [_finding(*refs, quote=quote) for quote in quotes]
    outcome = ground(_answer(*findings, content="[handbook.md#L1-L3]"), READ, SPEND)

    sent = without_quotes(outcome)

    quoted = {finding.sources[0] for finding in outcome.findings if finding.quote}
    assert {source.ref for source in sent.sources if not source.quote} == quoted - {COSTS.ref}
    assert with_quotes(sent) == outcome


def test_a_source_that_no_tool_returned_is_dropped() -> None:
    """An invented ref disappears; the claim stays, resting on what is left."""
    outcome = ground(_answer(_finding("invented.pdf#page=9", "sql:1", "sql:1"), _finding("nowhere")), READ, ())

    assert [finding.sources for finding in outcome.findings] == [("sql:1",), ()]
    assert outcome.sources == (COSTS,)


def test_a_quotation_is_verbatim_or_not_the_agents() -> None:
    """The agent's quotation is kept only if its words stand in the source; else the source's own words are."""
    cases = [
        ("Notice is given three months", "Notice is given three months"),  # words as they stand
        ("given   three\nmonths before", "given   three\nmonths before"),  # other white space
        ("Notice is given six months", HANDBOOK.quote),  # another word
        ("notice is given", HANDBOOK.quote),  # another case
        ("  ", HANDBOOK.quote),  # nothing
    ]
    for quote, kept in cases:
        outcome = ground(_answer(_finding("handbook.md#L1-L3", quote=quote)), READ, ())
        assert outcome.sources == (HANDBOOK.model_copy(update={"quote": kept}),)


def test_a_quotation_belongs_to_the_first_real_source() -> None:
    """An invented ref in front does not shift a quotation onto nothing, and no other source is quoted by it."""
    outcome = ground(_answer(_finding("invented", "sql:1", "handbook.md#L1-L3", quote="three months")), READ, ())

    assert outcome.sources == (COSTS, HANDBOOK)


def test_every_status_is_one_outcome() -> None:
    """Each status that an agent may give becomes its own kind and reason, with the message where there is one."""
    cases: list[tuple[str, Outcome]] = [
        ("success", Success()),
        ("partial", Partial(reason="why")),
        ("no_answer", Failure(reason="no_answer", message="why")),
        ("ambiguous_input", Escalation(reason="ambiguous_input", message="why")),
        ("out_of_scope", Escalation(reason="out_of_scope", message="why")),
        ("confidence_too_low", Escalation(reason="confidence_too_low", message="why")),
        ("too_big", Escalation(reason="too_big", message="why")),
    ]
    for status, ending in cases:
        outcome = ground(_answer(status=status, content="", confidence=0, message="why"), READ, ())
        assert outcome == ending


def test_confidence_is_a_percentage() -> None:
    """A number outside 0 to 100 is taken as the nearest in it, for the whole and for each claim."""
    for said, taken in ((-5, 0), (0, 0), (100, 100), (900, 100)):
        outcome = ground(_answer(_finding(confidence=said), confidence=said), READ, ())
        assert (outcome.confidence, outcome.findings[0].confidence) == (taken, taken)


def test_an_outcome_is_capped() -> None:
    """However much an agent writes, its outcome stays small enough to be handed on, and counts what is left out."""
    source = Source(ref="big", quote="word " * 1_000)
    answer = _answer(
        *[_finding("big").model_copy(update={"claim": "c" * 9_000})] * 99,
        status="partial",
        content="a" * 90_000,
        gaps=["g" * 9_000] * 99,
        message="m" * 9_000,
    )

    outcome = ground(answer, {"big": source}, ())

    assert outcome == Partial(
        content="a" * 80_000,
        findings=(Finding(claim="c" * 1_000, sources=("big",), confidence=80),) * 40,
        sources=(source.model_copy(update={"quote": source.quote[:600]}),),
        confidence=70,
        gaps=("The agent: findings left out beyond the first 40: 59.", *("g" * 500,) * 19),
        reason="m" * 500,
    )


def test_claims_may_rest_on_what_was_read_here_or_handed_down() -> None:
    """Sources of the inputs count like those of the agent's own tools; of the same ref, all readings count."""
    again = HANDBOOK.model_copy(update={"quote": "Read again."})
    rounds = [Round(results=(ToolResult(call_id="1", tool="read_document", sources=(again,)),)), Round(correction="x")]

    found = sources_read(rounds, (HANDBOOK, COSTS))

    both = HANDBOOK.model_copy(update={"quote": f"{HANDBOOK.quote}{PASSAGE_GAP}Read again."})
    assert found == {HANDBOOK.ref: both, COSTS.ref: COSTS}


def test_what_was_noted_and_read_is_handed_back() -> None:
    """A subtask that had to stop hands back its notes, then each other thing that it read, said to be unweighed."""
    noted = HANDBOOK.model_copy(update={"quote": "three months"})
    notes = [Note(claim="Notice is three months.", source=noted), Note(claim="Costs are open.")]

    outcome = unfinished_outcome(notes, READ, "out_of_turns", "T1 (reader) stopped.")

    assert outcome == Partial(
        content="The findings list what was noted and read before the subtask had to stop.",
        findings=(
            Finding(claim="Notice is three months.", sources=(HANDBOOK.ref,), confidence=50, quote="three months"),
            Finding(claim="Costs are open.", confidence=50),
            Finding(claim=COSTS.quote, sources=(COSTS.ref,), confidence=30, quote=COSTS.quote),
        ),
        sources=(noted, COSTS),
        confidence=20,
        gaps=("T1 (reader) stopped.",),
        reason="out_of_turns",
    )


def test_a_report_from_below_becomes_an_outcome() -> None:
    """Numbered citations become refs again, and the way the session ended becomes the kind of the outcome."""
    shared = {"sources": (HANDBOOK, COSTS), "confidence": 60, "spend": SPEND}
    quoted: dict[str, Any] = {"sources": (HANDBOOK.ref,), "quote": "three months"}
    claims = (Claim(text="Three", **quoted), Claim(text="Nobody", verification="unsupported"))
    below = {"answer": "Three months [S1], one [S2], nobody [S3][S0].", "claims": claims, **shared}
    content = "Three months [handbook.md#L1-L3], one [sql:1], nobody."
    above = {"content": content, "findings": (Finding(claim="Three", confidence=60, **quoted),), **shared}
    nothing = "No subtask of the nested session found anything."
    endings: list[tuple[str, tuple[str, ...], Outcome]] = [
        ("completed", (), Success()),
        ("partial", ("costs",), Partial(reason="partial")),
        ("deadline", (), Partial(reason="deadline")),
        ("nothing_succeeded", (), Failure(reason="no_answer", message=nothing)),
    ]
    for stop_reason, gaps, ending in endings:
        report = honest_report().model_copy(update={**below, "stop_reason": stop_reason, "gaps": gaps})
        assert nested_outcome(report) == ending.model_copy(update={**above, "gaps": gaps})


def test_what_a_report_from_below_has_too_much_is_counted() -> None:
    """Its issues are handed on with its claims; what an outcome does not keep is counted, by file."""
    claims = (Claim(text="Three", sources=(HANDBOOK.ref,)),) * 42
    wrong = Issue(severity="minor", location="T1", file="a.py", line=1, message="No.", confidence=90)
    below = {"claims": claims, "issues": (wrong,) * 201, "gaps": ("costs",)}

    outcome = nested_outcome(honest_report().model_copy(update=below))

    assert (len(outcome.findings), outcome.issues) == (40, (wrong,) * 200)
    assert outcome.gaps == (
        "nested session: findings left out beyond the first 40: 2.",
        "nested session: issues left out beyond the first 200: 1 (a.py 1).",
        "costs",
    )
