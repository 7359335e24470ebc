"""A worker that stood still does not pay for what others were given meanwhile."""

import signal
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.client import Client

from activities.turn_kinds.work import WorkAnswer
from tests.acceptance.test_real_wires import settings
from tests.acceptance.workers import worker_process
from tests.activities.turns.one_turn import a_turn, has_failed, open_front
from tests.scripted_provider import ScriptedProvider, answer
from tests.waiting import until

pytestmark = pytest.mark.nightly


async def test_a_stopped_worker_pays_once_when_it_goes_on(client: Client, tmp_path: Path) -> None:
    """Stopped for three heartbeat timeouts, a worker finds several attempts at one turn waiting; it pays for none that
    the server has given up, and the turn is paid once."""
    async with ScriptedProvider(lambda _: answer("At eight.")) as server, open_front(client) as front:
        chosen = settings("openai_compatible", server.base_url, client, tmp_path)
        patient = a_turn(crew="research", agent="writer").model_copy(
            update={"queue": chosen["CHARGEHAND_TASK_QUEUE"], "repetitions": 10}
        )
        asked = patient.model_copy(update={"heartbeat": timedelta(seconds=1.5)})
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
