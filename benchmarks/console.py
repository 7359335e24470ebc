"""The console under load: how long its session list takes to show, search and filter."""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from httpx2 import AsyncClient
from temporalio.client import Client
from temporalio.common import SearchAttributePair, TypedSearchAttributes

from benchmarks import processes
from benchmarks.tables import Row
from chargehand.client import Chargehand
from chargehand.search_attributes import CREW, DOLLARS, STATE, TENANT, TURNS
from chargehand.wire import WorkflowType
from chargehand_plugins.console.backend import Backend
from chargehand_plugins.console.server import serving
from chargehand_plugins.console.settings import ConsoleSettings

_SESSIONS: Final = 5_000
_AT_ONCE: Final = 50
_TIMES: Final = 9
_ALLOWED_MS: Final = 300
_SETTLED_SECONDS: Final = 11
"""The console rereads sessions for this long after they start; here, all of them have just started."""
_TOKEN: Final = "a-token-of-the-benchmark"
_PLAN: Final = [{"id": f"T{number}", "agent": "reader", "instruction": "Read the file. " * 8} for number in range(5)]
_PATHS: Final = {
    "all": "/sessions",
    "a word that one has": "/sessions?q=ferry-17.",
    "a word that all have": "/sessions?q=harbour",
    "a word that none has": "/sessions?q=submarine",
    "a tenant": "/sessions?tenant=globex",
    "a state": "/sessions?state=awaiting_approval",
    "by HTTP, 100": "/api/v1/sessions?limit=100",
}


async def console() -> tuple[Sequence[Row], Sequence[str]]:
    """Measure the pages of a console whose server has many sessions."""
    with tempfile.TemporaryDirectory(prefix="chargehand-bench-") as name, processes.server(Path(name)) as server:
        chargehand = await Chargehand.connect(server.address, task_queue="unserved")
        await _start(chargehand.client)
        settings = ConsoleSettings(_TOKEN, port=0, requests_per_minute=100_000)
        async with (
            serving(Backend(lambda: chargehand, None), settings) as running,
            AsyncClient(base_url=running.url, headers={"Origin": running.url}, timeout=60, trust_env=False) as browser,
        ):
            await asyncio.sleep(_SETTLED_SECONDS)
            await browser.post("/login", data={"token": _TOKEN})
            browser.headers["Authorization"] = f"Bearer {_TOKEN}"
            rows = [await _row(browser, what, path) for what, path in _PATHS.items()]
    slowest = max(float(row["median, ms"] or 0) for row in rows)
    return rows, [
        f"{_SESSIONS:,} sessions; the slowest takes {slowest / _ALLOWED_MS:.2f} of the {_ALLOWED_MS} ms allowed"
    ]


async def _row(browser: AsyncClient, what: str, path: str) -> Row:
    taken: list[float] = []
    answered = await browser.get(path)
    for _ in range(_TIMES):
        began_at = time.perf_counter()
        answered = await browser.get(path)
        taken.append((time.perf_counter() - began_at) * 1_000)
    answered.raise_for_status()
    return {
        "what": what,
        "median, ms": statistics.median(taken),
        "slowest, ms": max(taken),
        "kB": len(answered.content) / 1_000,
    }


async def _start(client: Client) -> None:
    """Start sessions that no worker picks up, with the list entries that a worker would have written."""
    begun = asyncio.Semaphore(_AT_ONCE)

    async def start(number: int) -> None:
        tenant = ("acme", "globex", "initech")[number % 3]
        state = "awaiting_approval" if number % 50 == 0 else "executing"
        attributes = [(CREW, "research"), (TENANT, tenant), (STATE, state), (DOLLARS, 0.12), (TURNS, 9)]
        async with begun:
            await client.start_workflow(
                WorkflowType.SUPERVISOR,
                {"goal": f"When does ferry-{number}. leave the harbour?"},
                id=f"session-{number}",
                task_queue="unserved",
                memo={"goal": f"When does ferry-{number}. leave the harbour?", "state": state, "plan": _PLAN},
                search_attributes=TypedSearchAttributes([SearchAttributePair(key, value) for key, value in attributes]),  # pyright: ignore[reportArgumentType]  # each value is of its key's type
            )

    await asyncio.gather(*map(start, range(_SESSIONS)))
