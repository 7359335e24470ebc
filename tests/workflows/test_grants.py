"""Limits over the whole tree, and grants: what children are lent, ask for, and give back."""

import re
from decimal import Decimal
from itertools import cycle

import pytest
from pydantic import BaseModel

from activities.turn_kinds.work import WorkTask
from chargehand.contracts import Limits, SessionRequest
from chargehand.errors import SessionFailed
from chargehand.wire import SignalName
from tests.scripted_model import (
    COST,
    Held,
    Script,
    Turn,
    answer,
    keep_using,
    most_expensive,
    plan,
    reply,
    report,
    subtask,
    topics,
    use,
)
from tests.workflows.conftest import OpenEnvironment, RunSession

GOAL = SessionRequest(goal="What do the documents say about the topics?", review="never")


def limited(**limits: object) -> SessionRequest:
    return GOAL.model_copy(update={"limits": Limits.model_validate(limits)})


async def test_a_subtask_that_needs_more_turns_borrows_from_its_session(forgetful: OpenEnvironment) -> None:
    """An agent that needs nine turns has a share of six, and gets the rest of a sibling that answered at once."""
    searching = (use("search_documents", about=number) for number in range(8))
    script = Script().plan(*topics(2)).work("T1", *searching, answer("Found at last.")).work("T2", answer("Known."))
    async with forgetful(script.synthesis(report("Found at last."))) as opened:
        result = await opened.run(limited(max_turns=14))

    assert result.answer == "Found at last."
    assert result.usage.turns == 1 + 9 + 1 + 1
    assert not any(task.must_answer for task in opened.model.tasks(WorkTask))


@pytest.mark.parametrize(
    ("child", "turns"),
    [("", -1), ("a stranger", 7), ("the parent", 7), ("a child", 0), ("a child", 7), ("a child", 10**9)],
)
async def test_forged_grant_messages_change_nothing(forgetful: OpenEnvironment, child: str, turns: int) -> None:
    """A request in anyone's name and an unrequested grant leave budget and outcome as they are."""
    held = Held(answer("Known."))
    async with forgetful(Script().plan(subtask("T1")).work("", held)) as opened:
        session = await opened.start(GOAL, until=held)
        status = await session.status()
        handle = opened.chargehand.client.get_workflow_handle(session.id)
        names = {"the parent": session.id, "a child": status.subtasks[0].workflow_id}
        forged = {"sender": names.get(child, child), "number": 1, "token": "x"}
        request = forged | {"body": {"kind": "grant_request", "turns": turns, "usd": 0.1 if turns else 0}}
        grant = forged | {"body": {"kind": "grant", "turns": turns, "usd": 100}}
        for _ in range(2):
            await handle.signal(SignalName.MAILBOX, request)
            await handle.signal(SignalName.MAILBOX, grant)
            await opened.chargehand.client.get_workflow_handle(str(names["a child"])).signal(SignalName.MAILBOX, grant)
        after = await session.status()
        held.released.set()
        result = await session.result()

    assert result.answer == "Known."
    assert result.usage.turns == 2
    assert status.reserved_usd > result.reserved_usd == 0
    assert (after.max_turns, after.budget_usd) == (status.max_turns, status.budget_usd)


@pytest.mark.parametrize(
    ("usd", "budget", "reason", "calls"), [("50", 2, "overcharged", 2), ("0.4", 8, "completed", 4)]
)
async def test_a_charge_above_its_reservation_is_reported(
    forgetful: OpenEnvironment, usd: str, budget: int, reason: str, calls: int
) -> None:
    """Beyond the budget, nothing more is paid."""
    dear = reply(answer("Known."), Decimal(usd))
    async with forgetful(Script().plan(*topics(2)).work("T1", dear)) as opened:
        result = await opened.run(limited(max_parallel=1, budget_usd=budget))

    assert (result.stop_reason, len(opened.model.calls)) == (reason, calls)
    assert result.usage.cost_usd == Decimal(usd) + (calls - 1) * COST
    assert result.usage.charged_above_reservation_usd > (47 if reason == "overcharged" else 0)
    assert any("charged" in gap for gap in result.gaps) is (reason == "overcharged")


@pytest.mark.parametrize("usd", [900_000, 80_000_000])
async def test_absurd_provider_charges_do_not_break_the_accounting(forgetful: OpenEnvironment, usd: int) -> None:
    """However much parallel calls claim to cost, the session ends with a report that includes all of it."""
    dear = reply(use("search_documents", about=1), Decimal(usd))
    script = Script().plan(*topics(2)).work("T1", dear).work("T2", dear)
    async with forgetful(script) as opened:
        result = await opened.run(limited(max_parallel=2, budget_usd=2))

    assert result.stop_reason == "overcharged"
    assert result.usage.cost_usd == 2 * usd + COST


async def test_nested_sessions_reserve_the_real_cost_of_a_model(forgetful: OpenEnvironment) -> None:
    """Once a model charged above its reservation, nested sessions reserve that much and do not pay more."""
    dear = reply(answer("Known."), Decimal("0.7"))
    nested = subtask("N1", agent="supervisor", instruction="Look into topic T2 as a whole.", after=["T1"])
    script = Script().plan(subtask("T1", instruction="Look into topic T1."), nested).work("T1", dear)
    async with forgetful(script.plan(subtask("T2", instruction="Look into it."), goal="topic T2")) as opened:
        result = await opened.run(limited(max_parallel=1, budget_usd=Decimal("1.2")))

    assert [task.instruction for task in opened.model.tasks(WorkTask)] == ["Look into topic T1."]
    assert result.usage.charged_above_reservation_usd > 0
    assert result.usage.cost_usd < Decimal("0.8")


def never_content(cost: Decimal = COST) -> Script:
    """Plan five subtasks whose agents would use tools for ever."""
    stopped = reply(answer("Had to stop here.", status="partial", gaps=["the rest"]), cost)
    planned = Script().plans(reply(plan(*topics(5)), cost)).synthesis(reply(report("As far as it went."), cost))
    return planned.work("", keep_using("search_documents", cost=cost), forced=stopped)


@pytest.mark.parametrize("limits", [{"max_turns": 18}, {"budget_usd": 0.4, "max_turns": 100}], ids=["turns", "dollars"])
async def test_a_tree_of_agents_keeps_the_session_limits(run: RunSession, limits: dict[str, object]) -> None:
    """With five agents that never stop, plan and synthesis included, the recorded spend equals the bill."""
    request = limited(**limits)
    result, opened = await run(never_content(Decimal("0.02")), request)

    assert result.usage.turns == len(opened.model.calls) <= request.limits.max_turns
    assert result.usage.cost_usd == Decimal("0.02") * len(opened.model.calls) <= request.limits.budget_usd
    assert opened.model.calls[-1].task.kind == "synthesis"
    assert result.answer


SHAPES = {
    "one": (subtask("T1"),),
    "five at once": topics(5),
    "a chain": (subtask("T1"), subtask("T2", after=["T1"], required=["T1"]), subtask("T3", after=["T2"])),
    "a nested session": (subtask("T1", "supervisor", instruction="Compare all that is known of the topics."),),
    "dear agents": tuple(subtask(f"T{number}", agent) for number, agent in enumerate(["writer", "analyst"], start=1)),
}


@pytest.mark.parametrize(("shape", "first"), [*zip(SHAPES, cycle(["answers", "uses tools"]), strict=False)])
async def test_the_smallest_limits_that_a_refusal_names_suffice_for_a_report(
    environment: OpenEnvironment, shape: str, first: str
) -> None:
    """This holds for every plan, even at the highest price."""

    def dear(turn: BaseModel) -> Turn:
        return lambda call: reply(turn, most_expensive(call))

    answered = dear(answer("Known.", status="partial", gaps=["the rest"]))
    script = Script().plans(dear(plan(*SHAPES[shape]))).synthesis(dear(report("As far as it went.")))
    if first == "uses tools":
        script = script.work("", lambda call: use("search_documents", cost=most_expensive(call)), forced=answered)
    else:
        script = script.work("", answered)
    async with environment(script) as opened:
        with pytest.raises(SessionFailed) as refused:
            await opened.run(limited(max_turns=1, budget_usd=0.01))
        named = re.search(r"max_turns (\d+) and budget_usd (\d+\.\d+)", str(refused.value))
        assert named is not None
        turns, usd = int(named[1]), Decimal(named[2])
        result = await opened.run(limited(max_turns=turns, budget_usd=usd))

    assert result.answer
    assert result.usage.turns <= turns
    assert result.usage.cost_usd <= usd
    assert result.reserved_usd == 0
