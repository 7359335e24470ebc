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
    Limits,
    LostCharges,
    Plan,
    PlanDecision,
    RaisedLimits,
    SessionRequest,
    Subtask,
    Tier,
    Usage,
)
from workflows.budget.ledger import Amount
from workflows.budget.spending import Spending
from workflows.contracts import SpendingState, SubtaskRequest
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
        progress=Progress(session="s"),
        clock=Clock(START, START + timedelta(minutes=10), lambda: START),
        spending=Spending(SpendingState(granted_turns=20, granted_usd=Decimal(2))),
        mailbox=Mailbox("s"),
        was_reset=False,
    )
    opened.progress.open(opened.ledger, opened.clock)
    opened.progress.adopt(Plan(subtasks=(T1, T2)))
    return opened


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


def test_time_in_a_queue_is_not_the_sessions() -> None:
    """A clock that is delayed keeps its length."""
    clock = Clock(START, START + timedelta(minutes=10), lambda: START)

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


def test_an_unusable_reply_is_corrected_once_and_a_refusal_never() -> None:
    """The complaint is a round of the conversation; after the last one the work ends."""
    agent = work()

    assert [agent.correct(reply(stop="empty")) for _ in range(2)] == [True, False]
    assert [each.correction for each in agent.conversation.rounds] == ["it was empty"]
    assert not work().correct(reply(stop="refused"))


def test_a_charge_that_a_restore_has_forgotten_is_booked_once() -> None:
    """Whatever the ledger still covers: the budget is spent then, and nothing more is started."""
    opened, before = session(), LostCharges(charges={"a" * 40: Decimal("0.5")})

    for lost in (before, before, LostCharges(charges={"a" * 40: Decimal("0.5"), "b" * 40: Decimal(2)})):
        opened.book_charges(lost)

    assert opened.ledger.spent == Amount(2, Decimal("2.5"))
    assert opened.spending.wasted.cost_usd == Decimal("2.5")
    assert opened.spending.wasted.charged_above_reservation_usd == Decimal("0.5")
    assert opened.clock.is_overcharged
    opened.book_charges(LostCharges(charges={"c" * 40: Decimal(1)}))
    assert opened.progress.gaps == [
        "Model providers charged $1.5000 more than the budget of $2.00; nothing more was started."
    ]
    assert opened.progress.booked == ("a" * 40, "b" * 40, "c" * 40)
