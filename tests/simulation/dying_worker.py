"""A real worker process for one session of the sample, which kills itself when its model is asked for the n-th time.

Arguments: address of the server, task queue, folder, session id, position in the sample, n (0 for never).
"""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from temporalio.client import Client

from activities.models.protocol import ModelCall, ModelReply
from chargehand.converter import data_converter
from tests.environment import open_environment
from tests.simulation.sample import respond_as, sample
from tests.simulation.world import CEILINGS


async def main(arguments: Sequence[str]) -> None:
    """Work until killed."""
    address, task_queue, folder, session_id, position, dies_at = arguments
    scenario = sample()[int(position)]
    answer = respond_as(lambda workflow_id: (scenario, workflow_id.removeprefix(session_id)))
    asked = 0

    def respond(call: ModelCall) -> ModelReply:
        nonlocal asked
        asked += 1
        if asked == int(dies_at):
            os.kill(os.getpid(), signal.SIGKILL)
        return answer(call)

    client = await Client.connect(address, data_converter=data_converter())
    async with open_environment(
        client, Path(folder), respond, ceilings=CEILINGS, cached_workflows=100, task_queue=task_queue
    ):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
