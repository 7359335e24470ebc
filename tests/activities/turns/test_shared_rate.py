"""A rate of model turns that all workers share, held by the server."""

import asyncio
from collections import deque
from itertools import pairwise
from pathlib import Path

import pytest
from temporalio.client import Client

from activities.models.protocol import Model
from activities.turn.activity import TurnActivities
from tests.activities.models.calls import MODELS, a_provider
from tests.activities.turns.one_turn import a_turn, open_front, turn_activities
from tests.scripted_provider import ScriptedReply, ScriptedRequest, answer, error
from worker.composition import activity_slots, turns_queue
from worker.settings import Settings
from worker.workers import build_workers

pytestmark = pytest.mark.nightly

ALLOWED = 10
"""Requests that the provider takes in any second."""
WARM_UP_SECONDS = 2.0
"""A queue that has just come to be lets some more through before its limit takes hold."""


class Throttle:
    """A provider that takes so many requests in any second, and tells the others to come again in one."""

    def __init__(self) -> None:
        self._last_second: deque[float] = deque()
        self.taken: list[tuple[float, bool]] = []
        """When each request arrived, and whether it was taken."""

    def __call__(self, request: ScriptedRequest) -> ScriptedReply:
        while self._last_second and request.arrived_at - self._last_second[0] > 1.0:
            self._last_second.popleft()
        is_taken = len(self._last_second) < ALLOWED
        if is_taken:
            self._last_second.append(request.arrived_at)
        self.taken.append((request.arrived_at, is_taken))
        return answer() if is_taken else error(429, {"retry-after": "1"})


async def test_two_workers_together_stay_below_the_providers_limit(client: Client, tmp_path: Path) -> None:
    """Forty turns at once on two workers that share a limit below the provider's: once it holds, hardly any is refused;
    one that is comes again no sooner than it was told; and all are answered."""
    throttle = Throttle()
    async with a_provider("anthropic", throttle) as (server, model), open_front(client) as front:
        settings = Settings(task_queue=front.task_queue, requests_per_second=6, roles=frozenset({"models"}))
        # A worker for each connection, as in processes of their own.
        other = await Client.connect(client.service_client.config.target_host, data_converter=client.data_converter)
        [one] = build_workers(client, settings, [activities_of(tmp_path / "one", model).take_turn])
        [two] = build_workers(other, settings, [activities_of(tmp_path / "two", model).take_turn])
        async with one, two:
            asked = a_turn().model_copy(update={"queue": turns_queue(settings)})
            results = await asyncio.gather(*(front.take(asked) for _ in range(40)))
        arrivals: dict[str, list[float]] = {}
        for request in server.requests:
            arrivals.setdefault(request.headers["idempotency-key"], []).append(request.arrived_at)

    began, _ = throttle.taken[0]
    warm = [is_taken for at, is_taken in throttle.taken if at - began > WARM_UP_SECONDS]
    assert [result.stop for result in results] == ["answer"] * 40
    assert sum(warm) / len(warm) >= 0.8
    assert all(later - earlier >= 1.0 for times in arrivals.values() for earlier, later in pairwise(times))


def test_without_a_rate_there_is_no_queue_of_its_own() -> None:
    """By default turns stay on the workers' own task queue."""
    settings = Settings()

    assert turns_queue(settings) is None
    assert list(activity_slots(settings)) == [settings.task_queue]


def activities_of(folder: Path, model: Model) -> TurnActivities:
    """Make the activities of one worker."""
    folder.mkdir()
    return turn_activities(folder, model, MODELS["anthropic"])
