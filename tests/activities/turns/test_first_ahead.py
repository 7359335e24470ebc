"""Calls that begin alike: the others wait for the first one's first token, then read what it has cached."""

import asyncio
import time
from pathlib import Path
from typing import Final

import pytest
from temporalio.client import Client

from activities.models.protocol import ModelCall
from activities.turn import shared_prefixes
from activities.turn.shared_prefixes import SharedPrefixes
from activities.turn_kinds.protocol import Message
from activities.turn_kinds.work import WorkTask
from benchmarks.played.billing import Meter
from tests.activities.models.calls import Wire, a_call
from tests.activities.turns.one_turn import Asked, a_turn, open_harness
from tests.scripted_provider import ScriptedReply, ScriptedRequest, answer

GOAL: Final = "Which clauses bind both parties, and from when on? " * 120
LEAST: Final = 1_024
"""Tokens of the shortest beginning that a provider caches."""


def a_sibling(number: int) -> Asked:
    """Ask for a first turn that differs from the others by its instruction only."""
    task = WorkTask(goal=GOAL, instruction=f"Quote clause {number}.")
    return a_turn(task=task.model_dump(mode="json"))


@pytest.mark.parametrize("wire", ["anthropic", "responses"])
async def test_siblings_read_the_prefix_that_the_first_turn_cached(client: Client, tmp_path: Path, wire: Wire) -> None:
    """All but the first read at least 80% of their input from the cache, and wait for no other sibling."""
    meter, arrived, all_there = Meter(), list[str](), asyncio.Event()

    async def respond(request: ScriptedRequest) -> ScriptedReply:
        if "Quote clause" not in request.text:
            return answer()
        arrived.append(request.text)
        reply, is_first = meter.bill(request, answer()).after(0.3), len(arrived) == 1
        if len(arrived) == 5:
            all_there.set()
        if not is_first:
            await all_there.wait()
        return reply

    async with open_harness(client, tmp_path, wire, respond) as (_, harness):
        await harness.take(a_turn())  # loads the SDK
        results = await asyncio.gather(*(harness.take(a_sibling(number)) for number in range(5)))

    first, *others = sorted((each.usage.cached_input_tokens, each.usage.input_tokens) for each in results)
    assert first[0] == 0
    assert sum(cached for cached, _ in others) >= 0.8 * sum(tokens for _, tokens in others)


def alike(goal: str = GOAL, timeout_seconds: float = 4_000.0) -> ModelCall:
    """Make a call with the same beginning as its siblings."""
    message = Message(role="user", text=f"{goal}Quote a clause.", shared=len(goal))
    return a_call(messages=[message], timeout_seconds=timeout_seconds)


class Worker:
    """Makes calls when it is their turn."""

    def __init__(self) -> None:
        self.prefixes = SharedPrefixes()
        self.made = 0
        self.ends = asyncio.Event()
        """When siblings end."""

    async def make(self, call: ModelCall) -> None:
        async with self.prefixes.take_turn(call, LEAST):
            self.made += 1

    async def _hold(self, call: ModelCall) -> None:
        async with self.prefixes.take_turn(call, LEAST):
            self.made += 1
            await self.ends.wait()

    async def begin(self, count: int) -> "list[asyncio.Task[None]]":
        """Have this many siblings ask for their turn."""
        begun = [asyncio.create_task(self._hold(alike())) for _ in range(count)]
        await _settle()
        return begun


async def _settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_siblings_start_at_the_first_turns_first_token() -> None:
    """A cached prefix and a different prefix are not waited for."""
    worker = Worker()
    async with asyncio.timeout(20), worker.prefixes.take_turn(alike(), LEAST) as ahead:
        siblings = await worker.begin(3)
        await worker.make(alike("Another goal. " * 400))
        before = worker.made
        assert ahead.on_first_token
        ahead.on_first_token()
        await _settle()
        together = worker.made
        worker.ends.set()
        await asyncio.gather(*siblings)
        await worker.make(alike())

    assert (before, together, worker.made) == (1, 4, 5)


async def test_siblings_with_a_short_prefix_do_not_wait() -> None:
    """No provider caches a prefix that short."""
    worker, short = Worker(), alike("Which clauses bind both?")
    async with asyncio.timeout(20), worker.prefixes.take_turn(short, LEAST):
        await worker.make(short)

    assert worker.made == 1


@pytest.mark.parametrize("error", [ConnectionError, asyncio.CancelledError])
async def test_siblings_continue_if_the_first_turn_fails(
    monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    """A first call that fails or is cancelled blocks no sibling, nor does a sibling cancelled while waiting."""
    monkeypatch.setattr(shared_prefixes, "_LONGEST_WAIT", 1_000.0)
    worker = Worker()
    ahead = worker.prefixes.take_turn(alike(), LEAST)
    async with asyncio.timeout(20):
        await ahead.__aenter__()
        cancelled, *others = await worker.begin(3)
        cancelled.cancel()
        await asyncio.sleep(0)
        before = worker.made
        await ahead.__aexit__(error, error(), None)
        worker.ends.set()
        await asyncio.gather(*others)

    assert (before, worker.made, cancelled.cancelled()) == (0, 2, True)


async def test_siblings_stop_waiting_for_a_silent_first_turn() -> None:
    """They start after a quarter of their own timeout."""
    worker, began = Worker(), time.monotonic()
    async with asyncio.timeout(20), worker.prefixes.take_turn(alike(), LEAST):
        await worker.make(alike(timeout_seconds=0.4))

    assert worker.made == 1
    assert time.monotonic() - began >= 0.09
