"""The provider's work is paid once even if a worker is lost, frozen or unreachable."""

import asyncio
import signal
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from temporalio.client import Client, WorkflowFailureError

from activities.contracts.rounds import Round
from activities.turn.agent_conversations import ConversationStore
from activities.turn.contracts import TurnResult
from activities.turn_kinds.registry import Task
from activities.turn_kinds.work import WorkAnswer
from chaos.proxy import open_proxy
from chargehand.wire import ErrorType
from tests.acceptance.test_real_wires import settings
from tests.acceptance.workers import worker_process
from tests.activities.models.calls import MODELS, AnyModel, an_adapter
from tests.activities.turns.one_turn import Asked, Harness, a_turn, harness_worker, has_failed, open_front, open_harness
from tests.scripted_provider import Respond, ScriptedProvider, ScriptedReply, ScriptedRequest, answer, hanging
from tests.waiting import until


def answering_after(go_on: asyncio.Event) -> Respond:
    """Answer once the event is set."""

    async def respond(_: ScriptedRequest) -> ScriptedReply:
        await go_on.wait()
        return answer("At eight.")

    return respond


def said(result: TurnResult) -> str:
    assert isinstance(result.answer, WorkAnswer)
    return result.answer.content


@pytest.mark.nightly
async def test_a_background_response_of_a_killed_worker_is_paid_once(client: Client, tmp_path: Path) -> None:
    """The next worker fetches the response by its recorded id."""
    go_on = asyncio.Event()
    async with ScriptedProvider(answering_after(go_on)) as server, open_front(client) as front:
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

    assert said(result) == "At eight."
    assert server.charges == 1


def a_batch_model(server: ScriptedProvider) -> AnyModel:
    """Make an adapter that polls frequently."""
    return an_adapter("anthropic", server.base_url, poll_seconds=0.02)


@asynccontextmanager
async def open_hanging_batch(client: Client, folder: Path) -> AsyncGenerator[tuple[ScriptedProvider, Harness, Asked]]:
    """Run a provider whose batches never end, with a worker; also yield the turn to request."""
    asked = a_turn(urgency="batch").model_copy(update={"queue": f"batch-{uuid4().hex[:8]}"})
    async with ScriptedProvider(lambda _: hanging()) as server, open_front(client) as front:
        model = a_batch_model(server)
        async with harness_worker(client, str(asked.queue), folder / "one", model, MODELS["anthropic"]):
            yield server, front, asked
        await model.aclose()


async def test_a_worker_that_shuts_down_leaves_its_batch_to_the_next(client: Client, tmp_path: Path) -> None:
    """The batch continues without a worker; the next one fetches it at half price and then deletes it."""
    go_on, queue = asyncio.Event(), f"batch-{uuid4().hex[:8]}"
    asked = a_turn(urgency="batch").model_copy(update={"queue": queue})
    name = MODELS["anthropic"]
    async with ScriptedProvider(answering_after(go_on)) as server, open_front(client) as front:
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

    assert said(result) == "At eight."
    assert (server.charges, job.is_cancelled, job.is_deleted) == (1, False, True)
    # 1,000 input and 100 output tokens at half of 0.10 and 0.50 dollars a million.
    assert str(result.usage.cost_usd) == "0.000075"


async def test_a_cancelled_session_cancels_its_batch(client: Client, tmp_path: Path) -> None:
    """The batch is cancelled at the provider, not only in the workflow."""
    async with open_hanging_batch(client, tmp_path) as (server, front, asked):
        turn = await front.start(asked)
        await server.until(lambda: server.jobs.looks > 0)
        await turn.cancel()
        with pytest.raises(WorkflowFailureError):
            await turn.result()
        await server.until(lambda: all(job.is_cancelled for job in server.jobs.all.values()))

    assert len(server.jobs.all) == 1


@pytest.mark.nightly
async def test_a_late_batch_is_cancelled_before_the_turn_times_out(client: Client, tmp_path: Path) -> None:
    """The workflow thereby learns that the batch cost nothing."""
    async with open_hanging_batch(client, tmp_path) as (server, front, asked):
        failed = await front.fail(asked.model_copy(update={"patience": timedelta(seconds=4)}))
        (job,) = server.jobs.all.values()

    assert (failed.type, failed.non_retryable) == (ErrorType.PROVIDER_UNAVAILABLE, True)
    assert (job.is_cancelled, job.is_deleted) == (True, True)


def turns_by(worker: Mapping[str, str]) -> tuple[Asked, Asked]:
    """Request a turn from a worker twice: patiently, and with a heartbeat timeout that is soon missed."""
    patient = a_turn(crew="research", agent="writer").model_copy(
        update={"queue": worker["CHARGEHAND_TASK_QUEUE"], "repetitions": 10}
    )
    return patient, patient.model_copy(update={"heartbeat": timedelta(seconds=1.5)})


@pytest.mark.nightly
async def test_a_worker_that_resumes_after_sigstop_pays_for_the_turn_once(client: Client, tmp_path: Path) -> None:
    """It pays nothing for attempts that the server has already timed out."""
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

    assert said(result) == "At eight."
    assert server.charges - paid_before == 1


@pytest.mark.nightly
async def test_a_reply_received_during_a_network_outage_is_paid_once(client: Client, tmp_path: Path) -> None:
    """The disconnected worker keeps the reply, and the next attempt reuses it."""
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

    assert said(result) == "At nine."
    assert server.charges - paid_before == 1


@pytest.mark.nightly
async def test_a_reply_is_recorded_before_its_conversation_is_stored(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the store takes, the server has the reply."""
    go_on = asyncio.Event()

    async def keep(_self: ConversationStore, _task: Task, _past: Round | None) -> str:
        await go_on.wait()
        return "stored"

    monkeypatch.setattr(ConversationStore, "keep", keep)
    async with open_harness(client, tmp_path, "chat", lambda _: answer("At eight.")) as (_, harness):
        turn = await harness.start(a_turn())

        async def is_recorded() -> bool:
            pending = (await turn.describe()).raw_description.pending_activities
            return any(b"At eight." in payload.data for each in pending for payload in each.heartbeat_details.payloads)

        await until(is_recorded)
        go_on.set()
        result = await turn.result()

    assert result.conversation == "stored"
