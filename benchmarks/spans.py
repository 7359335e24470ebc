"""The cost of spans: the main job on a worker that exports them and on one that does not, alternating."""

import statistics
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from benchmarks import processes
from benchmarks.jobs import Run, measure, own_runs, until_polled
from benchmarks.scripted import Shape
from benchmarks.tables import Row
from chargehand.client import Chargehand
from tests.otlp_receiver import receive_spans

_JOBS: Final = 20
_WARM_UP: Final = 3


async def spans() -> tuple[Sequence[Row], Sequence[str]]:
    """Run jobs on both workers alternately, and read the kernel's counts for each."""
    with tempfile.TemporaryDirectory(prefix="chargehand-bench-") as name, receive_spans() as received:
        folder = Path(name)
        exported = {"OTEL_EXPORTER_OTLP_ENDPOINT": received.url}
        with processes.server(folder) as server, processes.provider(folder) as provider:
            async with AsyncExitStack() as running:
                sides = {
                    kind: await running.enter_async_context(_side(server.address, kind, folder, provider, **more))
                    for kind, more in (("off", {}), ("on", exported))
                }
                client = (await Chargehand.connect(server.address)).client
                taken = {kind: list[tuple[float, float, int]]() for kind in sides}
                for job in range(_WARM_UP + _JOBS):
                    for kind, (run, pid) in sides.items():
                        one = await measure(client, run, Shape(), {"worker": pid, "server": server.process.pid})
                        if job >= _WARM_UP:
                            taken[kind].append((one.cpu["worker"], one.cpu["server"], one.whole.bytes))
    count, size = len(received.spans), sum(map(len, received.bodies))
    rows = [
        {
            "spans": kind,
            "worker CPU, ms a job": statistics.median(worker for worker, _, _ in jobs) * 1_000,
            "server CPU, ms a job": statistics.median(server for _, server, _ in jobs) * 1_000,
            "history, kB": statistics.median(size for _, _, size in jobs) / 1_000,
        }
        for kind, jobs in taken.items()
    ]
    return rows, [f"{count / (_WARM_UP + _JOBS):.0f} spans a job, of {size / count:.0f} bytes each."]


@asynccontextmanager
async def _side(address: str, kind: str, folder: Path, provider: str, **more: str) -> AsyncGenerator[tuple[Run, int]]:
    with processes.worker("own", address, f"spans-{kind}", folder, provider, **more) as worker:
        await until_polled(worker)
        yield own_runs(await Chargehand.connect(address, task_queue=worker.task_queue)), worker.process.pid
