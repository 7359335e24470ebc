"""Run cases as sessions on a real server, in a worker of this process, and score them."""

import asyncio
import os
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final
from uuid import uuid4

from temporalio import activity
from temporalio.client import Client

from benchmarks.evaluation.dataset import ROOT, Backend, Case, Dataset
from benchmarks.evaluation.oracle import Oracle, Shape
from benchmarks.evaluation.scores import Scores, score
from chargehand.client import Chargehand
from chargehand.contracts import SessionRequest
from chargehand.contracts.limits import PROFILES
from chargehand.errors import SessionEnded
from chargehand.upload import store_documents
from chargehand_plugins.tape.contracts import Line
from chargehand_plugins.tape.worker import recorded, replayed
from worker.composition import compose
from worker.parts import TrafficWrapper
from worker.settings import Settings
from worker.workers import build_worker

_CEILINGS: Final = PROFILES["deep"].model_copy(update={"max_parallel": 50})
"""The largest profile is allowed, and cases may run more at once."""
_AT_ONCE: Final = 3


@dataclass(frozen=True)
class Variant:
    """What of a session's setting is evaluated, beside the settings of the environment."""

    crew: str | None = None
    profile: str | None = None
    shape: Shape = "flat"
    """Of the oracle's plans."""


@dataclass
class Traces:
    """Keeps what passes, by session."""

    lines: defaultdict[str, list[Line]] = field(default_factory=lambda: defaultdict[str, list[Line]](list))

    def keep(self, line: Line) -> None:
        session = (activity.info().workflow_id or "").partition("/")[0]
        self.lines[session].append(line)


async def evaluate(
    client: Client,
    folder: Path,
    dataset: Dataset,
    backend: Backend,
    *,
    repetitions: int = 1,
    variant: Variant | None = None,
) -> list[Scores]:
    """Run every case that this backend can answer so often, some at the same time, in the order of the dataset."""
    variant = variant or Variant()
    oracle = Oracle.of(dataset.cases, variant.shape).wrap if backend == "oracle" else None
    needed = {"tape": "tape", "oracle": "plan", "configured": "goal"}[backend]
    cases = [case for case in dataset.cases if getattr(case, needed)]
    runs = [(case, number) for case in cases for number in range(1, repetitions + 1)]
    free = asyncio.Semaphore(_AT_ONCE)

    async def run(case: Case, number: int, runner: "Runner") -> Scores:
        async with free:
            return await runner.run(case, number, variant)

    if backend == "tape":
        found: list[Scores] = []
        for case, number in runs:
            async with _worker(client, folder, partial(replayed, ROOT / (case.tape or ""))) as runner:
                found.append(await run(case, number, runner))
        return found
    async with _worker(client, folder, oracle) as runner:
        return list(await asyncio.gather(*(run(case, number, runner) for case, number in runs)))


@asynccontextmanager
async def _worker(client: Client, folder: Path, wrap: TrafficWrapper | None = None) -> AsyncGenerator["Runner"]:
    """Run a worker as `worker_main` composes it, and record what passes."""
    settings = Settings(
        state_dir=folder,
        task_queue=f"evaluation-{uuid4().hex[:8]}",
        ceilings=_CEILINGS,
        storage=str(folder / "payloads"),
    )
    traces = Traces()
    async with AsyncExitStack() as closing:
        wrappers = [wrap] if wrap else []
        activities = await compose(settings, os.environ, closing, *wrappers, partial(recorded, traces))
        async with build_worker(client, settings, activities):
            yield Runner(Chargehand(client, settings.task_queue), traces, folder, has_tools=wrap is None)


@dataclass
class Runner:
    """Runs cases on a worker."""

    chargehand: Chargehand
    traces: Traces
    folder: Path
    has_tools: bool
    """Whether documents are read."""

    async def run(self, case: Case, number: int, variant: Variant) -> Scores:
        """Run a case; a session without a report scores nothing."""
        started = time.monotonic()
        session = await self.chargehand.start(await self._request(case, variant), session_id=uuid4().hex)
        try:
            report = await session.result()
        except SessionEnded as error:
            return Scores(case=case.id, repetition=number, passed=False, completed=False, error=str(error)[:500])
        return score(case, report, self.traces.lines.pop(session.id, []), time.monotonic() - started, number)

    async def _request(self, case: Case, variant: Variant) -> SessionRequest:
        documents: Sequence[str] = ()
        if case.documents and (self.has_tools or case.documents_on_tape):
            folder = ROOT / case.documents
            documents = await asyncio.to_thread(store_documents, (folder,), str(self.folder / "artifacts"))
        changed = {name: value for name in ("crew", "profile") if (value := getattr(variant, name))}
        request = case.model_copy(update=changed).request(tuple(documents))
        return SessionRequest.model_validate(request.model_dump(exclude={"limits"}))
