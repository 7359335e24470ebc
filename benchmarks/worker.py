"""The worker process of a benchmark: production settings, scripted backends."""

import argparse
import asyncio
import dataclasses
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from decimal import Decimal
from pathlib import Path
from typing import Final

from temporalio.client import Client
from temporalio.worker import Worker, WorkerTuner

from activities.contracts import ModelCard
from activities.models.protocol import Model
from activities.settings import Settings
from activities.tools import Tool
from benchmarks import scripted
from benchmarks.bare import BareActivities, BareJob, BarePart
from chargehand.contracts import Limits, Tier
from chargehand.converter import data_converter
from tests.environment import PRICES, Backends
from tests.scripted_model import ScriptedModel
from worker_main import build_worker
from workflows.registry import workflow_runner

CEILINGS: Final = Limits(max_turns=1_000, budget_usd=Decimal(10_000), max_parallel=100, max_rounds=50)
"""What the widest and the longest job need."""
_PRICES: Final = {scripted.MODEL_NAME: (Decimal(1), Decimal(5))}


async def _own(address: str, settings: Settings, provider: str, closing: AsyncExitStack) -> Worker:
    client = await Client.connect(address, data_converter=data_converter())
    tools: dict[str, Tool] = {name: scripted.ScriptedTool(name) for name in scripted.TOOL_NAMES}
    card = ModelCard(provider="openai" if provider else "scripted", name=scripted.MODEL_NAME, prices=PRICES)
    backends = Backends(_model(provider, closing), tools, dict.fromkeys(Tier, card))
    activities = backends.activities(settings.state_dir, CEILINGS)
    return build_worker(client, settings, activities)


def _model(provider: str, closing: AsyncExitStack) -> Model:
    if not provider:
        return ScriptedModel(scripted.respond, keeps_calls=False)
    from activities.models.openai_responses import OpenAIResponsesModel  # noqa: PLC0415  # slow to load, seldom used

    adapter = OpenAIResponsesModel(api_key="scripted", base_url=f"{provider}/v1", prices=_PRICES)
    closing.push_async_callback(adapter.aclose)
    return adapter


async def _bare(address: str, settings: Settings, provider: str, closing: AsyncExitStack) -> Worker:
    """Run the hand-written workflows with every setting of the production worker, and the SDK's own converter."""
    client = await Client.connect(address)
    bare = BareActivities(_asking(provider, closing), _use, scripted.instruction)
    activities = [bare.plan, bare.turn, bare.tool, bare.write]
    unused = settings.model_copy(update={"task_queue": f"{settings.task_queue}-unused"})
    options = build_worker(client, unused, activities).config()  # that worker itself never runs
    options["task_queue"] = settings.task_queue
    options["workflows"] = [BareJob, BarePart]
    options["interceptors"] = []
    options["tuner"] = WorkerTuner.create_fixed(activity_slots=settings.max_activities)
    runner = workflow_runner()
    restrictions = runner.restrictions.with_passthrough_modules("benchmarks")
    options["workflow_runner"] = dataclasses.replace(runner, restrictions=restrictions)
    return Worker(**options)


def _asking(provider: str, closing: AsyncExitStack) -> Callable[[str], Awaitable[str]]:
    if not provider:
        return _wait_for_turn
    from openai import AsyncOpenAI  # noqa: PLC0415  # as above

    client = AsyncOpenAI(api_key="scripted", base_url=f"{provider}/v1", max_retries=0)
    closing.push_async_callback(client.close)

    async def ask(prompt: str) -> str:
        response = await client.responses.create(model=scripted.MODEL_NAME, input=prompt)
        return response.output_text

    return ask


async def _wait_for_turn(_: str) -> str:
    await asyncio.sleep(scripted.TURN.total_seconds())
    return scripted.CONTENT


async def _use(query: str) -> str:  # noqa: ARG001  # the same passages whatever is asked
    await asyncio.sleep(scripted.TOOL.total_seconds())
    return "\n\n".join([scripted.QUOTE] * 2)


async def _poll(kind: str, address: str, task_queue: str, provider: str, folder: Path) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    settings = Settings(state_dir=folder, task_queue=task_queue)
    build = _bare if kind == "bare" else _own
    async with AsyncExitStack() as closing, await build(address, settings, provider, closing):
        await stop.wait()


def main() -> None:
    """Poll until SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.worker", description=__doc__)
    parser.add_argument("kind", choices=["own", "bare"])
    parser.add_argument("--address", required=True)
    parser.add_argument("--task-queue", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--provider", default="", help="address of the scripted provider; in-process model without")
    chosen = parser.parse_args()
    asyncio.run(_poll(chosen.kind, chosen.address, chosen.task_queue, chosen.provider, chosen.folder))


if __name__ == "__main__":
    main()
    os._exit(0)  # see worker_main
