"""A provider's own work outlives the worker that asked for it, and is paid once."""

import asyncio
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from temporalio.client import Client, WorkflowFailureError

from activities.turn_kinds.work import WorkAnswer
from chargehand.wire import ErrorType
from tests.acceptance.test_real_wires import settings
from tests.acceptance.workers import worker_process
from tests.activities.models.calls import MODELS, AnyModel, an_adapter
from tests.activities.turns.one_turn import Asked, Harness, a_turn, harness_worker, open_front
from tests.scripted_provider import ScriptedProvider, ScriptedReply, ScriptedRequest, answer, hanging


@pytest.mark.nightly
async def test_a_killed_worker_does_not_pay_a_background_response_twice(client: Client, tmp_path: Path) -> None:
    """A killed worker leaves the id behind; the next fetches that response, and has nothing to book twice."""
    go_on = asyncio.Event()

    async def respond(_: ScriptedRequest) -> ScriptedReply:
        await go_on.wait()
        return answer("At eight.")

    async with ScriptedProvider(respond) as server, open_front(client) as front:
        chosen = settings("openai", server.base_url, client, tmp_path) | {"CHARGEHAND_OPENAI_BACKGROUND": "true"}
        asked = a_turn(crew="research", agent="writer").model_copy(
            update={"queue": chosen["CHARGEHAND_TASK_QUEUE"], "heartbeat": timedelta(seconds=2)}
        )
        async with worker_process(chosen, front.task_queue) as first:
            turn = await front.start(asked)
            await server.until(lambda: server.jobs.looks > 0, 60)
            first.send_signal(signal.SIGKILL)
            await first.wait()
        looks = server.jobs.looks
        async with worker_process(chosen, front.task_queue):
            await server.until(lambda: server.jobs.looks > looks, 60)
            go_on.set()
            result = await turn.result()

    assert isinstance(result.answer, WorkAnswer)
    assert result.answer.content == "At eight."
    assert server.charges == 1


def a_batch_model(server: ScriptedProvider) -> AnyModel:
    """Make the adapter, which looks often."""
    return an_adapter("anthropic", server.base_url, poll_seconds=0.02)


@asynccontextmanager
async def open_hanging_batch(client: Client, folder: Path) -> AsyncGenerator[tuple[ScriptedProvider, Harness, Asked]]:
    """Run a provider whose batches never end, with a worker; give the turn to ask for."""
    asked = a_turn(urgency="batch").model_copy(update={"queue": f"batch-{uuid4().hex[:8]}"})
    async with ScriptedProvider(lambda _: hanging()) as server, open_front(client) as front:
        model = a_batch_model(server)
        async with harness_worker(client, str(asked.queue), folder / "one", model, MODELS["anthropic"]):
            yield server, front, asked
        await model.aclose()


async def test_a_worker_that_shuts_down_leaves_its_batch_to_the_next(client: Client, tmp_path: Path) -> None:
    """A batch goes on while no worker runs; whoever comes next brings its result, at half the price, and tidies up."""
    go_on = asyncio.Event()

    async def respond(_: ScriptedRequest) -> ScriptedReply:
        await go_on.wait()
        return answer("At eight.")

    queue = f"batch-{uuid4().hex[:8]}"
    asked = a_turn(urgency="batch").model_copy(update={"queue": queue})
    name = MODELS["anthropic"]
    async with ScriptedProvider(respond) as server, open_front(client) as front:
        first, second = a_batch_model(server), a_batch_model(server)
        async with harness_worker(client, queue, tmp_path / "one", first, name):
            turn = await front.start(asked)
            await server.until(lambda: server.jobs.looks > 0)
        looks = server.jobs.looks
        async with harness_worker(client, queue, tmp_path / "two", second, name):
            await server.until(lambda: server.jobs.looks > looks)
            go_on.set()
            result = await turn.result()
        await first.aclose()
        await second.aclose()
        (job,) = server.jobs.all.values()

    assert isinstance(result.answer, WorkAnswer)
    assert result.answer.content == "At eight."
    assert (server.charges, job.is_cancelled, job.is_deleted) == (1, False, True)
    # 1,000 input and 100 output tokens at half of 0.10 and 0.50 dollars a million.
    assert str(result.usage.cost_usd) == "0.000075"


async def test_a_cancelled_session_cancels_its_batch(client: Client, tmp_path: Path) -> None:
    """A cancelled session cancels its batch at the provider."""
    async with open_hanging_batch(client, tmp_path) as (server, front, asked):
        turn = await front.start(asked)
        await server.until(lambda: server.jobs.looks > 0)
        await turn.cancel()
        with pytest.raises(WorkflowFailureError):
            await turn.result()
        await server.until(lambda: all(job.is_cancelled for job in server.jobs.all.values()))

    assert len(server.jobs.all) == 1


@pytest.mark.nightly
async def test_a_batch_that_takes_too_long_is_called_off_in_time(client: Client, tmp_path: Path) -> None:
    """A batch is cancelled before the server gives the turn up, so that the workflow learns that it cost nothing."""
    async with open_hanging_batch(client, tmp_path) as (server, front, asked):
        failed = await front.fail(asked.model_copy(update={"patience": timedelta(seconds=4)}))
        (job,) = server.jobs.all.values()

    assert (failed.type, failed.non_retryable) == (ErrorType.PROVIDER_UNAVAILABLE, True)
    assert (job.is_cancelled, job.is_deleted) == (True, True)
