"""Services that commit a call long after it was made, while the worker that made it is stopped or killed."""

import asyncio
import signal
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final

from activities.heartbeat import HEARTBEAT_TIMEOUT
from chaos import books
from chaos.harness import ROOT, Harness, Outcome, Worker, open_harness, until
from chaos.restores import respond
from chaos.result import Demand, Result, Scale
from chaos.shop import CREW, LEDGER, SETTLES, TOOLS, asked, effects
from chargehand.errors import ChargehandError

_LATENESS: Final = {"short": (0, 5), "full": (0, 5, 20, 60), "nightly": (0, 1, 2, 5, 10, 20, 30, 40, 50, 60)}
"""Seconds from a request until the service commits it; one session for each value."""
_MARGIN: Final = 3
"""Seconds by which the service commits earlier than promised."""


async def late_services(scale: Scale, random: Random, folder: Path) -> Result:  # noqa: ARG001  # nothing is random here
    """Stop, then kill the only worker while calls of three kinds of tool are in progress at a late service."""
    lateness, began = _LATENESS[scale], time.monotonic()
    result = Result(
        "Late services",
        "SIGSTOP of the worker for three heartbeat timeouts, or SIGKILL, during acting calls at a service that commits "
        f"{lateness[0]}–{lateness[-1]} s late",
    )
    decided: list[str] = []
    for fault in ("stopped", "killed"):
        place = folder / fault
        (place / "crews").mkdir(parents=True)
        (place / "crews" / "shop.toml").write_text(CREW)
        decided += await _lose_once(fault, lateness, place, result)
    calls = 2 * len(lateness) * len(TOOLS)
    result.seconds = time.monotonic() - began
    result.figures = {
        "acting calls; effects made twice": f"{calls}, {result.different}",
        "left to a person": f"{len(decided)}: {', '.join(f'{name} {n}' for name, n in Counter(decided).items())}",
        "seconds late": ", ".join(map(str, lateness)),
    }
    result.demand(Demand(faults=2, successes=2 * len(lateness)))
    return result


async def _lose_once(fault: str, lateness: tuple[int, ...], folder: Path, result: Result) -> list[str]:
    """Return the tools of the calls that a person decided about; add failed expectations to the result."""
    ledger, settles = folder / "ledger", lateness[-1] + _MARGIN
    sessions = [f"{fault}-late-{seconds}" for seconds in lateness]
    async with open_harness(folder, respond) as harness:
        shop = {LEDGER: str(ledger), "CHARGEHAND_PLUGINS": "chaos.shop", "CHARGEHAND_CREWS": str(folder / "crews")}
        settings = {**shop, SETTLES: str(settles), "PYTHONPATH": str(ROOT)}
        worker = await harness.worker(**settings)
        running = [asyncio.create_task(_run(harness, each, settles)) for each in sessions]
        await until(lambda: len(asked(ledger)) == len(sessions) * len(TOOLS), "all requests")
        settled_at = time.monotonic() + settles
        harness.fault()
        decided: list[str] = []
        people = [asyncio.create_task(_decide(harness, each, ledger, settled_at, decided)) for each in sessions]
        await _lose(harness, fault, worker, settings)
        outcomes = list(await asyncio.gather(*running))
        for person in people:
            person.cancel()
        await asyncio.gather(*people, return_exceptions=True)
        _judge(harness, sessions, outcomes, effects(ledger), result)
    return decided


async def _run(harness: Harness, session: str, settles: int) -> Outcome:
    return await harness.session(session, 120 + 3 * settles, crew="shop", answer_within=600, review="never")


async def _lose(harness: Harness, fault: str, worker: Worker, settings: dict[str, str]) -> None:
    if fault == "killed":
        await worker.restart()
        await harness.polled(worker)
        return
    worker.send(signal.SIGSTOP)
    await harness.worker(**settings)
    await asyncio.sleep(3 * HEARTBEAT_TIMEOUT.total_seconds())
    worker.send(signal.SIGCONT)


async def _decide(harness: Harness, session: str, ledger: Path, settled_at: float, decided: list[str]) -> None:
    """Inspect the service once it has settled, and repeat a call only if it was not applied."""
    found = harness.chargehand.session(session)
    while True:
        await asyncio.sleep(0.5)
        if time.monotonic() < settled_at:
            continue
        with suppress(ChargehandError):
            for call in (await found.status()).calls:
                if f"{call.tool} {session}" in effects(ledger):
                    await found.reject_call(call, "It was applied.")
                else:
                    await found.approve_call(call)
                decided.append(call.tool)


def _judge(harness: Harness, sessions: list[str], outcomes: list[Outcome], done: list[str], result: Result) -> None:
    counted = Counter(done)
    result.sessions += len(outcomes)
    result.faults += harness.faults
    result.lost += sum(bool(each.ended) for each in outcomes)
    result.stuck += sum(each.is_stuck for each in outcomes)
    result.different += sum(count - 1 for count in counted.values())
    result.successes += sum(each.report is not None for each in outcomes)
    missing = {f"{tool} {session}" for tool in TOOLS for session in sessions} - set(counted)
    result.require(not missing, f"never applied: {sorted(missing)}")
    twice = sorted(each for each, count in counted.items() if count > 1)
    result.require(not twice, f"applied twice: {twice}")
    charged = books.charges(harness.provider.exchanges)
    result.books += books.differences([each.report for each in outcomes if each.report], charged)
    result.extra_calls += books.extra_calls(charged)
