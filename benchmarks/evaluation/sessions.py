"""Run cases as sessions on a real server, in a worker of this process, and score them."""

import asyncio
import os
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Final, cast
from uuid import uuid4

from temporalio import activity
from temporalio.client import Client

from benchmarks.evaluation.dataset import Backend, Case, Dataset
from benchmarks.evaluation.judge import Judge
from benchmarks.evaluation.oracle import Oracle, Shape
from benchmarks.evaluation.scores import Scores, score
from benchmarks.evaluation.spending import Spending
from chargehand.client import Chargehand
from chargehand.contracts import Limits, SessionRequest
from chargehand.contracts.limits import PROFILES, Profile
from chargehand.errors import ChargehandError
from chargehand.session import Session
from chargehand.upload import store_documents
from chargehand_plugins.tape.contracts import Line
from chargehand_plugins.tape.worker import recorded, replayed
from worker.composition import compose
from worker.parts import TrafficWrapper
from worker.settings import Settings
from worker.workers import build_worker

_CEILINGS: Final = PROFILES["deep"].model_copy(update={"max_parallel": 50})
"""The largest profile is allowed, and a case may run more subtasks in parallel."""
_AT_ONCE: Final = 3


@dataclass(frozen=True)
class Variant:
    """The variant of a session under evaluation, on top of the settings of the environment."""

    crew: str | None = None
    profile: str | None = None
    shape: Shape = "flat"
    """Shape of the oracle's plans."""

    def limits(self, case: Case) -> Limits:
        """Return the limits of a case."""
        return PROFILES[cast("Profile", self.profile) if self.profile else case.profile or "standard"]


@dataclass
class Traces:
    """Keeps the recorded traffic, by session."""

    lines: defaultdict[str, list[Line]] = field(default_factory=lambda: defaultdict[str, list[Line]](list))

    def keep(self, line: Line) -> None:
        session = (activity.info().workflow_id or "").partition("/")[0]
        self.lines[session].append(line)


@dataclass(frozen=True)
class Job:
    """The part of a dataset to run."""

    dataset: Dataset
    backend: Backend
    repetitions: int = 1
    variant: Variant = field(default_factory=Variant)
    done: frozenset[tuple[str, int]] = frozenset()
    """The repetitions of cases that have already been scored."""

    @property
    def runs(self) -> list[tuple[Case, int]]:
        """The cases that this backend can answer, each with its repetition number."""
        needed = {"tape": "tape", "oracle": "plan", "configured": "goal"}[self.backend]
        cases = [case for case in self.dataset.cases if getattr(case, needed) or self._is_golden(case)]
        return [
            (case, number)
            for case in cases
            for number in range(1, self.repetitions + 1)
            if (case.id, number) not in self.done
        ]

    def limits(self, case: Case) -> Limits:
        """Return the limits of a case."""
        return self.variant.limits(case)

    def _is_golden(self, case: Case) -> bool:
        return self.backend == "oracle" and self.variant.shape == "single" and case.answer is not None


async def evaluate(
    client: Client,
    folder: Path,
    job: Job,
    keep: Callable[[Scores], None],
    *,
    spending: Spending | None = None,
    judge: Judge | None = None,
) -> None:
    """Run every case, some concurrently, and save the scores of each as it ends.

    Raises:
        NotAffordable: the run's remaining dollars do not cover another case; running cases are finished first.
    """
    spending = spending or Spending()
    free = asyncio.Semaphore(_AT_ONCE)
    reserve = judge.most_usd if judge else Decimal(0)

    async def run(case: Case, number: int, runner: "Runner") -> None:
        async with free, spending.reserve(job.limits(case).budget_usd + reserve):
            scores = await runner.run(case, number, job.variant, judge)
            spending.charge(scores.usd + scores.judge_usd)
            keep(scores)

    if job.backend == "tape":
        for case, number in job.runs:
            async with _worker(client, folder, partial(replayed, Path(case.tape or ""))) as runner:
                await run(case, number, runner)
        return
    oracle = Oracle.of(job.dataset.cases, job.variant.shape).wrap if job.backend == "oracle" else None
    async with _worker(client, folder, oracle) as runner:
        ends = await asyncio.gather(*(run(case, number, runner) for case, number in job.runs), return_exceptions=True)
    for end in ends:
        if isinstance(end, BaseException):
            raise end


@asynccontextmanager
async def _worker(client: Client, folder: Path, wrap: TrafficWrapper | None = None) -> AsyncGenerator["Runner"]:
    """Run a worker as `worker_main` composes it, and record its traffic."""
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
    """Whether agents read documents."""

    async def run(self, case: Case, number: int, variant: Variant, judge: Judge | None = None) -> Scores:
        """Run a case; failures are reported in its scores, together with their cost."""
        started = time.monotonic()
        session: Session | None = None
        try:
            session = await self.chargehand.start(await self._request(case, variant), session_id=uuid4().hex)
            report = await session.result()
            lines = self.traces.lines.pop(session.id, [])
            scores = score(case, report, lines, time.monotonic() - started, number)
            return await judge.decide(case, report.answer, scores) if judge else scores
        except Exception as error:  # noqa: BLE001  # one case must not end the run of the others
            problem = f"{type(error).__name__}: {error}"[:500]
            usd = await _spent(session, variant.limits(case).budget_usd) if session else Decimal(0)
            return Scores(
                case=case.id, repetition=number, passed=False, reason="There is no report.", error=problem, usd=usd
            )

    async def _request(self, case: Case, variant: Variant) -> SessionRequest:
        documents: Sequence[str] = ()
        if case.documents and (self.has_tools or case.documents_on_tape):
            paths = (Path(case.documents),)
            documents = await asyncio.to_thread(store_documents, paths, str(self.folder / "artifacts"))
        changed = {name: value for name in ("crew", "profile") if (value := getattr(variant, name))}
        request = case.model_copy(update=changed).request(tuple(documents))
        return SessionRequest.model_validate(request.model_dump(exclude={"limits"}))


async def _spent(session: Session, most: Decimal) -> Decimal:
    """Stop an abandoned session and return what it has spent: the maximum it may spend, if that is unknown."""
    with suppress(ChargehandError):
        await session.cancel()
    try:
        status = await session.recorded_status()
        return status.spent_usd + status.reserved_usd
    except ChargehandError:
        return most
