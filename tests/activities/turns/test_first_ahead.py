"""Calls that begin alike: the first goes ahead by one first token, so that the others read what it has cached."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest
from temporalio.client import Client, WorkflowFailureError

from activities.turn.contracts import TurnResult
from activities.turn_kinds.work import WorkTask
from tests.acceptance.played.billing import Meter
from tests.activities.models.calls import Wire
from tests.activities.turns.one_turn import Asked, Harness, a_turn, open_harness
from tests.scripted_provider import ScriptedProvider, ScriptedReply, ScriptedRequest, answer, dropping, error, hanging

CACHING: Final[tuple[Wire, ...]] = ("anthropic", "responses")
GOAL: Final = "Which clauses bind both parties, and from when on? " * 120
THINKING: Final = 0.3
"""Seconds before a first token."""
WAIT: Final = 5.6
"""Seconds that a turn of the harness waits at most: a quarter of its time."""


def a_sibling(number: int, goal: str = GOAL) -> Asked:
    """Ask for a first turn that differs from the others by its instruction only."""
    task = WorkTask(goal=goal, instruction=f"Quote clause {number}.")
    return a_turn(task=task.model_dump(mode="json"))


class Provider:
    """Answers after a while, bills by a meter, and is held up where a test says so."""

    def __init__(self) -> None:
        self.meter = Meter()
        self.first: ScriptedReply | None = None
        """What the first sibling gets instead of an answer."""
        self.together = range(0)
        """Which siblings, by the order of their arrival, are answered only when all of these are there."""
        self._arrived = 0
        self._all_there = asyncio.Event()

    async def __call__(self, request: ScriptedRequest) -> ScriptedReply:
        if "Quote clause" not in request.text:
            return answer()
        first, self.first = self.first, None
        reply = first or self.meter.bill(request, answer()).after(THINKING)
        number, self._arrived = self._arrived, self._arrived + 1
        if self._arrived == self.together.stop:
            self._all_there.set()
        if number in self.together:
            await self._all_there.wait()
        return reply


@asynccontextmanager
async def open_siblings(
    client: Client, folder: Path, wire: Wire
) -> AsyncGenerator[tuple[ScriptedProvider, Harness, Provider]]:
    """Run a worker that has loaded its SDK, and its provider."""
    provider = Provider()
    async with open_harness(client, folder, wire, provider) as (server, harness):
        await harness.take(a_turn())
        yield server, harness, provider


def arrivals(server: ScriptedProvider) -> list[float]:
    """When the siblings' requests arrived, after the first."""
    times = sorted(request.arrived_at for request in server.requests if "Quote clause" in request.text)
    return [time - times[0] for time in times[1:]]


@pytest.mark.parametrize("wire", CACHING)
async def test_siblings_read_what_the_first_of_them_has_cached(client: Client, tmp_path: Path, wire: Wire) -> None:
    """Of what five siblings that start at once are shown, all but the first read four fifths from the cache, where a
    provider can read a beginning only once it answers the call that wrote it; they wait for no other."""
    async with open_siblings(client, tmp_path, wire) as (server, harness, provider):
        provider.together = range(1, 5)
        results = await asyncio.gather(*(harness.take(a_sibling(number)) for number in range(5)))

    first, *others = sorted((each.usage.cached_input_tokens, each.usage.input_tokens) for each in results)
    assert first[0] == 0
    assert sum(cached for cached, _ in others) >= 0.8 * sum(tokens for _, tokens in others)
    assert THINKING <= arrivals(server)[0] <= arrivals(server)[-1] < WAIT / 2


async def test_what_is_cached_is_not_waited_for(client: Client, tmp_path: Path) -> None:
    """Siblings that start when their beginning has been cached go at once."""
    async with open_siblings(client, tmp_path, "anthropic") as (server, harness, provider):
        provider.together = range(1, 4)
        await harness.take(a_sibling(0))
        results = await asyncio.gather(*(harness.take(a_sibling(number)) for number in range(1, 4)))
        others = [each - arrivals(server)[0] for each in arrivals(server)]

    assert all(each.usage.cached_input_tokens for each in results)
    assert others[-1] < WAIT / 2


async def test_what_no_provider_caches_is_not_waited_for(client: Client, tmp_path: Path) -> None:
    """Siblings with a short beginning go at once."""
    async with open_siblings(client, tmp_path, "anthropic") as (server, harness, provider):
        provider.together = range(3)
        await asyncio.gather(*(harness.take(a_sibling(number, "Which clauses bind both?")) for number in range(3)))

    assert arrivals(server)[-1] < WAIT / 2


@pytest.mark.parametrize("reply", [error(529), dropping()], ids=["refused", "lost"])
async def test_siblings_go_on_without_the_first_if_it_fails(
    client: Client, tmp_path: Path, reply: ScriptedReply
) -> None:
    """A call that ends without a first token holds up none of the others."""
    async with open_siblings(client, tmp_path, "anthropic") as (server, harness, provider):
        provider.first = reply.after(THINKING)
        turns = [await harness.start(a_sibling(number)) for number in range(3)]
        await server.until(lambda: len(arrivals(server)) >= 2)

        assert arrivals(server)[1] >= THINKING
        ended = await asyncio.gather(*(turn.result() for turn in turns), return_exceptions=True)
    assert sum(isinstance(each, TurnResult) for each in ended) >= 2


async def test_siblings_go_on_without_the_first_if_it_is_cancelled(client: Client, tmp_path: Path) -> None:
    """A cancelled call that had no first token lets the others go, and a cancelled one that waits holds up none."""
    async with open_siblings(client, tmp_path, "anthropic") as (server, harness, provider):
        provider.first = hanging()
        ahead = await harness.start(a_sibling(0))
        await server.until(lambda: len(server.requests) == 2)
        waiting, other = [await harness.start(a_sibling(number)) for number in (1, 2)]
        await waiting.cancel()
        with pytest.raises(WorkflowFailureError):
            await waiting.result()
        before = len(server.requests)
        await ahead.cancel()
        result = await other.result()

    assert (before, result.stop) == (2, "answer")


async def test_a_first_token_that_does_not_come_is_not_waited_for_long(client: Client, tmp_path: Path) -> None:
    """While the first call is silent the others go after a quarter of their time, and the worker lives on."""
    async with open_siblings(client, tmp_path, "anthropic") as (server, harness, provider):
        provider.first = hanging()
        short = {"patience": timedelta(seconds=12)}
        ahead = await harness.start(a_sibling(0).model_copy(update=short))
        await server.until(lambda: len(server.requests) == 2)
        result = await harness.take(a_sibling(1).model_copy(update=short))
        await ahead.cancel()

    assert result.stop == "answer"
    assert len(server.requests) == 3
    assert 1 < arrivals(server)[0] < 6
