"""What models read of outcomes, what agents may say and keep, and how much a turn may write."""

from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from activities.contracts.cards import ModelCard, OutputCaps, PriceStep
from activities.contracts.rounds import InputOutcome, Note, ToolCall
from activities.turn_kinds.judgements import JudgeTask
from activities.turn_kinds.plan import Allowance, PlanTask
from activities.turn_kinds.synthesis import SynthesisTask
from activities.turn_kinds.work import FindingDraft, WorkAnswer, WorkTask
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
from chargehand_plugins.testing import report_of
from workflows.budget.estimates import (
    DECISION,
    PLAN,
    REPORT,
    WORK,
    OutputRange,
    double_range,
    output_range,
    purpose_of,
    worst_case,
)
from workflows.rules.citation_checks import claims_of, stands_in
from workflows.rules.evidence import (
    MOST_NOTES,
    Notes,
    ground,
    nested_outcome,
    unfinished_outcome,
    with_quotes,
    without_quotes,
)
from workflows.rules.inputs import beginning, fit, rendered_tokens, tokens_of
from workflows.rules.report_content import evidence_of

HANDBOOK = Source(ref="handbook.md#L1-L3", title="Notice", quote="Notice is given\n  three months before the end.")
COSTS = Source(ref="sql:1", title="SELECT 1", quote="1")
READ = {source.ref: source for source in (HANDBOOK, COSTS)}
SPEND = (SpendLine(agent="reader", model="m", purpose="work", usage=Usage(turns=1)),)


def _finding(*refs: str, quote: str = "", confidence: int = 80) -> FindingDraft:
    return FindingDraft(claim="Notice is three months.", source_refs=list(refs), quote=quote, confidence=confidence)


def _answer(*findings: FindingDraft, **changes: Any) -> WorkAnswer:
    own: dict[str, Any] = {"status": "success", "content": "Three months.", "confidence": 70, "gaps": [], "message": ""}
    return WorkAnswer.model_validate({**own, "findings": findings, **changes})


def test_a_sourced_answer_keeps_its_sources() -> None:
    outcome = ground(_answer(_finding("handbook.md#L1-L3", quote="three months before")), READ)

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
    )


@given(
    quotes=st.lists(
        st.sampled_from(["", "Notice is given", "three months before the end", "no such words"]), max_size=4
    ),
    refs=st.lists(st.sampled_from([*READ, "nowhere"]), max_size=3),
)
def test_a_quotation_is_sent_once(quotes: list[str], refs: list[str]) -> None:
    """Text that findings quote is removed from the source for transport, and restored on arrival."""
    findings = [_finding(*refs, quote=quote) for quote in quotes]
    outcome = ground(_answer(*findings, content="[handbook.md#L1-L3]"), READ)
    sent = without_quotes(outcome)

    quoted = {finding.sources[0] for finding in outcome.findings if finding.quote}
    assert {source.ref for source in sent.sources if not source.quote} == quoted - {COSTS.ref}
    assert with_quotes(sent) == outcome


def test_a_source_that_no_tool_returned_is_dropped() -> None:
    """The claim stays and rests on the remaining sources, and the quotation is not attached to another source."""
    findings = [_finding("invented.pdf#page=9", "sql:1", "sql:1"), _finding("nowhere")]
    findings.append(_finding("invented", "sql:1", "handbook.md#L1-L3", quote="three months"))
    outcome = ground(_answer(*findings), READ)

    assert [finding.sources for finding in outcome.findings] == [("sql:1",), (), ("sql:1", "handbook.md#L1-L3")]
    assert outcome.sources == (COSTS, HANDBOOK)


def test_an_agents_quotation_is_kept_only_if_it_is_verbatim() -> None:
    cases = [
        ("Notice is given three months", "Notice is given three months"),  # words exactly as written
        ("given   three\nmonths before", "given   three\nmonths before"),  # other white space
        ("Notice is given six months", HANDBOOK.quote),  # another word
        ("notice is given", HANDBOOK.quote),  # another case
        ("  ", HANDBOOK.quote),  # nothing
    ]
    for quote, kept in cases:
        outcome = ground(_answer(_finding("handbook.md#L1-L3", quote=quote)), READ)
        assert outcome.sources == (HANDBOOK.model_copy(update={"quote": kept}),)


@given(cut=st.integers(1, 60), turned=st.booleans())
def test_a_quotation_across_a_page_break_is_found(cut: int, *, turned: bool) -> None:
    words = "The deposit is returned within thirty days of the end of the lease."
    hyphen = "-" if words[cut - 1 : cut + 1].isalpha() else ""
    pages = [
        Source(ref="lease.pdf#page=9", quote=f"Section 3. {words[:cut]}{hyphen}"),
        Source(ref="lease.pdf#page=10", quote=f"{words[cut:]} Section 4."),
    ]
    read = {page.ref: page for page in (reversed(pages) if turned else pages)}
    outcome = ground(_answer(_finding(pages[0].ref, quote=words)), read)
    apart = {pages[0].ref: pages[0], "lease.pdf#page=11": pages[1]}
    torn = ground(_answer(_finding(pages[0].ref, quote=words)), apart)

    assert [each.quote for each in outcome.findings] == [words]
    assert [each.quote for each in torn.findings] == [""]


@given(words=st.text(alphabet="six three months before end.", min_size=1, max_size=40))
def test_a_quotation_that_is_not_in_its_source_is_never_used(words: str) -> None:
    """A claim rests on its agent's quotation only if the source contains it; no excerpt replaces it."""
    outcome = ground(_answer(_finding(HANDBOOK.ref, quote=words)), READ)
    known = [InputOutcome(id="T1", agent="reader", instruction="Read.", outcome=outcome)]
    [cited] = claims_of("Notice is six months [S1.1].", evidence_of(known, outcome.sources, ()))

    assert cited.claim.quote in {words, ""}
    assert bool(cited.claim.quote) is stands_in(words, HANDBOOK.quote)
    assert cited.at_best == "cited" or cited.claim.quote


def test_every_agent_status_maps_to_one_outcome() -> None:
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
        outcome = ground(_answer(status=status, content="", confidence=0, message="why"), READ)
        assert outcome == ending


def test_confidence_is_clamped_to_0_to_100() -> None:
    for said, taken in ((-5, 0), (0, 0), (100, 100), (900, 100)):
        outcome = ground(_answer(_finding(confidence=said), confidence=said), READ)
        assert (outcome.confidence, outcome.findings[0].confidence) == (taken, taken)


def test_an_outcome_is_capped() -> None:
    source = Source(ref="big", quote="word " * 1_000)
    answer = _answer(
        *[_finding("big").model_copy(update={"claim": "c" * 9_000})] * 99,
        status="partial",
        content="a" * 90_000,
        gaps=["g" * 9_000] * 99,
        message="m" * 9_000,
    )
    outcome = ground(answer, {"big": source})

    assert outcome == Partial(
        content="a" * 80_000,
        findings=(Finding(claim="c" * 1_000, sources=("big",), confidence=80),) * 40,
        sources=(source.model_copy(update={"quote": source.quote[:600]}),),
        confidence=70,
        gaps=("The agent: findings left out beyond the first 40: 59.", *("g" * 500,) * 19),
        reason="m" * 500,
    )


def test_an_unfinished_subtask_hands_back_its_notes_and_passages() -> None:
    """Notes come first, then everything else that it read, marked as not evaluated."""
    noted = HANDBOOK.model_copy(update={"quote": "three months"})
    notes = [Note(claim="Notice is three months.", source=noted), Note(claim="Costs are open.")]
    outcome = unfinished_outcome(notes, READ, "out_of_turns", "T1 (reader) stopped.")

    assert outcome == Partial(
        content="*What was noted and read before this subtask had to stop was not evaluated.*",
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


def test_the_report_of_a_nested_session_becomes_an_outcome() -> None:
    """Citations become refs again, gaps name the session, and its stop reason decides the outcome's kind."""
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
        report = report_of("a").model_copy(update={**below, "stop_reason": stop_reason, "gaps": gaps})
        named = tuple(f"N1: {gap}" for gap in gaps)
        assert nested_outcome(report, "N1") == ending.model_copy(update={**above, "gaps": named})


def test_excess_findings_and_issues_of_a_nested_report_are_counted() -> None:
    claims = (Claim(text="Three", sources=(HANDBOOK.ref,)),) * 42
    wrong = Issue(severity="minor", location="T1", file="a.py", line=1, message="No.", confidence=90)
    below = {"claims": claims, "issues": (wrong,) * 201, "gaps": ("costs",)}
    outcome = nested_outcome(report_of("a").model_copy(update=below), "N1")

    assert (len(outcome.findings), outcome.issues) == (40, (wrong,) * 200)
    assert outcome.gaps == (
        "N1: findings left out beyond the first 40: 2.",
        "N1: issues left out beyond the first 200: 1 (a.py 1).",
        "N1: costs",
    )


OUTCOMES: st.SearchStrategy[Outcome] = st.builds(
    Success,
    content=st.tuples(st.sampled_from(["word ", "ü", "字"]), st.integers(0, 9_000)).map(lambda of: of[0] * of[1]),
    findings=st.integers(0, 40).map(lambda count: (Finding(claim="c" * 300, sources=("a",), confidence=1),) * count),
    sources=st.integers(0, 40).map(lambda count: (Source(ref="a", quote="q" * 600),) * count),
    gaps=st.integers(0, 20).map(lambda count: ("g" * 300,) * count),
)


def _reading(candidates: tuple[InputOutcome, ...]) -> JudgeTask:
    return JudgeTask(question="Which?", candidates=candidates)


def _given(outcome: Outcome, number: int = 1) -> InputOutcome:
    return InputOutcome(id=f"T{number}", agent="reader", instruction=f"Do {number}", outcome=outcome)


@given(outcomes=st.lists(OUTCOMES, max_size=8), most=st.integers(0, 30_000))
def test_outcomes_are_shortened_to_the_allowance(outcomes: list[Outcome], most: int) -> None:
    """The limit is in tokens and bytes as a model reads them, and no outcome is left out."""
    inputs = [_given(outcome, number) for number, outcome in enumerate(outcomes)]
    bare = _reading(tuple(_given(Success(), number) for number in range(len(outcomes))))
    task = fit(inputs, _reading, most)

    assert rendered_tokens(task) <= rendered_tokens(bare) + most
    assert len(task.model_dump_json().encode()) <= len(bare.model_dump_json().encode()) + 6 * most
    assert [short.id for short in task.candidates] == [given.id for given in inputs]


def test_outcomes_within_the_allowance_are_not_shortened() -> None:
    """A long question does not take from their allowance."""
    inputs = (_given(Success(content="word " * 2_000, gaps=("g",), sources=(Source(ref="a"),))),)
    task = fit(inputs, lambda read: JudgeTask(question="字" * 20_000, candidates=read), 5_000)

    assert task.candidates == inputs


@given(text=st.text(max_size=60), most=st.integers(0, 50))
def test_text_is_truncated_to_a_prefix_within_its_tokens(text: str, most: int) -> None:
    begun = beginning(text, most)

    assert text.startswith(begun)
    assert (begun == text) is (tokens_of(text) <= most)


PAGE = Source(ref="handbook.md#L1", title="Notice", url="https://example.org/h", quote="Notice is\n three months.")
PAGES = {PAGE.ref: PAGE}


def call(**arguments: JsonValue) -> ToolCall:
    return ToolCall(id="1", tool="note", arguments={"claim": "", "ref": "", "quote": ""} | arguments)


def test_a_note_keeps_its_source_and_quotation() -> None:
    notes = Notes()
    answers = [
        notes.answer(call(claim="Three months.", ref=f"[{PAGE.ref}]", quote="Notice is three months"), PAGES),
        notes.answer(call(claim="Nothing on costs."), PAGES),
    ]

    assert [result.output for result in answers] == [{"notes": 1}, {"notes": 2}]
    quoted = PAGE.model_copy(update={"quote": "Notice is three months"})
    assert notes.kept == (Note(claim="Three months.", source=quoted), Note(claim="Nothing on costs."))


def test_a_refused_note_states_the_reason() -> None:
    cases: list[tuple[dict[str, JsonValue], str]] = [
        ({"claim": "Four months.", "ref": "elsewhere.md"}, "No tool has returned this ref"),
        ({"claim": "Four months.", "ref": PAGE.ref, "quote": "four months"}, "does not contain these words"),
        ({"claim": "Long.", "ref": PAGE.ref, "quote": "n" * 601}, "at most 600 characters"),
        ({"claim": " ", "ref": PAGE.ref}, "1 to 1,000 characters"),
        ({"claim": "c" * 1_001}, "1 to 1,000 characters"),
        ({"claim": ["a", "b"]}, "are texts"),
        ({"claim": "Kept."}, "kept this note already"),
    ]
    for arguments, problem in cases:
        notes = Notes([Note(claim="Kept.")])
        result = notes.answer(call(**arguments), PAGES)
        assert not result.ok
        assert problem in str(result.output)
        assert notes.kept == (Note(claim="Kept."),)


@given(st.lists(st.text(min_size=1, max_size=1_000), max_size=8), st.integers(1, 300))
def test_notes_are_bounded(claims: list[str], times: int) -> None:
    notes = Notes()
    for number in range(times):
        for claim in claims:
            notes.answer(call(claim=f"{number} {claim}"[:1_000]), {})

    assert len(notes.kept) <= MOST_NOTES
    assert sum(len(note.model_dump_json().encode()) for note in notes.kept) <= 60_000
    assert Notes(notes.kept).kept == notes.kept


_tokens = st.integers(256, 128_000)
_ALLOWANCE = Allowance(turns=1, usd=Decimal(1), minutes=1, max_rounds=1, max_parallel=1)


def _model(usd_per_million: Decimal = Decimal(10), most: int | None = None) -> ModelCard:
    price = PriceStep(input_usd_per_million=usd_per_million, output_usd_per_million=usd_per_million)
    return ModelCard(provider="p", name="m", prices=(price,), max_output_tokens=most)


def test_effort_is_highest_for_plans_and_reports_lowest_for_decisions() -> None:
    """The task determines the purpose of a turn; a crew's effort replaces all but that of decisions."""
    report = SynthesisTask(goal="g", outcomes=())
    tasks = (
        PlanTask(goal="g", max_subtasks=1, allowance=_ALLOWANCE, may_nest=False),
        WorkTask(goal="g", instruction="i"),
        report,
        report.model_copy(update={"is_part": True}),
        JudgeTask(question="q", candidates=()),
    )
    purposes = [purpose_of(task) for task in tasks]

    assert purposes == [PLAN, WORK, REPORT, DECISION, DECISION]
    assert [purpose.effort_in(None) for purpose in purposes] == ["high", "medium", "high", "low", "low"]
    assert [purpose.effort_in("medium") for purpose in purposes] == ["medium"] * 3 + ["low"] * 2


@given(most=_tokens, least=_tokens, price=st.decimals(0, 100, places=6), usd=st.decimals(0, 10, places=9))
def test_the_output_cap_is_affordable_or_the_minimum(most: int, least: int, price: Decimal, usd: Decimal) -> None:
    outputs = OutputRange(min(least, most), most)
    model = _model(price)

    def worst(cap: int) -> Decimal:
        return worst_case(model, 10_000, cap).usd

    cap = outputs.affordable(worst, usd)

    assert outputs.least <= cap <= outputs.most
    assert worst(cap) <= max(usd, worst(outputs.least))
    if worst(outputs.most) <= usd:
        assert cap == outputs.most


def test_the_output_cap_never_exceeds_the_models_maximum() -> None:
    small = _model(most=3_000)

    assert output_range(WORK, OutputCaps(), small) == OutputRange(3_000, 3_000)
    assert output_range(WORK, OutputCaps(work=1_000), _model()) == OutputRange(1_000, 1_000)
    assert output_range(REPORT, OutputCaps(), _model()) == OutputRange(6_000, 24_000)
    assert double_range(12_000, _model()) == OutputRange(12_000, 24_000)
    assert double_range(3_000, small) == OutputRange(3_000, 3_000)
