"""Calls that a provider runs as jobs: batches and background responses, started once and fetched by id."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from typing import Literal

import pytest

from activities.models.failures import ProviderError
from activities.models.protocol import ModelCall, ProviderJob
from chargehand.wire import ErrorType
from tests.activities.models.calls import Opened, Wire, a_call, a_provider, reply_to
from tests.scripted_provider import Respond, ScriptedReply, Tokens, ToolUse, answer, calling, error, hanging

Way = Literal["batch", "background"]
WIRE: dict[Way, Wire] = {"batch": "anthropic", "background": "responses"}
PREFIX = {"batch": "msgbatch", "background": "resp"}
every_way = pytest.mark.parametrize("way", ["batch", "background"])


@dataclass
class Keeper:
    """Keeps a job's id as the journal does."""

    known: str = ""
    is_unwanted: bool = False
    kept: list[str] = field(default_factory=list[str])
    fails: bool = False
    patience_seconds: float | None = None
    afterwards: list[Callable[[], Awaitable[None]]] = field(default_factory=list[Callable[[], Awaitable[None]]])

    def job(self) -> ProviderJob:
        async def is_unwanted() -> bool:
            return self.is_unwanted

        return ProviderJob(self.known, self._remember, is_unwanted, self.patience_seconds, self.afterwards)

    async def _remember(self, identity: str) -> None:
        if self.fails:
            raise ConnectionResetError("the journal cannot be reached")
        self.kept.append(identity)


def open_provider(way: Way, respond: Respond, poll_seconds: float = 0.01) -> AbstractAsyncContextManager[Opened]:
    """Run a provider and an adapter that makes its calls in this way and polls every few milliseconds."""
    options = {"background": True} if way == "background" else {}
    return a_provider(WIRE[way], respond, poll_seconds=poll_seconds, **options)


def a_job(way: Way, keeper: Keeper, timeout_seconds: float = 20.0) -> ModelCall:
    call = a_call(WIRE[way], timeout_seconds=timeout_seconds)
    return call.model_copy(update={"urgency": "batch" if way == "batch" else "now", "job": keeper.job()})


REPLIES = {
    "answer": answer("At eight.").using(Tokens(input=1_000, cached=8_000, cache_write=500, output=200)),
    "tools": calling(ToolUse("read_document", {"name": "a.pdf"}, id="id_1"), text="Let me look."),
}


@every_way
@pytest.mark.parametrize("name", REPLIES)
async def test_a_job_returns_the_same_reply_as_a_direct_call(way: Way, name: str) -> None:
    """Only the cost of a batch differs: it is half."""
    at_once = await reply_to(WIRE[way], REPLIES[name])
    async with open_provider(way, lambda _: REPLIES[name].after(0.05)) as (server, model):
        later = await model.complete(a_job(way, Keeper()))

    assert at_once.usage is not None
    share = 2 if way == "batch" else 1
    half = at_once.usage.model_copy(update={"cost_usd": at_once.usage.cost_usd / share})
    assert later == at_once.model_copy(update={"usage": half})
    assert server.charges == 1
    assert server.jobs.looks > 1


@every_way
async def test_a_job_whose_id_cannot_be_kept_is_cancelled(way: Way) -> None:
    """Without its id, no attempt could fetch its result."""
    async with open_provider(way, lambda _: hanging()) as (server, model):
        with pytest.raises(ProviderError):
            await model.complete(a_job(way, Keeper(fails=True)))
        (job,) = server.jobs.all.values()

    assert job.is_cancelled


@every_way
@pytest.mark.parametrize("is_unwanted", [True, False], ids=["session cancelled", "worker shut down"])
async def test_a_job_is_cancelled_only_if_its_session_is(way: Way, is_unwanted: bool) -> None:  # noqa: FBT001  # a column
    """A worker that shuts down leaves the job to the next worker."""
    keeper = Keeper(is_unwanted=is_unwanted)
    async with open_provider(way, lambda _: hanging()) as (server, model):
        call = asyncio.create_task(model.complete(a_job(way, keeper)))
        await server.until(lambda: server.jobs.looks > 0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        (job,) = server.jobs.all.values()

    assert job.is_cancelled is is_unwanted


@every_way
async def test_an_outage_while_polling_a_job_is_waited_out(way: Way) -> None:
    """Polling continues, and no second job is started."""
    async with open_provider(way, lambda _: answer("At eight.").after(0.05)) as (server, model):
        server.jobs.lose = 5
        reply = await model.complete(a_job(way, Keeper()))

    assert (reply.stop, len(server.requests)) == ("answer", 1)


@every_way
async def test_a_call_that_cannot_store_a_job_id_is_made_directly(way: Way) -> None:
    """A job whose id is not stored could be paid for twice."""
    async with open_provider(way, lambda _: answer()) as (server, model):
        await model.complete(a_job(way, Keeper()).model_copy(update={"job": None}))

    assert server.jobs.all == {}
    assert server.requests[0].body["stream"] is True


@pytest.mark.parametrize(
    ("way", "reply", "known", "expected"),
    [
        *((way, error(529), "", (ErrorType.PROVIDER_UNAVAILABLE, False, False)) for way in WIRE),
        *((way, answer(), f"{PREFIX[way]}_99", (ErrorType.PROVIDER_UNAVAILABLE, False, True)) for way in WIRE),
        pytest.param("batch", error(410), "", (ErrorType.PROVIDER_UNAVAILABLE, False, False), id="expired"),
        pytest.param("batch", error(400), "", (ErrorType.PROVIDER_REFUSED, True, False), id="invalid"),
        pytest.param("batch", error(429), "", (ErrorType.PROVIDER_UNAVAILABLE, False, False), id="rate limit"),
    ],
)
async def test_every_failed_job_is_classified(
    way: Way, reply: ScriptedReply, known: str, expected: tuple[ErrorType, bool, bool]
) -> None:
    """Failed and expired jobs are uncharged; an unknown id may have been charged, and no new job is started."""
    async with open_provider(way, lambda _: reply) as (server, model):
        with pytest.raises(ProviderError) as caught:
            await model.complete(a_job(way, Keeper(known=known)))

    assert (caught.value.kind, caught.value.is_final, caught.value.fault.possibly_billed) == expected
    assert bool(server.requests) is not bool(known)


async def test_a_batched_request_equals_the_direct_request() -> None:
    """Only fields that batches do not accept are missing; its custom id is a hash of 64 characters."""
    async with open_provider("batch", lambda _: answer()) as (server, model):
        await model.complete(a_call())
        await model.complete(a_job("batch", Keeper()))
        alone, batched = (request.body for request in server.requests)
        (job,) = server.jobs.all.values()

    assert batched == {name: value for name, value in alone.items() if name not in {"stream", "service_tier"}}
    assert (len(job.custom_id), job.custom_id.isalnum()) == (64, True)


async def test_a_background_response_that_takes_too_long_is_cancelled() -> None:
    """The call's total time limit applies, and what was generated until then may be charged."""
    async with open_provider("background", lambda _: hanging()) as (server, model):
        with pytest.raises(ProviderError, match="the response is cancelled") as caught:
            await model.complete(a_job("background", Keeper(), timeout_seconds=1.0))
        (job,) = server.jobs.all.values()

    assert job.is_cancelled
    assert caught.value.fault.possibly_billed


@every_way
async def test_a_job_that_ends_just_before_it_is_cancelled_is_used(way: Way) -> None:
    """A final poll before cancellation finds the reply, which is paid for already."""
    async with open_provider(way, lambda _: answer("At eight.").after(0.05), poll_seconds=60) as (server, model):
        reply = await model.complete(a_job(way, Keeper(patience_seconds=1.0)))

    assert (reply.stop, server.charges, server.jobs.looks) == ("answer", 1, 2)


@every_way
@pytest.mark.parametrize("reply", [answer("At eight."), error(529)], ids=["replied", "failed"])
async def test_a_job_is_deleted_at_the_provider_once_its_result_is_stored(way: Way, reply: ScriptedReply) -> None:
    """It is not deleted earlier, since another attempt may need it; it holds user text, so it must be deleted."""
    keeper = Keeper()
    async with open_provider(way, lambda _: reply) as (server, model):
        with suppress(ProviderError):
            await model.complete(a_job(way, keeper))
        (job,) = server.jobs.all.values()
        before = job.is_deleted
        for act in keeper.afterwards:
            await act()
            await act()  # deleting an already deleted job is no failure

    assert (before, job.is_deleted) == (False, True)
