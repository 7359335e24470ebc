"""How a session reads the facts about its request: at once if that takes no documents, and again if that fails."""

from collections.abc import Sequence

import pytest

from activities.crews.versions import CrewVersions, PinnedCrew
from chargehand.contracts import SessionRequest
from chargehand.wire import ActivityType
from tests.scripted_model import Script, answer, topics
from tests.workflows.conftest import OpenEnvironment

REQUEST = SessionRequest(goal="What is known?", review="never")


async def _activities(environment: OpenEnvironment) -> Sequence[str]:
    """Run a session; return the types of the activities that it scheduled for itself."""
    async with environment(Script().plan(*topics(1)).on("work", answer("Known."))) as opened:
        session = await opened.chargehand.start(REQUEST)
        assert (await session.result()).answer == "Known."
        history = await opened.chargehand.client.get_workflow_handle(session.id).fetch_history()
    scheduled = [event.activity_task_scheduled_event_attributes for event in history.events]
    return [each.activity_type.name for each in scheduled if each.activity_id]


@pytest.mark.real_server
async def test_a_session_without_documents_is_opened_within_its_first_task(environment: OpenEnvironment) -> None:
    """No activity of its own, with its events and another workflow task, for what a worker knows by itself."""
    assert await _activities(environment) == [ActivityType.TAKE_TURN]


@pytest.mark.real_server
async def test_what_cannot_be_read_at_once_is_read_by_an_activity(
    environment: OpenEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that fails once costs a session an activity, and nothing else."""
    pin, failures = CrewVersions.pin, [OSError("the disk is full")]

    async def failing(self: CrewVersions, name: str, digest: str = "") -> PinnedCrew | None:
        if failures:
            raise failures.pop()
        return await pin(self, name, digest)

    monkeypatch.setattr(CrewVersions, "pin", failing)

    assert await _activities(environment) == [ActivityType.OPEN_SESSION, ActivityType.TAKE_TURN]
