"""Following a session on a server and a worker that are killed."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from temporalio.api.workflowservice.v1 import GetSystemInfoRequest
from temporalio.client import Client
from temporalio.service import RPCError

from chargehand.client import Chargehand
from chargehand.contracts import Event, SessionRequest, StateEvent, TextEvent, TurnEvent
from chargehand_cli.embedded.server import ServerProcess, end_process, start_server
from chargehand_cli.embedded.user import find_temporal
from tests.acceptance.test_real_wires import settings
from tests.acceptance.workers import worker_process
from tests.scripted_provider import ScriptedProvider, canned_session
from tests.waiting import until
from tests.workflows.test_following import by_workflow, events_of

pytestmark = pytest.mark.nightly

GOAL = SessionRequest(goal="Look into all parts of the matter, please.", review="never")


async def test_nothing_is_lost_or_doubled_while_server_and_worker_are_killed(tmp_path: Path) -> None:
    """A follower goes on by itself when both come back, and was given what one sees that follows afterwards."""
    events: list[Event] = []

    with (tmp_path / "server.lock").open("w") as lock:

        def start(prefer: int) -> ServerProcess:
            database, log = tmp_path / "temporal.db", tmp_path / "server.log"
            return start_server(find_temporal(), database, log, lock_descriptor=lock.fileno(), prefer=prefer)

        server = start(0)
        try:
            async with ScriptedProvider(canned_session(subtasks=2, delay=0.2)) as provider:
                chargehand = await Chargehand.connect(server.address)
                chosen = settings("openai_compatible", provider.base_url, chargehand.client, tmp_path)
                chargehand.task_queue = chosen["CHARGEHAND_TASK_QUEUE"]
                session = await chargehand.start(GOAL)

                begun = asyncio.Event()

                async def follow() -> None:
                    async for event in session.follow():
                        events.append(event)
                        if isinstance(event, TurnEvent) and event.subtask and event.state == "completed":
                            begun.set()

                following = asyncio.create_task(follow())
                async with worker_process(chosen) as worker:
                    await asyncio.wait_for(begun.wait(), 60)
                    worker.kill()
                    os.killpg(server.process.pid, signal.SIGKILL)
                    server.process.wait()
                    await until(lambda: _is_away(chargehand.client))
                    server = start(server.port)
                async with worker_process(chosen):
                    await asyncio.wait_for(following, 60)
                result = await session.result()
                afterwards = await events_of(session)
        finally:
            end_process(server.process, grace_seconds=5)

    texts = [event for event in events if isinstance(event, TextEvent)]
    assert "".join(event.text for event in texts if event.draft == texts[-1].draft) == result.answer
    assert by_workflow([event for event in events if not isinstance(event, TextEvent)]) == by_workflow(
        [event for event in afterwards if not isinstance(event, TextEvent)]
    )
    assert [event.state for event in events if isinstance(event, StateEvent)][-1] == "finished"


async def _is_away(client: Client) -> bool:
    try:
        await client.workflow_service.get_system_info(GetSystemInfoRequest())
    except RPCError:
        return True
    return False
