"""Killed workers: in a call, after an answer, and at random."""

import asyncio
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Final

from chaos import books
from chaos.harness import RECORDED_AFTER, STEPS, Harness, Outcome, open_harness, script, until
from chaos.result import Demand, Result, Scale
from tests.scripted_provider import Exchange, Respond, ScriptedReply, ScriptedRequest


class Holding:
    """A script whose first answer to a chosen call never ends, although the provider bills it."""

    def __init__(self, chosen: str, respond: Respond) -> None:
        self._chosen = chosen
        self._respond = respond
        self.held = asyncio.Event()

    def __call__(self, request: ScriptedRequest) -> ScriptedReply:
        reply = self._respond(request)
        assert isinstance(reply, ScriptedReply)
        if not self.held.is_set() and self._chosen in request.text and request.answer == "WorkAnswer":
            self.held.set()
            return reply.after(3_600)
        return reply


async def killed_in_a_call(scale: Scale, random: Random, folder: Path) -> Result:
    """Kill the only worker while the provider works, restart it at once, and time until the step continues."""
    repetitions = {"short": 1, "full": 5, "nightly": 100}[scale]
    began = time.monotonic()
    resumed: list[float] = []
    polled: list[float] = []
    outcomes: list[Outcome] = []
    async with open_harness(folder) as harness:
        worker = await harness.worker()
        for number in range(repetitions):
            holding = Holding("part 1 of", script(0.02))
            harness.provider.respond = holding
            running = asyncio.create_task(harness.session(f"killed-{number}"))
            await asyncio.wait_for(holding.held.wait(), 60)
            await asyncio.sleep(random.uniform(0.5, 3))
            harness.fault()
            before = len(harness.provider.exchanges)
            await worker.kill()
            restarted_at = time.time()
            await worker.start()
            await harness.polled(worker)
            polled.append(time.time() - restarted_at)
            await harness.provider.until(lambda before=before: len(harness.provider.exchanges) > before, 90)
            resumed.append(harness.provider.exchanges[before].request.arrived_at - restarted_at)
            outcomes.append(await running)
        result = harness.judge(
            "Killed in a call",
            "SIGKILL of the only worker during a model call; restarted at once",
            outcomes,
            began,
            Demand(faults=repetitions, successes=repetitions),
        )
    result.require(result.extra_calls <= repetitions, f"{result.extra_calls} extra calls for {repetitions} kills")
    result.figures = {"resumed, s": spread(resumed), "polling again, s": spread(polled)}
    return result


async def killed_after_an_answer(scale: Scale, random: Random, folder: Path) -> Result:
    """Kill the only worker at the moment when the provider has sent the last byte of an answer."""
    repetitions = {"short": 1, "full": 5, "nightly": 100}[scale]
    began = time.monotonic()
    outcomes: list[Outcome] = []
    async with open_harness(folder, script(0.05)) as harness:
        worker = await harness.worker()
        for number in range(repetitions):
            target = len(harness.provider.exchanges) + random.randint(1, STEPS)
            running = asyncio.create_task(harness.session(f"answered-{number}"))
            await harness.provider.until(lambda target=target: _is_answered(harness, target), 60)
            harness.fault()
            await worker.restart()
            outcomes.append(await running)
        result = harness.judge(
            "Killed after an answer",
            "SIGKILL of the only worker as an answer's last byte is sent",
            outcomes,
            began,
            Demand(faults=repetitions, successes=repetitions),
        )
    result.require(result.extra_calls <= 2 * repetitions, f"{result.extra_calls} extra calls for {repetitions} kills")
    return result


def _is_answered(harness: Harness, number: int) -> bool:
    exchanges = harness.provider.exchanges
    return len(exchanges) >= number and exchanges[number - 1].answered_at is not None


async def random_kills(scale: Scale, random: Random, folder: Path) -> Result:
    """Repeatedly kill one of two workers at random."""
    count, kills, pause = {"short": (6, 2, (3, 5)), "full": (60, 8, (4, 8)), "nightly": (1_000, 50, (5, 40))}[scale]
    began = time.monotonic()
    async with open_harness(folder, script(0.03)) as harness:
        workers = [await harness.worker(), await harness.worker()]
        killing = asyncio.create_task(_kill_now_and_then(harness, random, pause))
        outcomes = await harness.sessions_until(lambda done: done >= count and harness.faults >= kills, lines=4)
        killing.cancel()
        await asyncio.gather(killing, return_exceptions=True)
        result = harness.judge(
            "Random kills",
            f"SIGKILL of one of {len(workers)} workers every {pause[0]}–{pause[1]} s; restarted at once",
            outcomes,
            began,
            Demand(faults=kills, successes=count),
        )
        searches = len(harness.search.asked)
        harness.require_no_other_calls(result)  # a kill can interrupt a call of each session
    walls = sorted(outcome.seconds for outcome in outcomes)
    result.figures = {
        "extra calls per kill": f"{result.extra_calls / result.faults:.2f}",
        "model calls": str(len(outcomes) * STEPS + result.extra_calls),
        "extra searches": str(searches - 2 * len(outcomes)),
        "median session, s": f"{statistics.median(walls):.1f}",
        "slowest session, s": f"{walls[-1]:.1f}",
    }
    return result


async def _kill_now_and_then(harness: Harness, random: Random, pause: tuple[float, float]) -> None:
    while True:
        await asyncio.sleep(random.uniform(*pause))
        victim = random.choice(harness.workers)
        harness.fault()
        await victim.restart()


def spread(seconds: list[float]) -> str:
    """Format the median and the worst."""
    return f"median {statistics.median(seconds):.1f}, worst {max(seconds):.1f}"


async def traced_kills(scale: Scale, random: Random, folder: Path) -> Result:
    """Kill one of two workers in the middle of an answer, as a reply is recorded, and in a tool call, and trace every
    step that was charged twice to the kill that lost its first call."""
    count = {"short": 6, "full": 100, "nightly": 500}[scale]
    began = time.monotonic()
    killed_at: list[float] = []
    async with open_harness(folder, script(0.1)) as harness:
        for _ in range(2):
            await harness.worker()
        killing = asyncio.create_task(_kill_at_moments(harness, random, killed_at))
        outcomes = await harness.sessions_until(lambda done: done >= count, lines=6)
        killing.cancel()
        await asyncio.gather(killing, return_exceptions=True)
        result = harness.judge(
            "Kills traced",
            "repeated SIGKILL of one of 2 workers: mid-answer, as it is recorded, or in a tool call",
            outcomes,
            began,
            Demand(faults=1, successes=count),
        )
        lost = books.repeated(harness.provider.exchanges)
        traced = Counter(_trace(call, killed_at) for call in lost)
    result.figures = {
        "charged twice, by state at the kill": ", ".join(f"{state}: {number}" for state, number in traced.items())
        or "none",
        "kills": str(len(killed_at)),
        "longest from answer to kill, ms": f"{1_000 * max(_waited(lost, killed_at), default=0.0):.0f}",
    }
    result.require(set(traced) <= {_OPEN, _UNRECORDED}, f"steps charged twice without a kill: {traced}")
    return result


_OPEN: Final = "open"
_UNRECORDED: Final = "answered less than 0.5 s before"
_UNEXPLAINED: Final = "no kill"


def _trace(lost: Exchange, killed_at: Sequence[float]) -> str:
    """Return the state of a call at the first kill after it began: whether that kill can have lost it."""
    after = [kill for kill in killed_at if kill >= lost.request.arrived_at]
    if lost.answered_at is None or any(kill <= lost.answered_at for kill in after):
        return _OPEN if after else _UNEXPLAINED
    return _UNRECORDED if any(kill <= lost.answered_at + RECORDED_AFTER for kill in after) else _UNEXPLAINED


def _waited(calls: Sequence[Exchange], killed_at: Sequence[float]) -> list[float]:
    """List the seconds between each call's answer and the first kill after it."""
    answers = [call.answered_at for call in calls if call.answered_at is not None and _trace(call, killed_at) != _OPEN]
    return [min((kill - at for kill in killed_at if kill >= at), default=0.0) for at in answers]


async def _kill_at_moments(harness: Harness, random: Random, killed_at: list[float]) -> None:
    provider, search = harness.provider, harness.search
    moments: Sequence[Callable[[], int]] = (
        lambda: len(provider.exchanges),
        lambda: sum(each.answered_at is not None for each in provider.exchanges),
        lambda: len(search.asked),
    )
    while True:
        await asyncio.sleep(random.uniform(1, 4))
        reached = random.choice(moments)
        before = reached()
        await until(lambda reached=reached, before=before: reached() > before, "a moment")
        await asyncio.sleep(random.uniform(0, 0.02))
        victim = random.choice(harness.workers)
        harness.fault()
        killed_at.append(time.time())
        await victim.restart()
        await harness.polled(victim)
