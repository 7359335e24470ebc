"""The worker processes of a benchmark: the released one with a scripted tool, and one of hand-written workflows."""

import argparse
import asyncio
import os
import signal
from datetime import timedelta
from typing import Any

from temporalio.client import Client
from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from activities.contracts.tool import Tool
from benchmarks import hand_written, scripted
from worker import composition, program, slots


def _own(*, own_step: bool) -> int:
    """Run the released worker with its own settings; only its tools' answers are scripted."""

    build = composition.build_tools

    def scripted_tools(**made_of: Any) -> dict[str, Tool]:
        return build(**made_of) | {name: scripted.ScriptedTool(name, own_step=own_step) for name in scripted.TOOLS}

    composition.build_tools = scripted_tools
    return program.main([])


async def _hand_written(task_queue: str) -> None:
    """Poll as a careful engineer would configure it: as many slots and pollers as the released worker."""
    from openai import AsyncOpenAI  # noqa: PLC0415  # the released worker does not import it here either

    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    client = await Client.connect(os.environ["TEMPORAL_ADDRESS"])
    async with AsyncOpenAI(api_key="scripted", max_retries=0) as openai:
        activities = hand_written.Activities(openai)
        restrictions = SandboxRestrictions.default.with_passthrough_modules("benchmarks", "openai")
        async with Worker(
            client,
            task_queue=task_queue,
            workflows=hand_written.WORKFLOWS,
            activities=[
                activities.plan,
                activities.turn,
                activities.tool,
                activities.turn_with_tool,
                activities.write,
                activities.check,
            ],
            workflow_runner=SandboxedWorkflowRunner(restrictions),
            max_concurrent_activities=100,
            max_concurrent_activity_task_polls=slots.POLLS,
            max_concurrent_workflow_task_polls=slots.WORKFLOW_POLLS,
            nonsticky_to_sticky_poll_ratio=0.5,
            graceful_shutdown_timeout=timedelta(seconds=10),
        ):
            print("worker polls", flush=True)
            await stop.wait()


def main() -> int:
    """Poll until SIGTERM; settings are those of a worker, from the environment."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.worker", description=__doc__)
    parser.add_argument("kind", choices=["own", "own-step", "hand-written"])
    kind = parser.parse_args().kind
    if kind != "hand-written":
        return _own(own_step=kind == "own-step")
    asyncio.run(_hand_written(os.environ["CHARGEHAND_TASK_QUEUE"]))
    return 0


if __name__ == "__main__":
    os._exit(main())  # see worker/program.py
