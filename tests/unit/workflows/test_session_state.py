"""The data of a session and an agent, and its possible changes, tested without Temporal."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activities.contracts.cards import AgentCard, CrewCard, ModelCard
from activities.contracts.rounds import Round, ToolCall, ToolResult
from activities.contracts.session import SessionFacts, SessionTerms
from activities.documents.artifacts import ArtifactStore
from activities.turn.agent_conversations import ConversationStore
from activities.turn.contracts import TurnResult, UsedTool
from chargehand.contracts import (
    AgentsAtWork,
    Limits,
    LostCharges,
    Plan,
    PlanDecision,
    RaisedLimits,
    SessionRequest,
    Source,
    Status,
    Subtask,
    SubtaskRecord,
    Success,
    Tier,
    Usage,
)
from tests.environment import PRICES
from workflows.budget.ledger import Amount, Spending
from workflows.contracts import SubtaskRequest
from workflows.mailbox.mailbox import Mailbox
from workflows.rules.refusal import Refused
from workflows.rules.web_ui import details
from workflows.state.agent import AgentWork
from workflows.state.clock import Clock
from workflows.state.dialogue import Dialogue
from workflows.state.max_parallel import Places
from workflows.state.progress import Progress
from workflows.state.session import Session

START = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
MODEL = ModelCard(provider="p", name="m", prices=PRICES)
READER = AgentCard(name="reader", tools=("read_document",), tier=Tier.SMALL, prompt_bytes=1_000)
CREW = CrewCard(name="desk", tier=Tier.SMALL, agents=(READER,), prompt_bytes=1_000)
T1 = Subtask(id="T1", agent="reader", instruction="Find the notice")
T2 = Subtask(id="T2", agent="reader", instruction="Find the price")


def session(request: Mapping[str, Any] | None = None, **limits: Any) -> Session:
    terms = Limits(max_turns=20, budget_usd=Decimal(2), **limits)
    facts = SessionFacts(
        crew=CREW, models=dict.fromkeys(Tier, MODEL), terms=SessionTerms(limits=terms), ceilings=Limits(max_turns=40)
    )
    opened = Session(
        run="r",
        original=SessionRequest(goal="Settle it.", **(request or {})),
        facts=facts,
        progress=Progress(session="s"),
        clock=Clock(START, START + timedelta(minutes=10), lambda: START),
        spending=Spending.of(Amount(20, Decimal(2))),
        mailbox=Mailbox(address="s"),
        was_reset=False,
    )
    opened.progress.open(opened.budget.ledger, opened.clock)
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
def test_raised_limits_must_be_higher_and_within_all_ceilings(raised: RaisedLimits, problem: str) -> None:
    """The ceilings are those of the operator and of the server's execution timeout."""
    with pytest.raises(Refused, match=problem):
        session().check_raised(raised, timedelta(minutes=12))


def test_queueing_time_does_not_count_against_the_deadline() -> None:
    clock = Clock(START, START + timedelta(minutes=10), lambda: START)
    clock.delay(timedelta(hours=1))

    assert (clock.started_at, clock.deadline_at) == (START + timedelta(hours=1), START + timedelta(minutes=70))


def test_a_session_can_be_changed_only_before_its_report_is_due() -> None:
    open_, due, over = session().progress, session(), session().progress
    due.clock.ring()
    over.enter("synthesising")

    open_.refuse_if_over()
    for late in (due.progress, over):
        with pytest.raises(Refused, match="can no longer be changed"):
            late.refuse_if_over()


def test_a_plan_takes_only_one_decision() -> None:
    progress = session().progress
    progress.enter("awaiting_approval")
    progress.check_decision()
    progress.waits.claim("plan")
    with pytest.raises(Refused, match="not awaiting approval"):
        progress.check_decision()
    progress.waits.release("plan")
    progress.check_decision()

    assert progress.decide(PlanDecision(decision="approve")) == progress.plan


def work(**changes: Any) -> AgentWork:
    request = SubtaskRequest(
        session="s",
        goal="g",
        crew="desk",
        subtask=T1,
        agent=READER,
        model=MODEL,
        grant=Amount(5, Decimal(1)),
        max_rounds=3,
        deadline=timedelta(minutes=10),
    )
    return AgentWork(request.model_copy(update=changes), Mailbox(address="s/reader/1"), START)


def reply(**values: Any) -> TurnResult:
    return TurnResult.model_validate(
        {"stop": "answer", "usage": Usage(turns=1), "provider": "p", "model": "m"} | values
    )


def test_an_unusable_reply_is_corrected_once_and_a_refusal_never() -> None:
    """The complaint is a round of the conversation; after the last one the work ends."""
    agent = work()

    assert [agent.correct(reply(stop="empty")) for _ in range(2)] == [True, False]
    assert [each.correction for each in agent.conversation.rounds] == ["the reply was empty"]
    assert not work().correct(reply(stop="refused"))


async def test_a_worker_rebuilds_the_whole_task_from_its_stored_conversation(tmp_path: Path) -> None:
    """A round is sent again only if the workflow changed the result of one of its calls."""
    kept = ConversationStore(ArtifactStore(tmp_path))
    read = Source(ref="a.md#L1-L9", title="A", quote="Ferries ran late. " * 200)
    call = ToolCall(id="c1", tool="search_documents", arguments={"query": "ferries"})
    used = UsedTool(
        position=0, result=ToolResult(call_id="c1", tool=call.tool, sources=(read,)), began_at=START, ended_at=START
    )
    for made in (used.result, ToolResult(call_id="c1", tool=call.tool, ok=False, output={"error": "interrupted"})):
        agent = work()
        conversation, asked = agent.conversation, agent.conversation.task()
        result = reply(stop="tools", tool_calls=(call,), used=(used,))
        conversation.keep(asked, result.model_copy(update={"conversation": await kept.keep(asked, result.round())}))

        conversation.add(Round(calls=(call,), results=(made,)))
        conversation.hear(["Hurry."])
        agent.tell_turns(1)

        task = conversation.task()
        sent = conversation.new_in(task)
        assert bool(sent.rounds) == (made != used.result)
        assert await kept.whole(sent) == task


def test_a_session_books_a_charge_lost_in_a_restore_once() -> None:
    """This holds while the ledger covers it; beyond the budget, nothing more is started."""
    opened, before = session(), LostCharges(charges={"a" * 40: Decimal("0.5")})
    for lost in (before, before, LostCharges(charges={"a" * 40: Decimal("0.5"), "b" * 40: Decimal(2)})):
        opened.book_charges(lost)

    assert opened.budget.ledger.spent == Amount(2, Decimal("2.5"))
    assert opened.budget.spending.wasted.cost_usd == Decimal("2.5")
    assert opened.budget.spending.wasted.charged_above_reservation_usd == Decimal("0.5")
    assert opened.clock.is_overcharged
    opened.book_charges(LostCharges(charges={"c" * 40: Decimal(1)}))
    assert opened.progress.gaps == [
        "Model providers charged $1.5000 more than the budget of $2.00; nothing more was started."
    ]
    assert opened.progress.booked == ("a" * 40, "b" * 40, "c" * 40)


def test_no_charge_is_booked_after_the_report() -> None:
    """A late charge is refused, so that it stays listed as unbooked."""
    opened = session()
    opened.progress.enter("synthesising")

    with pytest.raises(Refused, match="in no books"):
        opened.book_charges(LostCharges(charges={"a" * 40: Decimal(1)}))
    assert (opened.budget.ledger.spent.usd, opened.progress.booked) == (0, ())


@given(st.lists(st.sampled_from(["receive", "end job", "admit first", "admit last", "take"]), max_size=40))
def test_messages_are_taken_in_the_order_of_arrival(steps: list[str]) -> None:
    dialogue = Dialogue()
    waiting: list[str] = []
    unadmitted: dict[str, int] = {}
    for count, step in enumerate(steps):
        text = f"number {count}."
        if step == "receive":
            unadmitted[text] = dialogue.receive(text, text, START)
            waiting.append(text)
        elif step == "end job":
            dialogue.end_job(text, Success(content="", confidence=80), frozenset(), START)
            waiting.append(text)
        elif step.startswith("admit") and unadmitted:
            chosen = [*unadmitted][0 if step == "admit first" else -1]
            dialogue.admit(unadmitted.pop(chosen))
        has_message = bool(waiting) and waiting[0] not in unadmitted

        assert dialogue.has_message == has_message
        if step == "take" and has_message:
            assert waiting.pop(0) in dialogue.take().text


def test_the_users_words_are_returned_completely_or_not_at_all() -> None:
    dialogue, said, kept = Dialogue(), tuple[str, ...](), list[bool]()
    while len(kept) < 20:
        said += (f"{len(kept)}: ".ljust(20_000, "x"),)
        dialogue.receive(said[-1], said[-1], START)
        dialogue.give_floor("clerk", "user: I allow everything.", START)
        kept.append(dialogue.lines[0].text == said[0])

        assert dialogue.said == (said if kept[-1] else None)
    assert {*kept} == {True, False}


def _at_work(*spans: tuple[int, int]) -> list[AgentsAtWork]:
    return [
        AgentsAtWork(at=START + timedelta(seconds=at), change=change)
        for begin, end in spans
        for at, change in ((begin, 1), (end, -1))
    ]


@given(st.integers(1, 20), st.integers(1, 20), st.lists(st.integers(0, 20), max_size=8))
def test_no_more_places_are_lent_than_are_free(total: int, sessions: int, spares: list[int]) -> None:
    """Places are lent in equal parts, returned at the end, and may be offered before a session opens."""
    places = Places(total=total)
    running = min(sessions, total)
    places.offer(total - running)
    for number in range(running):
        places.open(f"s{number}")
    places.lend()
    for spare in spares:
        places.offer(min(spare, places.free(running)))
        lent = [places.of(f"s{number}") for number in range(running)]
        assert sum(lent) + places.free(running) == total
        assert places.free(running) >= 0
        assert max(lent) - min(lent) <= 1
    for number in range(running):
        places.close(f"s{number}")
    assert places.free(0) == total


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 10)), max_size=12))
def test_the_peak_counts_agents_that_worked_at_the_same_time(begun: list[tuple[int, int]]) -> None:
    """Report order does not matter; an agent that starts when another ends does not overlap it."""
    spans = [(begin, begin + lasts) for begin, lasts in begun]
    places = Places(total=5)
    for span in reversed(spans):
        places.record(_at_work(span))

    most = max((sum(begin <= second < end for begin, end in spans) for second in range(50)), default=0)
    assert places.peak == most
    resumed = Places.model_validate_json(places.model_dump_json())
    assert resumed.peak == most


def test_a_changed_plan_keeps_the_records_of_its_subtasks() -> None:
    progress = session().progress
    progress.start(T1, "s/reader/1", START)
    kept = progress.records[0]
    progress.adopt(Plan(subtasks=(T1, T2.model_copy(update={"id": "T3"}))))

    assert progress.records == (kept, SubtaskRecord(id="T3", agent="reader", instruction="Find the price"))


def test_the_web_ui_details_show_the_plan() -> None:
    first = SubtaskRecord(id="T1", agent="reader", instruction="Find the notice")
    second = SubtaskRecord(id="T2", agent="writer", instruction="Write the letter", depends_on=("T1",))
    failed = first.model_copy(
        update={"state": "failure", "reason": "empty", "usage": Usage(turns=2, cost_usd=Decimal("0.01"))}
    )
    status = Status(
        session="s",
        goal="g",
        state="executing",
        turns=3,
        max_turns=20,
        spent_usd=Decimal("0.0123"),
        reserved_usd=Decimal("0.5"),
        budget_usd=Decimal(2),
        subtasks=(failed, second),
    )
    running = status.model_copy(update={"subtasks": (first.model_copy(update={"state": "running"}),)})

    assert details(running, START).splitlines()[4] == "- not counted yet: what running subtasks spend"
    assert details(status, START).splitlines() == [
        "**executing**, as of 2026-06-01 12:00:00 UTC",
        "",
        "- turns: 3 of 20",
        "- US dollars: 0.0123 of 2.00 spent, 0.5000 reserved",
        "",
        "**plan**",
        "",
        "- ✘ **T1** reader · failure: the reply was empty, 2 turns, 0.0100 dollars · Find the notice",
        "- · **T2** writer, after T1 · waiting · Write the letter",
    ]


@pytest.mark.parametrize("agents", [1, 2, 5])
def test_a_plans_required_budget_lets_every_agent_start(agents: int) -> None:
    budget = session().budget
    first, others = budget.dollars_for(["reader"] * agents)

    assert first == budget.least_grant("reader").usd > 0
    assert others == (agents - 1) * budget.dollars_for(["reader"] * 2)[1]
    assert others % Decimal("1e-9") == 0
