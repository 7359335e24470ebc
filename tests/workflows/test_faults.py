"""Faults of our own: a worker that cannot do its part says so once, and neither pays for it nor hangs."""

from decimal import Decimal

from activities.models.protocol import ModelCall, ModelReply
from chargehand.contracts import SessionRequest
from tests.scripted_model import answer, plan, refined, reply, report, subtask
from tests.workflows.conftest import OpenEnvironment

GOAL = SessionRequest(goal="What do the documents say about the topics?", review="never")


async def test_a_fault_around_a_call_is_charged_once_and_touches_one_subtask(environment: OpenEnvironment) -> None:
    """A bug in an adapter is not taken for a lost worker and repeated: one call, charged in full and named (F23)."""

    def respond(call: ModelCall) -> ModelReply:
        match call.task.kind:
            case "plan":
                return reply(plan(subtask("T1"), subtask("T2", agent="analyst")))
            case "synthesis":
                return reply(report("What is known."))
            case "refine":
                return reply(refined())
            case _ if call.agent in {"reader", "researcher"}:
                raise KeyError("a bug")
            case _:
                return reply(answer("Known."))

    async with environment(respond) as opened:
        result = await (await opened.chargehand.start(GOAL)).result()

    calls = [call for call in opened.model.of_kind("work") if call.agent == "reader"]
    assert len(calls) == 1
    assert [record.state for record in result.subtasks] == ["failure", "success"]
    assert result.usage.possibly_billed_twice_usd > Decimal(0)
    assert result.answer == "What is known."
