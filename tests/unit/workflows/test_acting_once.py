"""Acting calls in a session: a call is made only once in its whole tree, and unknown outcomes are named."""

from datetime import timedelta
from pathlib import Path

import pytest

from chargehand.contracts import Limits, SessionRequest
from chargehand.tools import Tool, ToolContext, ToolError, tool
from chargehand_plugins.testing import Reply, Script, ScriptedRun, answer, run_session, subtask, use, use_all
from tests.crew_files import READS_DOCUMENTS, crew_folder

REQUEST = SessionRequest(goal="Settle the complaints.", crew="desk", review="never", limits=Limits(max_turns=60))


@pytest.fixture
def crews(tmp_path: Path) -> Path:
    return crew_folder(tmp_path, "desk", clerk='tools = ["refund"]')


def refunds(*fails: type[Exception] | None) -> tuple[Tool[..., str], list[str]]:
    """Make a tool whose calls fail in this order; return it and the list of its calls."""
    calls: list[str] = []

    @tool(capabilities=[], acts=True)
    def refund(order: str, context: ToolContext) -> str:
        """Refund an order."""
        calls.append(f"{order} {context.idempotency_key}")
        failure = dict(enumerate(fails)).get(len(calls) - 1)
        if failure is not None:
            raise failure("Not now.")
        return f"Refunded {order}."

    return refund, calls


async def _settle(crews: Path, refund: Tool[..., str], *replies: Reply, again: tuple[Reply, ...] = ()) -> ScriptedRun:
    """Run a subtask and, if it is retried, another attempt."""
    script = Script().plan(subtask("T1", "clerk", "Settle order A-17.")).work("A-17", *replies)
    script = script.on("refine", Reply({"worthwhile": True, "instruction": "Once more: order B."}))
    return await run_session(REQUEST, script.work("Once more", *again), crews=crews, tools=[refund])


async def test_a_second_attempt_does_not_repeat_an_applied_call(crews: Path) -> None:
    """It is told that the call was applied; after a `ToolError` it was not, and the call is made with its key."""
    attempt = use("refund", order="A-17")
    failed = answer("", status="no_answer", message="I am lost.")
    for fails, made in (([], 1), ([ToolError], 2)):
        refund, calls = refunds(*fails)
        run = await _settle(crews, refund, attempt, failed, again=(attempt, answer("It is settled.")))
        assert (len(calls), len(set(calls)), run.report.answer) == (made, 1, "It is settled.")
        assert ("This call was made and applied before" in run.turns[-1].prompt) is (made == 1)


async def test_subtasks_with_the_same_id_in_nested_sessions_act_separately(crews: Path) -> None:
    refund, calls = refunds()
    script = (
        Script()
        .plan(subtask("T1", "clerk", "Settle order A-17."), subtask("T2", "supervisor", "Settle the branch, too."))
        .plan(subtask("T1", "clerk", "Settle the branch's order."), goal="branch")
        .work("order", use("refund", order="A-17"), answer("It is settled."))
    )
    await run_session(REQUEST, script, crews=crews, tools=[refund])

    assert len(set(calls)) == len(calls) == 2


async def test_a_call_repeated_within_a_round_is_made_once(crews: Path) -> None:
    refund, calls = refunds()
    twice = use_all(use("refund", order="A-17"), use("refund", order="A-17"))
    run = await _settle(crews, refund, twice, answer("It is settled."))

    assert len(calls) == 1
    assert "You already made this call (round 1)" in run.turns[-1].prompt
    assert run.report.gaps == ()


async def test_a_lookup_decides_whether_a_failed_call_is_repeated(crews: Path) -> None:
    made: list[str] = []

    @tool(capabilities=[], acts=True, settles_within=timedelta(0))
    def refund(order: str) -> str:
        """Refund an order."""
        made.append(order)
        if made.count(order) == 1:
            raise ConnectionError("The connection was lost.")
        return f"Refunded {order}."

    @refund.lookup
    def find(order: str) -> str | None:
        return "Found A-17." if order == "A-17" else None

    both = use_all(use("refund", order="A-17"), use("refund", order="B-3"))
    run = await _settle(crews, refund, both, answer("It is settled."))

    assert sorted(made) == ["A-17", "B-3", "B-3"]
    assert "Found A-17." in run.turns[-1].prompt
    assert "Refunded B-3." in run.turns[-1].prompt
    assert run.report.gaps == ()


@pytest.mark.parametrize("approved", [True, False, None])
async def test_run_session_can_approve_calls_in_place_of_a_person(
    crews: Path, caplog: pytest.LogCaptureFixture, *, approved: bool | None
) -> None:
    @tool(capabilities=[], acts=True, approval=True)
    def refund(order: str) -> str:
        """Refund an order."""
        return f"Refunded {order}."

    script = Script().plan(subtask("T1", "clerk", "Settle order A-17."))
    run = await run_session(
        REQUEST,
        script.work("A-17", use("refund", order="A-17"), answer("It is settled.")),
        crews=crews,
        tools=[refund],
        approve=None if approved is None else lambda call: approved and call.arguments == {"order": "A-17"},
    )

    expected = {True: "Refunded A-17.", False: "A person rejected this call.", None: "it was not approved in time"}
    assert expected[approved] in run.turns[-1].prompt
    assert len(run.tool_calls) == (1 if approved else 0)
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == []


async def test_a_call_of_unknown_outcome_is_a_gap_and_is_not_repeated(crews: Path) -> None:
    """If no person decides, the agent is told, other calls continue, and the report names the call."""
    refund, calls = refunds(ConnectionError)
    run = await _settle(
        crews, refund, use_all(use("refund", order="A-17"), use("refund", order="B-3")), answer("It is settled.")
    )

    assert len(calls) == 2
    [gap] = run.report.gaps
    assert gap.startswith("Outcome unknown: whether refund")
    assert "Whether this call was applied is unknown" in run.turns[-1].prompt


async def test_a_repeated_read_after_an_act_returns_the_new_state(crews: Path) -> None:
    read = list[str]()
    status = {"A-17": "open", "B-3": "open", "C-9": "open"}

    @tool(capabilities=["reads_private"])
    def read_order(order: str) -> str:
        """Return the status of an order."""
        read.append(status[order])
        return f"{order} is {status[order]}."

    @tool(capabilities=[], acts=True)
    def refund(order: str) -> str:
        """Refund an order."""
        status[order] = "refunded"
        return "Done."

    crew_folder(crews.parent, "desk", clerk=f'tools = ["refund", "read_order"]\n{READS_DOCUMENTS}')
    look = use_all(*(use("read_order", order=order) for order in status))
    turns = [turn for order in status for turn in (look, use("refund", order=order))]
    script = Script().plan(subtask("T1", "clerk", "Settle order A-17."))
    script = script.work("A-17", *turns, look, answer("All are refunded."))
    run = await run_session(REQUEST, script, crews=crews, tools=[read_order, refund])

    assert [read[start : start + 3].count("refunded") for start in (0, 3, 6, 9)] == [0, 1, 2, 3]
    assert "A-17 is refunded." in run.turns[-1].prompt
    assert (run.report.answer, run.report.gaps) == ("All are refunded.", ())
