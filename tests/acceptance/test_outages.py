"""Faults and manual operator actions: experiments in their short form (`make chaos` runs all), and a follower."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from chaos.catalogue import EXPERIMENTS
from chaos.harness import open_harness
from chargehand.contracts import Event, SessionRequest, StateEvent, TextEvent, TurnEvent
from tests.scripted_provider import canned_session
from tests.workflows.test_following import by_workflow, events_of

pytestmark = pytest.mark.nightly

GOAL = SessionRequest(goal="Look into all parts of the matter, please.", review="never")
SEED = 20_261_121


@pytest.mark.parametrize("name", ["server-killed", "by-hand", "reset", "stopped-at-each-stage"])
async def test_faults_change_neither_reports_nor_costs(tmp_path: Path, name: str) -> None:
    """With servers killed and sessions or calls paused, reset or stopped, results equal those without faults."""
    result = await EXPERIMENTS[name]("short", Random(f"{SEED}/{name}"), tmp_path)

    assert result.problems == []
    assert (result.lost, result.stuck, result.different) == (0, 0, 0)
    assert result.faults >= 1


async def test_follower_resumes_after_server_and_worker_are_killed(tmp_path: Path) -> None:
    """It reconnects by itself and receives the same events as a follower that starts after the end."""
    events: list[Event] = []
    begun = asyncio.Event()
    async with open_harness(tmp_path, canned_session(subtasks=2, delay=0.2)) as harness:
        worker = await harness.worker()
        session = await harness.chargehand.start(GOAL)

        async def follow() -> None:
            async for event in session.follow():
                events.append(event)
                if isinstance(event, TurnEvent) and event.subtask and event.state == "completed":
                    begun.set()

        following = asyncio.create_task(follow())
        await begun.wait()
        await worker.kill()
        harness.kill_server()
        await asyncio.to_thread(harness.start_server)
        await worker.start()
        await following
        result = await session.result()
        afterwards = await events_of(session)

    texts = [event for event in events if isinstance(event, TextEvent)]
    assert "".join(event.text for event in texts if event.draft == texts[-1].draft) == result.answer
    assert by_workflow([event for event in events if not isinstance(event, TextEvent)]) == by_workflow(
        [event for event in afterwards if not isinstance(event, TextEvent)]
    )
    assert [event.state for event in events if isinstance(event, StateEvent)][-1] == "finished"
