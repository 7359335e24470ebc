"""Concurrent sessions at a throttling, sometimes failing provider, compared with hand-written workflows."""

import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Final

from benchmarks import processes
from benchmarks.jobs import Run, until_polled
from benchmarks.scripted import Shape, said
from benchmarks.speed import Side
from benchmarks.tables import Row
from tests.scripted_provider import Exchange, ScriptedProvider, ScriptedReply, ScriptedRequest, error

_TOOK_TOO_LONG: Final = timedelta(minutes=5)


@dataclass(frozen=True)
class _Case:
    sessions: int
    turn: float
    """Seconds."""
    share: float = 0.0
    """Share of calls that fail."""
    statuses: Sequence[int] = (429,)
    at_most: float = 1.25
    """Maximum time relative to the hand-written workflows."""
    down: float = 0.0
    """Seconds for which the provider answers no call, starting one second after the first one."""

    def __str__(self) -> str:
        if self.down:
            return f"{self.sessions} at once, turns of {self.turn:g} s, the provider down for {self.down:g} s"
        faults = f"{self.share:.0%} {' and '.join(map(str, self.statuses))}" if self.share else "no faults"
        return f"{self.sessions} at once, turns of {self.turn:g} s, {faults}"


_CASES: Final = (
    _Case(20, 0.2, 0.03),
    _Case(20, 5.0, 0.03),
    _Case(40, 0.2, 0.3, (429, 500), at_most=1.5),
    _Case(40, 5.0),
    _Case(20, 20.0, 0.03),
    _Case(20, 0.2, down=60.0),
)
_SETTLED: Final = 5.0
"""Seconds by which all calls in progress at the start of an outage have failed."""


async def throttling() -> tuple[Sequence[Row], Sequence[str]]:
    """Run each case once on each side, in turn, with separate providers that fail alike."""
    sides = Side("Chargehand", "own"), Side("by hand", "hand-written", children=False)
    with tempfile.TemporaryDirectory(prefix="chargehand-bench-") as name, processes.server(Path(name)) as server:
        rows = [await _row(case, sides, server.address, Path(name)) for case in _CASES]
    return rows, [
        "a throttled call is told to wait for 1 s; by hand: one workflow a job, the SDK's back-off from 1 s on"
    ]


async def _row(case: _Case, sides: Sequence[Side], address: str, folder: Path) -> Row:
    row: dict[str, str | float | int | None] = {"": str(case)}
    seconds: list[float] = []
    for side in sides:
        async with ScriptedProvider(_respond(case)) as provider:
            with processes.worker(side.kind, address, side.kind, folder, provider.base_url) as worker:
                await until_polled(worker)
                run = await side.run(address, side.kind)
                began = time.perf_counter()
                good = await _good(run, case.sessions)
                seconds.append(time.perf_counter() - began)
            if case.down:
                row |= _outage(side.name, case, provider.exchanges)
            replies = [each.reply for each in provider.exchanges if each.reply]
        paid = sum(reply.kind != "error" for reply in replies)
        row[f"{side.name}, s"] = seconds[-1]
        row[f"{side.name}: done"] = f"{good} of {case.sessions}"
        row[f"{side.name}: failed calls"] = len(replies) - paid
        row[f"{side.name}: paid beyond the job's"] = paid - case.sessions * Shape().turns
    ratio = seconds[0] / seconds[1]
    return row | {"ratio": ratio, "at most": case.at_most, "verdict": "pass" if ratio <= case.at_most else "MISS"}


def _outage(name: str, case: _Case, exchanges: Sequence[Exchange]) -> Row:
    """Count the calls of an outage; return how long after it as many are answered as there are sessions."""
    ends = [(each.answered_at, each.reply.kind == "error") for each in exchanges if each.answered_at and each.reply]
    failed = [at for at, is_error in ends if is_error]
    until = failed[0] + case.down
    answered = [at - until for at, is_error in ends if not is_error and at > until]
    return {
        f"{name}: calls while it is down, {_SETTLED:g} s after": sum(at > failed[0] + _SETTLED for at in failed),
        f"{name}: answered after its return, s": answered[0],
        f"{name}: as many as sessions, s": answered[case.sessions - 1],
    }


async def _good(run: Run, sessions: int) -> int:
    """Run this many jobs at once; return how many ended successfully and in time."""
    running = [asyncio.ensure_future(run(Shape())) for _ in range(sessions)]
    done, late = await asyncio.wait(running, timeout=_TOOK_TOO_LONG.total_seconds())
    for each in late:
        each.cancel()
    return sum(each.exception() is None for each in done)


def _respond(case: _Case) -> Callable[[ScriptedRequest], ScriptedReply]:
    chance, began = Random(7), list[float]()

    def respond(request: ScriptedRequest) -> ScriptedReply:
        began.append(time.monotonic())
        if case.down and 1 < began[-1] - began[0] < 1 + case.down:
            return error(503)
        if chance.random() < case.share:
            status = chance.choice(case.statuses)
            return error(status, {"retry-after": "1"} if status == 429 else {})
        return said(request).after(case.turn)

    return respond
