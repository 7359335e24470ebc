"""What happens after a bad end: the table, its limits, and what is handed on."""

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from chargehand.contracts import (
    Escalation,
    Failure,
    FailureReason,
    Finding,
    Outcome,
    Partial,
    Source,
    SpendLine,
    Subtask,
    Success,
    Tier,
    Usage,
)
from tests.unit.strategies import contracts
from workflows.rules.graph import skip_reason
from workflows.rules.recovery import (
    HOPELESS,
    TABLE,
    Accept,
    Action,
    AskHuman,
    Attempts,
    GiveUp,
    JudgeBetween,
    Means,
    Refine,
    Split,
    UseFallback,
    UseStronger,
    accept,
    best_of,
    has_answer,
    next_action,
)

ALL = Means(max_attempts=3, fallback="researcher", stronger=Tier.LARGE, may_nest=True, may_ask=True, can_pay=True)
NONE = Means(max_attempts=3)
NO_ANSWER = Failure(reason="no_answer")
AMBIGUOUS = Escalation(reason="ambiguous_input", content="Which Harald?")
OUT_OF_SCOPE = Escalation(reason="out_of_scope")
UNSURE = Escalation(reason="confidence_too_low", content="Perhaps three months.", confidence=30)
CLUELESS = Escalation(reason="confidence_too_low")
TIMEOUT = Escalation(reason="timeout")
TOO_BIG = Escalation(reason="too_big")


def taken(outcome: Outcome, means: Means, attempts: Attempts | None = None) -> list[Action]:
    """Take whatever the table says, each attempt ending like the one before, until there is nothing more to take."""
    attempts = attempts or Attempts(agents=("reader",))
    actions: list[Action] = []
    while not actions or not isinstance(actions[-1], Accept | GiveUp):
        action = next_action(outcome, attempts, means)
        attempts = attempts.after(action)
        attempts = attempts if isinstance(action, JudgeBetween) else attempts.again()
        actions.append(action)
    return actions


GAVE_UP = "Gave up after 3 failed attempts; last error:"


def test_everything_is_tried_in_its_turn() -> None:
    """With all means at hand, each kind of bad end has its own order of things to try."""
    cases: list[tuple[Outcome, list[Action]]] = [
        (Success(), [Accept()]),
        (Partial(gaps=("costs",)), [Accept()]),
        (NO_ANSWER, [Refine(), UseFallback("researcher"), GiveUp(f"{GAVE_UP} no_answer.")]),
        (AMBIGUOUS, [AskHuman(), Refine(), GiveUp(f"{GAVE_UP} ambiguous_input.")]),
        (OUT_OF_SCOPE, [UseFallback("researcher"), GiveUp("There is nothing else to try; last error: out_of_scope.")]),
        (UNSURE, [UseStronger(Tier.LARGE), JudgeBetween(), Accept()]),
        (CLUELESS, [UseStronger(Tier.LARGE), GiveUp("There is nothing else to try; last error: confidence_too_low.")]),
        (TIMEOUT, [Split(), GiveUp("There is nothing else to try; last error: timeout.")]),
        (TOO_BIG, [Split(), GiveUp("There is nothing else to try; last error: too_big.")]),
    ]
    for outcome, actions in cases:
        assert taken(outcome, ALL) == actions


def test_without_means_there_is_less_to_try() -> None:
    """Nothing is tried for which there is no agent, no tier, no depth and no person."""
    cases: list[tuple[Outcome, list[Action]]] = [
        (NO_ANSWER, [Refine(), GiveUp("There is nothing else to try; last error: no_answer.")]),
        (AMBIGUOUS, [Refine(), GiveUp("There is nothing else to try; last error: ambiguous_input.")]),
        (OUT_OF_SCOPE, [GiveUp("There is nothing else to try; last error: out_of_scope.")]),
        (UNSURE, [Accept()]),
        (CLUELESS, [GiveUp("There is nothing else to try; last error: confidence_too_low.")]),
        (TOO_BIG, [GiveUp("There is nothing else to try; last error: too_big.")]),
    ]
    for outcome, actions in cases:
        assert taken(outcome, NONE) == actions


def test_what_nothing_helps_is_given_up_at_once() -> None:
    """A failure that another attempt would only meet again costs none; any other is tried again."""
    for reason in get_args(FailureReason):
        hopeless = [GiveUp(f"Another attempt would not help; last error: {reason}.")]
        tried = taken(Failure(reason=reason), ALL)[:2]
        assert tried == (hopeless if reason in HOPELESS else [Refine(), UseFallback("researcher")])


def test_a_refinement_that_is_not_worth_while_is_no_attempt() -> None:
    """When no other instruction would help, the fallback agent is next, and the attempt is still to be had."""
    attempts = Attempts(agents=("reader",)).after(Refine())

    assert taken(NO_ANSWER, ALL, attempts)[0] == UseFallback("researcher")
    assert attempts.made == 1


def test_a_session_below_has_had_its_own_tries() -> None:
    """After a split the nested session has refined and fallen back already; its failure is final."""
    attempts = Attempts(agents=("reader",)).after(Split()).again()

    assert next_action(NO_ANSWER, attempts, ALL) == GiveUp("There is nothing else to try; last error: no_answer.")


def test_one_stronger_answer_is_accepted_without_a_judge() -> None:
    """When the stronger tier is sure of its answer, there is nothing left to decide."""
    attempts = Attempts(agents=("reader",)).after(UseStronger(Tier.LARGE)).again()

    assert next_action(Success(content="Three."), attempts, ALL) == Accept()


def test_the_breaker_loses_no_answer() -> None:
    """Answers that are there are judged and accepted even when nothing can be tried any more."""
    attempts = Attempts(made=3, agents=("reader",), upgraded=1)

    assert taken(UNSURE, ALL, attempts) == [JudgeBetween(), Accept()]
    assert taken(UNSURE, ALL, Attempts(made=3)) == [Accept()]
    assert next_action(UNSURE, Attempts(upgraded=1), replace(ALL, can_pay=False)) == Accept()


CONTENT = st.sampled_from(["", "So."])
BAD_ENDS: st.SearchStrategy[Outcome] = contracts(Failure) | contracts(Escalation, CONTENT)
OUTCOMES: st.SearchStrategy[Outcome] = contracts(Success, CONTENT) | contracts(Partial, CONTENT) | BAD_ENDS
AGENTS = st.sampled_from(["reader", "researcher", "analyst"])
ATTEMPTS = st.builds(
    Attempts,
    made=st.integers(1, 12),
    agents=st.lists(AGENTS, max_size=3, unique=True).map(tuple),
    refined=st.integers(0, 2),
    upgraded=st.integers(0, 2),
    split=st.booleans(),
    asked=st.booleans(),
    judged=st.booleans(),
)
MEANS = st.builds(
    Means,
    max_attempts=st.integers(1, 10),
    fallback=st.none() | AGENTS,
    stronger=st.none() | st.sampled_from(Tier),
    may_nest=st.booleans(),
    may_ask=st.booleans(),
    can_pay=st.booleans(),
)


@settings(max_examples=5 * settings().max_examples)
@given(outcome=OUTCOMES, attempts=ATTEMPTS, means=MEANS)
def test_no_action_goes_beyond_its_means(outcome: Outcome, attempts: Attempts, means: Means) -> None:
    """From any state, what is done is allowed, payable, within the breaker, and not what was done before."""
    action = next_action(outcome, attempts, means)

    match action:
        case Accept():
            assert outcome.kind in {"success", "partial"} or has_answer(outcome)
        case GiveUp():
            assert outcome.kind in {"failure", "escalation"}
            assert action.why
        case JudgeBetween():
            assert means.can_pay
            assert attempts.upgraded
            assert not attempts.judged
        case _:
            assert means.can_pay
            assert attempts.made < means.max_attempts
            assert attempts.after(action) != attempts
            allowed: Mapping[type[Action], bool] = {
                Refine: not attempts.refined,
                UseFallback: action == UseFallback(str(means.fallback)) and means.fallback not in attempts.agents,
                UseStronger: means.stronger is not None and not attempts.upgraded,
                Split: means.may_nest and not attempts.split,
                AskHuman: means.may_ask and not attempts.asked,
            }
            assert allowed[type(action)]


@settings(max_examples=2 * settings().max_examples)
@given(data=st.data(), attempts=ATTEMPTS, max_attempts=st.integers(1, 10))
def test_every_subtask_comes_to_an_end(data: st.DataObject, attempts: Attempts, max_attempts: int) -> None:
    """I20: from any state, whatever attempts come to and means become, it ends within the attempts and two steps."""
    outcome = data.draw(BAD_ENDS)
    steps = 0
    action: Action | None = None
    while not isinstance(action, Accept | GiveUp):
        drawn = data.draw(MEANS)
        means = Means(max_attempts, drawn.fallback, drawn.stronger, drawn.may_nest, drawn.may_ask, drawn.can_pay)
        action = next_action(outcome, attempts, means)
        attempts = attempts.after(action)
        steps += 1
        may_come_to_nothing = isinstance(action, Refine | AskHuman)
        if not isinstance(action, JudgeBetween) and not (may_come_to_nothing and data.draw(st.booleans())):
            outcome = data.draw(BAD_ENDS)
            attempts = attempts.again()

        assert steps <= max_attempts + 2


def test_the_table_has_a_row_for_every_end() -> None:
    """I06: each way in which an outcome can say that it ended is answered, and no row is for anything else."""
    reasons = get_args(Escalation.model_fields["reason"].annotation)
    ends = [f"failure {reason}" for reason in get_args(FailureReason)]
    ends += [f"escalation {reason}" for reason in reasons]

    assert set(TABLE) == {"success", "partial", *ends}


SPEND = (SpendLine(agent="reader", model="m", purpose="work", usage=Usage(turns=2, cost_usd=Decimal("0.01"))),)
SOURCE = Source(ref="a.md#L1", quote="three months")
FINDING = Finding(claim="Notice is 3 months.", sources=("a.md#L1",), confidence=30)


def test_an_accepted_doubt_can_be_built_on() -> None:
    """An answer of low confidence becomes partial: all of it is kept, the spend too, and the doubt is a gap."""
    escalation = Escalation(
        reason="confidence_too_low",
        message="Two grants.",
        content="Perhaps three months.",
        findings=(FINDING,),
        sources=(SOURCE,),
        confidence=30,
        gaps=("costs",),
        spend=SPEND,
    )

    assert accept(escalation) == Partial(
        reason="confidence_too_low",
        content="Perhaps three months.",
        findings=(FINDING,),
        sources=(SOURCE,),
        confidence=30,
        gaps=("costs", "The agent returned this as unfinished (confidence too low). Two grants."),
        spend=SPEND,
    )


def test_what_holds_no_doubtful_answer_is_accepted_as_it_is() -> None:
    """Good ends stay what they are, and nothing is made of a question back or of nothing."""
    for outcome in (Success(content="So."), Partial(), NO_ANSWER, AMBIGUOUS, CLUELESS):
        assert accept(outcome) == outcome


def test_a_lost_subtask_hands_on_the_surest_answer_that_it_had() -> None:
    """I07: an earlier answer is not lost to a later failure; of equally sure ones the later counts."""
    first = Escalation(reason="confidence_too_low", content="Two.", confidence=30)
    second = Escalation(reason="too_big", content="Three.", confidence=30)

    assert best_of([first, NO_ANSWER]) == accept(first)
    assert best_of([first, second, NO_ANSWER]) == accept(second)
    assert best_of([UNSURE, Partial(content="Four.", confidence=10)]) == Partial(content="Four.", confidence=10)


def test_without_an_answer_the_last_end_is_handed_on() -> None:
    """A question back and a failure hold no answer; the last word stands."""
    assert best_of([NO_ANSWER, AMBIGUOUS]) == AMBIGUOUS
    assert best_of([AMBIGUOUS, NO_ANSWER]) == NO_ANSWER


def node(name: str, after: tuple[str, ...] = (), required: tuple[str, ...] = ()) -> Subtask:
    return Subtask(id=name, agent="reader", instruction=f"Find out {name}", depends_on=after, required=required)


def test_only_a_required_input_takes_its_dependents_with_it() -> None:
    """What the plan does not mark as required is a gap; what it does is a reason to skip, and is named."""
    cases: list[tuple[tuple[str, ...], str | None]] = [
        ((), None),
        (("T2",), None),
        (("T1", "T2"), "It requires T1, which failed."),
        (("T1", "T2", "T3"), "It requires T1, T3, which failed."),
    ]
    for required, message in cases:
        outcomes: Mapping[str, Outcome] = {"T1": NO_ANSWER, "T2": Partial(), "T3": TOO_BIG}
        refusal = skip_reason(node("T4", after=("T1", "T2", "T3"), required=required), outcomes)
        assert refusal == (None if message is None else Failure(reason="skipped", message=message))


RECOVERY_PAGE = Path(__file__).parents[3] / "docs" / "recovery.md"


def test_the_page_has_every_row() -> None:
    """Each way to end is in the page's table exactly once, with the steps of the table in their order."""
    lines = RECOVERY_PAGE.read_text(encoding="utf-8").partition("## Outcomes of a subtask")[2].splitlines()
    rows = [line.split("|")[1:3] for line in lines if line.startswith("| ")][1:]

    written: dict[str, str] = {}
    for names, steps in rows:
        kind, *reasons = names.split()
        written |= {f"{kind} {reason.strip(',`')}".strip(): steps.strip() for reason in reasons or [""]}
    assert sorted(written) == sorted(TABLE)
    for name, steps in TABLE.items():
        places = [written[name].find(step.words) for step in steps]
        assert -1 not in places, name
        assert places == sorted(places), name
