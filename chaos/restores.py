"""A database restored to an earlier copy of itself, from before, during and after acting calls."""

import asyncio
import json
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, Final

from chaos import books
from chaos.harness import ROOT, Harness, Outcome, Worker, open_harness, until
from chaos.result import Demand, Result, Scale
from chaos.shop import CREW, LEDGER, TOOLS, effects
from chargehand.contracts import Usage
from tests.scripted_provider import ScriptedReply, ScriptedRequest, ToolUse, answer, calling, plan, subtask

_MOMENTS: Final = ("before", "in", "after")
_DATABASE: Final = "temporal.db"


@dataclass(frozen=True)
class _Case:
    moment: str
    """When the copy is made: before, during or after the calls."""
    is_dead: bool
    """Whether the worker is killed at that moment and again before the restore; otherwise it survives both."""

    @property
    def session(self) -> str:
        return f"{self.moment}-{'dead' if self.is_dead else 'alive'}"


async def restored(scale: Scale, random: Random, folder: Path) -> Result:  # noqa: ARG001  # nothing is random here
    """Restore the database from a copy made before, in and after a session's calls, with the worker alive and dead;
    a session begun after the copy vanishes. The books of the one that continues are repaired while it runs."""
    every = [_Case(moment, is_dead) for moment, is_dead in product(_MOMENTS, (False, True))]
    cases = every[1:3] if scale == "short" else every * {"full": 1, "nightly": 10}[scale]
    began = time.monotonic()
    result = Result(
        "Restored", "database restored from a copy made before, during or after acting calls, worker alive or dead"
    )
    unknown: list[int] = []
    (folder / "crews").mkdir()
    (folder / "crews" / "shop.toml").write_text(CREW)
    for number, case in enumerate(cases):
        place = folder / f"{number}-{case.session}"
        place.mkdir()
        unknown.append(await _restore_once(case, place, folder / "crews", result))
    result.seconds = time.monotonic() - began
    result.figures = {
        "acting calls; effects made twice": f"{3 * 2 * len(cases)}, {result.different}",
        "unknown outcome, left to a person": str(sum(unknown)),
        "vanished sessions, all named": str(len(cases)),
    }
    result.demand(Demand(faults=len(cases), successes=len(cases)))
    return result


async def _restore_once(case: _Case, folder: Path, crews: Path, result: Result) -> int:
    """Return how many calls were left to a person; add failed expectations to the result."""
    ledger = folder / "ledger"
    async with open_harness(folder, respond) as harness:
        shop = {LEDGER: str(ledger), "CHARGEHAND_PLUGINS": "chaos.shop", "CHARGEHAND_CREWS": str(crews)}
        worker = await harness.worker(**shop, PYTHONPATH=str(ROOT))
        since = datetime.now(UTC)
        going_on = asyncio.create_task(_run(harness, case.session))
        await until(_moment(case, harness, ledger), f"the moment {case.moment} the calls")
        _copy(folder / _DATABASE, folder / "backup.db")
        if case.is_dead:
            await _replace(harness, worker)
        first = await going_on
        vanished = await _run(harness, f"{case.session}-vanished")
        await _put_back(harness, worker, is_dead=case.is_dead)
        harness.fault()
        running = asyncio.create_task(_run(harness, case.session))
        await _reconcile(harness, since, "--repair", result=result)
        again = await running
        told = await _reconcile(harness, since)
        _judge(case, harness, result, [first, vanished, again], told=told, done=Counter(effects(ledger)))
    report = again.report
    return sum("Outcome unknown" in gap for gap in report.gaps) if report else 0


def respond(request: ScriptedRequest) -> ScriptedReply:
    """Make the clerk issue three calls at once for an order named after the session."""
    order = books.session_of(request)
    match request.answer:
        case "PlanAnswer":
            return plan(subtask("T1", "clerk", f"Book, ship and pay order {order}."))
        case "WorkAnswer" if request.rounds == 0:
            return calling(*(ToolUse(name, {"order": order}) for name in TOOLS)).after(0.5)
        case _:
            return answer("The order is settled.").after(0.5)


def _moment(case: _Case, harness: Harness, ledger: Path) -> Callable[[], bool]:
    turns = {"before": 2, "after": 3}
    if case.moment in turns:
        return lambda: len(harness.provider.exchanges) == turns[case.moment]
    return lambda: len(effects(ledger)) == len(TOOLS)


async def _run(harness: Harness, session: str) -> Outcome:
    """Run a session, or wait for the end of the one with that id."""
    return await harness.session(session, 90, crew="shop", answer_within=5, review="never")


def _copy(database: Path, backup: Path) -> None:
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as source, sqlite3.connect(backup) as target:
        source.backup(target)
    source.close()
    target.close()


async def _replace(harness: Harness, worker: Worker) -> None:
    await worker.restart()
    await harness.polled(worker)


async def _put_back(harness: Harness, worker: Worker, *, is_dead: bool) -> None:
    if is_dead:
        await worker.kill()
    harness.kill_server()
    for name in (f"{_DATABASE}-wal", f"{_DATABASE}-shm"):
        (harness.folder / name).unlink(missing_ok=True)
    (harness.folder / "backup.db").replace(harness.folder / _DATABASE)
    harness.start_server()
    if is_dead:
        await worker.start()
        await harness.polled(worker)


async def _reconcile(
    harness: Harness, since: datetime, *options: str, result: Result | None = None
) -> dict[str, dict[str, Any]]:
    process = await asyncio.create_subprocess_exec(
        *(
            str(Path(sys.executable).parent / "chargehand"),
            "reconcile",
            "--since",
            since.isoformat(),
            "--json",
            *options,
        ),
        *("--address", harness.server.address, "--state-dir", harness.settings["CHARGEHAND_STATE_DIR"]),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, remarks = await process.communicate()
    if result:
        result.require(b"could not be told" not in remarks, remarks.decode())
    return {each["session"]: each for each in json.loads(said)}


def _judge(
    case: _Case,
    harness: Harness,
    result: Result,
    outcomes: list[Outcome],
    *,
    told: dict[str, dict[str, Any]],
    done: Counter[str],
) -> None:
    session, vanished = case.session, f"{case.session}-vanished"
    result.sessions += len(outcomes)
    result.faults += harness.faults
    result.lost += sum(bool(each.ended) for each in outcomes)
    result.stuck += sum(each.is_stuck for each in outcomes)
    result.different += sum(count - 1 for count in done.values())
    result.successes += all(each.report for each in outcomes)
    due = {f"{tool} {order}" for tool in TOOLS for order in (session, vanished)}
    result.require(set(done) == due, f"{session}: not done: {due - set(done)}")
    result.require(told.get(vanished, {}).get("state") == "vanished", f"{vanished} was not named")
    charged = books.charges(harness.provider.exchanges)
    for name, report in ((session, outcomes[-1].report), (vanished, None)):
        entry, provider = told.get(name, {}), charged[name].total() * books.CALL_USD
        usage, unbooked = report.usage if report else Usage(), Decimal(entry.get("in_no_books_usd", 0))
        booked = usage.cost_usd + unbooked
        is_equal = booked - usage.possibly_billed_twice_usd <= provider <= booked
        result.require(is_equal, f"{name}: ${booked} in its books and in none, ${provider} charged")
        calls = {each["tool"] for each in entry.get("calls", ())}
        result.require(calls == set(TOOLS), f"{name}: only the calls {calls} were named")
