"""The cost of computations: programs, queries and charts, each compared with the bare library behind it."""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from activities.contracts.tool import Tool, ToolContext
from activities.documents.artifacts import ArtifactStore
from activities.documents.library import DocumentLibrary
from activities.tools.code.monty import MontyRunner
from activities.tools.code.protocol import CodeRunner
from activities.tools.code.tool import RunCode
from activities.tools.data.query import QueryData
from benchmarks.tables import Row
from chargehand_plugins.bubblewrap.runner import BubblewrapRunner, SandboxUnusableError
from chargehand_plugins.bubblewrap.self_test import require_tight
from chargehand_plugins.charts.tool import DrawChart

_REPETITIONS: Final = 10
_ROWS: Final = 100_000
_CODE: Final = "print(sum(number * number for number in range(1000)))"
_SQL: Final = "SELECT region, sum(revenue) AS revenue FROM sales GROUP BY region ORDER BY region"
_CHART: Final[dict[str, JsonValue]] = {
    "kind": "bar",
    "sql": _SQL,
    "x": "region",
    "y": ["revenue"],
    "title": "Revenue by region",
}
# Each prints its milliseconds without the start of the interpreter, and its peak memory in kilobytes.
_BARE: Final = """
import json, resource, sys, time
from pathlib import Path
started = time.perf_counter()
{work}
print(json.dumps([(time.perf_counter() - started) * 1000, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss]))
"""
_BARE_MONTY: Final = """
from pydantic_monty import Monty
started = time.perf_counter()  # the worker, too, imports it only once
with Monty(min_processes=1, max_processes=1) as pool, pool.checkout() as session:
    session.feed_run({code!r}, print_callback=lambda stream, text: None)
"""
_BARE_PYTHON: Final = "import subprocess; subprocess.run([sys.executable, '-ISB', '-c', {code!r}], capture_output=True)"
_BARE_QUERY: Final = """
import duckdb
duckdb.connect({database!r}, read_only=True).execute({sql!r}).fetchall()
"""
_BARE_CHART: Final = """
import duckdb
rows = duckdb.connect({database!r}, read_only=True).execute({sql!r}).fetchall()
from matplotlib.figure import Figure
figure = Figure(figsize=(8, 4.5), dpi=120)
figure.add_subplot().bar([row[0] for row in rows], [row[1] for row in rows])
figure.savefig({picture!r})
"""


async def tools() -> tuple[Sequence[Row], Sequence[str]]:
    """Call each tool repeatedly; the first call is counted separately, because it loads libraries."""
    with tempfile.TemporaryDirectory(prefix="chargehand-bench-") as name:
        folder = Path(name)
        bench = _Bench(folder)
        rows = [await bench.code(MontyRunner(), _BARE_MONTY.format(code=_CODE))]
        notes = [
            "Bare: the library alone in a Python process that already runs, without limits, kill switch or artifacts.",
            f"Tables of {_ROWS:,} rows. Peak memory is that of the largest process that did the work.",
        ]
        runner = BubblewrapRunner()
        try:
            started = time.perf_counter()
            await require_tight(runner)
        except SandboxUnusableError as error:
            notes.append(f"bubblewrap: not measured, {error}")
        else:
            checked = (time.perf_counter() - started) * 1_000
            notes.append(f"bubblewrap: the self-test at a worker's start took {checked:.0f} ms.")
            rows.append(await bench.code(runner, _BARE_PYTHON.format(code=_CODE)))
        rows += [await bench.query(), await bench.chart()]
    return rows, notes


class _Bench:
    """A folder with one table, and the tools that use it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        lines = (f"{number},region {number % 8},{number * 1.5}" for number in range(_ROWS))
        (folder / "sales.csv").write_text("id,region,revenue\n" + "\n".join(lines) + "\n")
        self._store = ArtifactStore(folder / "artifacts")
        self._library = DocumentLibrary(self._store, folder / "index", (folder,))
        documents = (f"file:{folder}/sales.csv",)
        self._context = ToolContext(session="bench", agent="analyst", idempotency_key="k", documents=documents)

    async def code(self, runner: CodeRunner, bare: str) -> Row:
        tool = RunCode(runner, self._store)
        return await self._row(f"run_code, {runner.name}", tool, {"code": _CODE}, bare)

    async def query(self) -> Row:
        bare = _BARE_QUERY.format(database=await self._database(), sql=_SQL)
        return await self._row("query_data", QueryData(self._library), {"sql": _SQL}, bare)

    async def chart(self) -> Row:
        picture = str(self._folder / "bare.png")
        bare = _BARE_CHART.format(database=await self._database(), sql=_SQL, picture=picture)
        return await self._row("draw_chart, PNG", DrawChart(self._library, self._store, 60.0), _CHART, bare)

    async def _database(self) -> str:
        database = (await self._library.open(self._context.documents)).database
        assert database is not None
        return str(database)

    async def _row(self, what: str, tool: Tool, arguments: dict[str, JsonValue], bare: str) -> Row:
        async def call() -> None:
            answer = await tool.use(arguments, self._context)
            if not answer.ok:
                raise RuntimeError(f"{what}: {answer.output}")

        first, later, peak = await _timed(call)
        alone = [_alone(bare) for _ in range(_REPETITIONS + 1)][1:]
        median, bare_median = statistics.median(later), statistics.median(ms for ms, _ in alone)
        return {
            "": what,
            "first, ms": first,
            "median, ms": median,
            "max, ms": max(later),
            "bare, ms": bare_median,
            "ratio": median / bare_median,
            "peak RSS, MB": peak / 1e6,
            "bare RSS, MB": max(kilobytes for _, kilobytes in alone) / 1e3,
        }


async def _timed(call: Callable[[], Awaitable[None]]) -> tuple[float, list[float], int]:
    """Return the milliseconds of the first and later calls, and the peak memory of any of their processes."""
    times: list[float] = []
    seen: set[int] = {0}
    watching = asyncio.create_task(_watch(seen))
    for _ in range(_REPETITIONS + 1):
        started = time.perf_counter()
        await call()
        times.append((time.perf_counter() - started) * 1_000)
    watching.cancel()
    await asyncio.wait({watching})
    return times[0], times[1:], max(seen)


async def _watch(seen: set[int]) -> None:
    """Record the peak memory of this process's descendants every few milliseconds, until cancelled."""
    while True:
        seen.update(map(_peak_rss, _below(os.getpid())))
        await asyncio.sleep(0.005)


def _below(pid: int) -> list[int]:
    try:
        # A process is the child of the thread that started it.
        listed = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:
        return []
    children = [int(child) for child in " ".join(listed).split()]
    return children + [below for child in children for below in _below(child)]


def _peak_rss(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)


def _alone(work: str) -> tuple[float, int]:
    program = _BARE.format(work=work)
    ended = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    milliseconds, kilobytes = json.loads(ended.stdout)
    return float(milliseconds), int(kilobytes)
