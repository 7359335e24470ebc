"""What a session and an agent know, and what may happen to it: data, tested without Temporal."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from activities.contracts.cards import AgentCard, CrewCard
from activities.contracts.model import ModelCard, PriceStep
from activities.contracts.session import SessionFacts, SessionTerms
from activities.turn.contracts import TurnResult
from chargehand.contracts import (
    Delegation,
    Failure,
    Limits,
    Plan,
    PlanDecision,
    Question,
    RaisedLimits,
    SessionRequest,
    SpendLine,
    Subtask,
    Success,
    Tier,
    Usage,
)
from workflows.budget.ledger import Amount
from workflows.budget.spending import Spending
from workflows.contracts import LimitUsage, SpendingState, SubtaskRequest, SupervisorState
from workflows.mailbox.contracts import SteeringItem
from workflows.mailbox.mailbox import Mailbox
from workflows.rules.refusal import Refused
from workflows.state.agent import AgentWork
from workflows.state.clock import Clock
from workflows.state.progress import Progress
from workflows.state.session import Session

START = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
PRICES = (PriceStep(above_input_tokens=0, input_usd_per_million=Decimal(1), output_usd_per_million=Decimal(5)),)
MODEL = ModelCard(provider="p", name="m", prices=PRICES)
READER = AgentCard(name="reader", tools=("read_document",), tier=Tier.SMALL, prompt_bytes=1_000)
CREW = CrewCard(name="desk", tier=Tier.SMALL, agents=(READER,), prompt_bytes=1_000)
T1 = Subtask(id="T1", agent="reader", instruction="Find the notice")
T2 = Subtask(id="T2", agent="reader", instruction="Find the price")
NESTED = Delegation(session="root", run="r", depth=1, ancestors=(), deadline_at=START + timedelta(minutes=5))


def session(request: Mapping[str, Any] | None = None, **limits: Any) -> Session:
    """Open the state of a session."""
    terms = Limits(max_turns=20, budget_usd=Decimal(2), **limits)
    facts = SessionFacts(
        crew=CREW, models=dict.fromkeys(Tier, MODEL), terms=SessionTerms(limits=terms), ceilings=Limits(max_turns=40)
    )
    opened = Session(
        id="s",
        run="r",
        original=SessionRequest(goal="Settle it.", **(request or {})),
        facts=facts,
        progress=Progress("s"),
        clock=Clock(START, START + timedelta(minutes=10)),
        spending=Spending(SpendingState(granted_turns=20, granted_usd=Decimal(2))),
        mailbox=Mailbox("s"),
        was_reset=False,
    )
    opened.progress.open(opened.ledger, opened.clock)
    opened.progress.adopt(Plan(subtasks=(T1, T2)))
    return opened


def spend(spending: Spending, usd: str, *, wasted: bool = False) -> None:
    """Take a turn that costs so much."""
    reservation = spending.ledger.reserve(Amount(1, Decimal("0.5")))
    assert reservation is not None
    line = SpendLine(agent="reader", model="m", purpose="work", usage=Usage(turns=1, cost_usd=Decimal(usd)))
    spending.settle(reservation, line, wasted=wasted)


def test_a_session_goes_on_from_its_state_as_it_was() -> None:
    """What a run hands on is JSON, and the next run hands on the same."""
    before = session()
    before.progress.record_child("s/reader/1")
    before.progress.count_use(LimitUsage(parallel=2, rounds=3))
    before.progress.end("T1", Success(content="In March.", confidence=80), START)
    spend(before.spending, "0.25", wasted=True)

    handed_on = SupervisorState.model_validate_json(before.state().model_dump_json())
    after = session()
    after.progress.resume(handed_on.progress)

    assert after.progress.snapshot() == before.progress.snapshot()
    assert Spending(handed_on.spending).state() == before.spending.state()
    assert (before.progress.has_moved, after.progress.has_moved) == (True, False)


def test_an_overcharged_session_stops_unless_its_limits_can_be_raised() -> None:
    """Nothing more is started beyond the budget; a session that pauses, or has a parent, gets more instead."""
    stopped, pausing, nested = session(), session(on_limit="pause"), session({"delegation": NESTED})
    for each in (stopped, pausing, nested):
        spend(each.spending, "2.01")
        each.stop_if_overcharged()

    assert [each.clock.work_is_over for each in (stopped, pausing, nested)] == [True, False, False]
    assert stopped.clock.stop_reason == "overcharged"
    assert len(stopped.progress.gaps) == 1


@pytest.mark.parametrize(
    ("raised", "problem"),
    [
        (RaisedLimits(max_turns=20), "max_turns: 20 is not more than the present 20"),
        (RaisedLimits(max_turns=41), "max_turns: 41 is above this installation's ceiling of 40"),
        (RaisedLimits(deadline=timedelta(minutes=12)), "after which the server ends this session"),
    ],
)
def test_limits_are_raised_only_as_far_as_they_can_be(raised: RaisedLimits, problem: str) -> None:
    """Higher than before, within the operator's ceilings, and within what the server allows."""
    with pytest.raises(Refused, match=problem):
        session().check_raised(raised, timedelta(minutes=12))


def test_raised_limits_are_granted() -> None:
    """The ledger has more, and the deadline is later."""
    raised = session()

    raised.raise_limits(RaisedLimits(max_turns=25, deadline=timedelta(minutes=15)))

    assert raised.ledger.granted == Amount(25, Decimal(2))
    assert raised.clock.deadline_at == START + timedelta(minutes=15)


def test_time_in_a_queue_is_not_the_sessions() -> None:
    """A clock that is delayed keeps its length."""
    clock = Clock(START, START + timedelta(minutes=10))

    clock.delay(timedelta(hours=1))

    assert (clock.started_at, clock.deadline_at) == (START + timedelta(hours=1), START + timedelta(minutes=70))


def test_a_session_is_changed_only_while_it_works() -> None:
    """Once the report is due, or written, a change comes too late."""
    open_, due, over = session().progress, session(), session().progress
    due.clock.ring()
    over.enter("synthesising")

    open_.refuse_if_over()
    for late in (due.progress, over):
        with pytest.raises(Refused, match="can no longer be changed"):
            late.refuse_if_over()


def test_one_decision_is_taken_about_a_plan() -> None:
    """Another is refused as soon as one has come, until that one proves unusable."""
    progress = session().progress
    progress.enter("awaiting_approval")
    progress.check_decision()
    progress.receive_decision()
    with pytest.raises(Refused, match="not awaiting approval"):
        progress.check_decision()
    progress.receive_decision(is_received=False)
    progress.check_decision()

    assert progress.decide(PlanDecision(decision="approve")) == progress.plan


def test_one_answer_is_taken_to_a_question() -> None:
    """Another is refused as soon as one has come, and so is an answer to what was not asked."""
    progress = session().progress
    progress.ask(Question(subtask="T1", agent="reader", text="Which year?", open_until=START))
    progress.check_answer("T1")
    progress.receive_answer("T1")

    for subtask in ("T1", "T2"):
        with pytest.raises(Refused, match="has no open question"):
            progress.check_answer(subtask)


def test_a_template_gets_what_is_left_beside_others() -> None:
    """Of the turns and dollars that are left, what is kept for others is not given to its items."""
    template = Subtask(id="T3", agent="reader", instruction="Each", for_each="T1")
    opened = session()
    least = opened.least_grant("reader")

    assert opened.items_beside(template, Amount()) == min(20 // least.turns, int(2 / least.usd))
    assert opened.items_beside(template, Amount(20)) == 0
    assert opened.least_of_waiting() == least + least


def work(**changes: Any) -> AgentWork:
    """Give an agent a subtask."""
    request = SubtaskRequest(
        session="s",
        goal="g",
        crew="desk",
        subtask=T1,
        agent=READER,
        model=MODEL,
        turns=5,
        usd=Decimal(1),
        max_rounds=3,
        deadline=timedelta(minutes=10),
    )
    return AgentWork(request.model_copy(update=changes), Mailbox("s/reader/1"), START)


def reply(**values: Any) -> TurnResult:
    """Reply to a turn."""
    return TurnResult.model_validate(
        {"stop": "answer", "usage": Usage(turns=1), "provider": "p", "model": "m"} | values
    )


def test_an_agent_must_answer_in_its_last_round_and_its_last_minutes() -> None:
    """The last round, and the last fifth of its time."""
    agent = work()

    assert [bool(agent.why_last(number, START)) for number in (1, 2, 3)] == [False, False, True]
    assert [bool(agent.why_last(1, START + timedelta(minutes=minutes))) for minutes in (8, 9)] == [False, True]


def test_an_unusable_reply_is_corrected_once_and_a_refusal_never() -> None:
    """The complaint is a round of the conversation; after the last one the work ends."""
    agent = work()

    assert [agent.correct(reply(stop="empty")) for _ in range(2)] == [True, False]
    assert [each.correction for each in agent.conversation.rounds] == ["it was empty"]
    assert not work().correct(reply(stop="refused"))


def test_an_answer_is_kept_in_case_no_other_follows() -> None:
    """What a person wrote after it counts as unread then."""
    agent = work()
    answer = Success(content="In March.", confidence=80)
    agent.inbox.receive(SteeringItem(number=1, text="And the price?"))
    agent.keep_answer(answer, reply())
    agent.begin_round(2)
    agent.inbox.confirm()

    assert agent.inbox.read == (1,)
    assert agent.unfinished_outcome("out_of_rounds", "No answer.", START) == answer
    assert agent.inbox.read == ()


def test_an_agent_without_anything_fails_with_the_reason() -> None:
    """Nothing noted and nothing read is a failure, with what came in between."""
    assert work().unfinished_outcome("empty", "It was empty.", START) == Failure(
        reason="empty", message="It was empty."
    )


def test_an_agent_goes_on_from_its_state_as_it_was() -> None:
    """What a run hands on, the next run hands on too."""
    agent = work()
    agent.begin_round(2)
    agent.correct(reply(stop="empty"))
    agent.inbox.receive(SteeringItem(number=1, text="Look in the annex."))
    spend(agent.spending, "0.25")

    before = agent.state(START)
    later = START + timedelta(minutes=1)
    after = AgentWork(agent.request.model_copy(update={"state": before}), Mailbox("s/reader/1"), later)

    assert after.state(later) == before
