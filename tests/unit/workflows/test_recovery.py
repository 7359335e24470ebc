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
from workflows.rules.recovery import HOPELESS, TABLE, Action, Attempts, Means, accept, best_of, has_answer, next_action

ALL = Means(max_attempts=3, fallback="researcher", stronger=Tier.LARGE, may_nest=True, may_ask=True, can_pay=True)
NONE = Means(max_attempts=3)
NO_ANSWER = Failure(reason="no_answer")
AMBIGUOUS = Escalation(reason="ambiguous_input", content="Which Harald?")
UNSURE = Escalation(reason="confidence_too_low", content="Perhaps three months.", confidence=30)
CLUELESS = Escalation(reason="confidence_too_low")
TIMEOUT = Escalation(reason="timeout")
TOO_BIG = Escalation(reason="too_big")


def after(attempts: Attempts, action: Action) -> Attempts:
    """Note an action without effect."""
    return replace(attempts, done=attempts.done | {action})


def again(attempts: Attempts, action: Action, means: Means) -> Attempts:
    """Note an action with the attempt that it leads to."""
    agents = (*attempts.agents, str(means.fallback)) if action is Action.FALLBACK else attempts.agents
    return replace(after(attempts, action), made=attempts.made + 1, agents=agents)


def taken(outcome: Outcome, means: Means, attempts: Attempts | None = None) -> list[Action]:
    """Take the table's actions until none is left, each attempt ending like the one before."""
    attempts = attempts or Attempts(agents=("reader",))
    actions: list[Action] = []
    while not actions or actions[-1] not in {Action.ACCEPT, Action.GIVE_UP}:
        action = next_action(outcome, attempts, means)
        attempts = after(attempts, action) if action is Action.JUDGE else again(attempts, action, means)
        actions.append(action)
    return actions


def test_each_kind_of_outcome_has_its_order_of_recovery_actions() -> None:
    cases: list[tuple[Outcome, list[Action], list[Action]]] = [
        (Success(), [Action.ACCEPT], [Action.ACCEPT]),
        (Partial(gaps=("costs",)), [Action.ACCEPT], [Action.ACCEPT]),
        (NO_ANSWER, [Action.REFINE, Action.FALLBACK, Action.GIVE_UP], [Action.REFINE, Action.GIVE_UP]),
        (AMBIGUOUS, [Action.ASK, Action.REFINE, Action.GIVE_UP], [Action.REFINE, Action.GIVE_UP]),
        (Escalation(reason="out_of_scope"), [Action.FALLBACK, Action.GIVE_UP], [Action.GIVE_UP]),
        (UNSURE, [Action.STRONGER, Action.JUDGE, Action.ACCEPT], [Action.ACCEPT]),
        (CLUELESS, [Action.STRONGER, Action.GIVE_UP], [Action.GIVE_UP]),
        (TIMEOUT, [Action.SPLIT, Action.GIVE_UP], [Action.GIVE_UP]),
        (TOO_BIG, [Action.SPLIT, Action.GIVE_UP], [Action.GIVE_UP]),
    ]

    for outcome, with_all_means, without in cases:
        assert (taken(outcome, ALL), taken(outcome, NONE)) == (with_all_means, without)


def test_failures_that_no_attempt_can_fix_are_given_up_at_once() -> None:
    for reason in get_args(FailureReason):
        tried = taken(Failure(reason=reason), ALL)[:2]
        assert tried == ([Action.GIVE_UP] if reason in HOPELESS else [Action.REFINE, Action.FALLBACK])


def test_a_declined_refinement_does_not_use_up_an_attempt() -> None:
    """If no other instruction would help, the fallback agent is next, even with a single attempt left."""
    attempts = after(Attempts(agents=("reader",)), Action.REFINE)

    assert taken(NO_ANSWER, replace(ALL, max_attempts=2), attempts)[0] is Action.FALLBACK


def test_a_failed_nested_session_is_not_recovered_again() -> None:
    """After a split, the nested session has already refined and fallen back itself."""
    attempts = again(Attempts(agents=("reader",)), Action.SPLIT, ALL)

    assert next_action(NO_ANSWER, attempts, ALL) is Action.GIVE_UP


def test_existing_answers_are_accepted_when_no_attempt_is_left() -> None:
    upgraded = frozenset({Action.STRONGER})
    attempts = Attempts(made=3, agents=("reader",), done=upgraded)

    assert taken(UNSURE, ALL, attempts) == [Action.JUDGE, Action.ACCEPT]
    assert taken(UNSURE, ALL, Attempts(made=3)) == [Action.ACCEPT]
    assert next_action(UNSURE, Attempts(done=upgraded), replace(ALL, can_pay=False)) is Action.ACCEPT


CONTENT = st.sampled_from(["", "So."])
BAD_ENDS: st.SearchStrategy[Outcome] = contracts(Failure) | contracts(Escalation, CONTENT)
OUTCOMES: st.SearchStrategy[Outcome] = contracts(Success, CONTENT) | contracts(Partial, CONTENT) | BAD_ENDS
AGENTS = st.sampled_from(["reader", "researcher", "analyst"])
ATTEMPTS = st.builds(
    Attempts,
    made=st.integers(1, 12),
    agents=st.lists(AGENTS, max_size=3, unique=True).map(tuple),
    done=st.frozensets(st.sampled_from(Action)),
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


@settings(max_examples=2 * settings().max_examples)
@given(outcome=OUTCOMES, attempts=ATTEMPTS, means=MEANS)
def test_no_recovery_action_exceeds_its_means(outcome: Outcome, attempts: Attempts, means: Means) -> None:
    action = next_action(outcome, attempts, means)

    match action:
        case Action.ACCEPT:
            assert outcome.kind in {"success", "partial"} or has_answer(outcome)
        case Action.GIVE_UP:
            assert outcome.kind in {"failure", "escalation"}
        case Action.JUDGE:
            assert means.can_pay
            assert Action.STRONGER in attempts.done
            assert action not in attempts.done
        case _:
            assert means.can_pay
            assert attempts.made < means.max_attempts
            assert again(attempts, action, means) != replace(attempts, made=attempts.made + 1)
            allowed: Mapping[Action, bool] = {
                Action.REFINE: action not in attempts.done,
                Action.FALLBACK: means.fallback is not None and means.fallback not in attempts.agents,
                Action.STRONGER: means.stronger is not None and action not in attempts.done,
                Action.SPLIT: means.may_nest and action not in attempts.done,
                Action.ASK: means.may_ask and action not in attempts.done,
            }
            assert allowed[action]


@given(data=st.data(), attempts=ATTEMPTS, max_attempts=st.integers(1, 10))
def test_recovery_always_terminates(data: st.DataObject, attempts: Attempts, max_attempts: int) -> None:
    """I20: from any state and with any outcomes, a subtask ends within its attempts plus two steps."""
    outcome = data.draw(BAD_ENDS)
    steps = 0
    action: Action | None = None
    while action not in {Action.ACCEPT, Action.GIVE_UP}:
        drawn = data.draw(MEANS)
        means = Means(max_attempts, drawn.fallback, drawn.stronger, drawn.may_nest, drawn.may_ask, drawn.can_pay)
        action = next_action(outcome, attempts, means)
        steps += 1
        may_come_to_nothing = action in {Action.REFINE, Action.ASK}
        if action is Action.JUDGE or (may_come_to_nothing and data.draw(st.booleans())):
            attempts = after(attempts, action)
        else:
            outcome = data.draw(BAD_ENDS)
            attempts = again(attempts, action, means)

        assert steps <= max_attempts + 2


SPEND = (SpendLine(agent="reader", model="m", purpose="work", usage=Usage(turns=2, cost_usd=Decimal("0.01"))),)
SOURCE = Source(ref="a.md#L1", quote="three months")
FINDING = Finding(claim="Notice is 3 months.", sources=("a.md#L1",), confidence=30)


def test_an_accepted_low_confidence_answer_becomes_partial() -> None:
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
        gaps=("costs", "The agent returned this as unfinished (the agent is not sure enough). Two grants."),
        spend=SPEND,
    )


def test_outcomes_without_a_doubtful_answer_are_accepted_unchanged() -> None:
    for outcome in (Success(content="So."), Partial(), NO_ANSWER, AMBIGUOUS, CLUELESS):
        assert accept(outcome) == outcome


def test_a_failed_subtask_passes_on_its_most_confident_answer() -> None:
    """I07: a later failure does not lose an earlier answer; of equally confident ones the later counts."""
    first = Escalation(reason="confidence_too_low", content="Two.", confidence=30)
    second = Escalation(reason="too_big", content="Three.", confidence=30)

    assert best_of([first, NO_ANSWER]) == accept(first)
    assert best_of([first, second, NO_ANSWER]) == accept(second)
    assert best_of([UNSURE, Partial(content="Four.", confidence=10)]) == Partial(content="Four.", confidence=10)


def node(name: str, after: tuple[str, ...] = (), required: tuple[str, ...] = ()) -> Subtask:
    return Subtask(id=name, agent="reader", instruction=f"Find out {name}", depends_on=after, required=required)


def test_only_a_failed_required_input_skips_a_subtask() -> None:
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


def test_the_recovery_page_lists_every_outcome_with_its_steps() -> None:
    lines = RECOVERY_PAGE.read_text(encoding="utf-8").partition("## Outcomes of a subtask")[2].splitlines()
    rows = [line.split("|")[1:3] for line in lines if line.startswith("| ")][1:]

    written: dict[str, str] = {}
    for names, steps in rows:
        kind, *reasons = names.split()
        written |= {f"{kind} {reason.strip(',`')}".strip(): steps.strip() for reason in reasons or [""]}
    assert sorted(written) == sorted(TABLE)
    for name, steps in TABLE.items():
        places = [written[name].find(step.value) for step in steps]
        assert -1 not in places, name
        assert places == sorted(places), name
