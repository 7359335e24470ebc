"""A worker that stood still, or was out of reach, pays for no turn twice."""

import asyncio
import signal
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.client import Client

from activities.contracts.rounds import Round
from activities.turn.conversations import Conversations
from activities.turn_kinds.registry import Task
from activities.turn_kinds.work import WorkAnswer
from chaos.proxy import open_proxy
from tests.acceptance.test_real_wires import settings
from tests.acceptance.workers import worker_process
from tests.activities.turns.one_turn import Asked, a_turn, has_failed, open_front, open_harness
from tests.scripted_provider import ScriptedProvider, ScriptedRequest, answer
from tests.scripted_provider.exchange import ScriptedReply
from tests.waiting import until

pytestmark = pytest.mark.nightly


def turns_by(worker: Mapping[str, str]) -> tuple[Asked, Asked]:
    """Ask a worker for a turn, patiently, and by a heartbeat that is soon missed."""
    patient = a_turn(crew="research", agent="writer").model_copy(
        update={"queue": worker["CHARGEHAND_TASK_QUEUE"], "repetitions": 10}
    )
    return patient, patient.model_copy(update={"heartbeat": timedelta(seconds=1.5)})


async def test_a_stopped_worker_pays_once_when_it_goes_on(client: Client, tmp_path: Path) -> None:
    """Of several attempts at one turn it pays for none that the server has given up, and for the turn once."""
    async with ScriptedProvider(lambda _: answer("At eight.")) as server, open_front(client) as front:
        chosen = settings("openai_compatible", server.base_url, client, tmp_path)
        patient, asked = turns_by(chosen)
        async with worker_process(chosen, front.task_queue) as worker:
            await front.take(patient)
            paid_before = server.charges
            worker.send_signal(signal.SIGSTOP)
            turn = await front.start(asked)
            await until(lambda: has_failed(turn, times=3))
            worker.send_signal(signal.SIGCONT)
            result = await turn.result()

    assert isinstance(result.answer, WorkAnswer)
    assert result.answer.content == "At eight."
    assert server.charges - paid_before == 1


async def test_a_reply_that_came_during_a_cut_is_paid_once(client: Client, tmp_path: Path) -> None:
    """A worker that is cut off from the server keeps the reply it got, and the next attempt finds it."""
    asked_again = asyncio.Event()

    async with ScriptedProvider(lambda _: answer("At eight.")) as server, open_front(client) as front:
        chosen = settings("openai_compatible", server.base_url, client, tmp_path)
        patient, asked = turns_by(chosen)
        async with (
            open_proxy(chosen["TEMPORAL_ADDRESS"]) as proxy,
            worker_process(chosen | {"TEMPORAL_ADDRESS": proxy.address}, front.task_queue),
        ):
            await front.take(patient)
            paid_before = server.charges

            def hold_then_answer(_: ScriptedRequest) -> ScriptedReply:
                if not asked_again.is_set():
                    asked_again.set()
                    proxy.hold()
                return answer("At nine.")

            server.respond = hold_then_answer
            turn = await front.start(asked)
            await asked_again.wait()
            await until(lambda: has_failed(turn, times=1))
            proxy.heal()
            result = await turn.result()

    assert isinstance(result.answer, WorkAnswer)
    assert result.answer.content == "At nine."
    assert server.charges - paid_before == 1


async def test_a_reply_is_recorded_before_its_conversation_is_stored(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the store takes, the server has the reply."""
    go_on = asyncio.Event()

    async def keep(_self: Conversations, _task: Task, _past: Round | None) -> str:
        await go_on.wait()
        return "stored"

    monkeypatch.setattr(Conversations, "keep", keep)
    async with open_harness(client, tmp_path, "chat", lambda _: answer("At eight.")) as (_, harness):
        turn = await harness.start(a_turn())

        async def is_recorded() -> bool:
            pending = (await turn.describe()).raw_description.pending_activities
            return any(b"At eight." in payload.data for each in pending for payload in each.heartbeat_details.payloads)

        await until(is_recorded)
        go_on.set()
        result = await turn.result()

    assert result.conversation == "stored"
