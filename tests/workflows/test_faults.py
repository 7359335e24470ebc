"""Faults of our own: a worker that cannot do its part says so once, and neither pays for it nor hangs."""

from decimal import Decimal

from chargehand.contracts import SessionRequest
from tests.scripted_model import Script, report, subtask
from tests.workflows.conftest import OpenEnvironment

GOAL = SessionRequest(goal="What do the documents say about the topics?", review="never")


async def test_a_fault_around_a_call_is_charged_once_and_touches_one_subtask(environment: OpenEnvironment) -> None:
    """A bug in an adapter is not taken for a lost worker and repeated: one call, charged in full and named."""
    bug = KeyError("a bug")
    script = Script().plan(subtask("T1"), subtask("T2", agent="analyst")).synthesis(report("What is known."))
    script = script.work("", bug, agent="reader").work("", bug, agent="researcher")
    async with environment(script) as opened:
        result = await opened.run(GOAL)

    calls = [call for call in opened.model.of_kind("work") if call.agent == "reader"]
    assert len(calls) == 1
    assert [record.state for record in result.subtasks] == ["failure", "success"]
    assert result.usage.possibly_billed_twice_usd > Decimal(0)
    assert result.answer == "What is known."
