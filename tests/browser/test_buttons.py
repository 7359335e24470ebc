"""F46: what people press in the Web UI does to a session what the same call by the API does."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import quote

import pytest

from chaos.ground import STEPS, Ground, is_as_without_faults, open_ground, script
from chargehand.client import Session
from chargehand.contracts import SessionRequest
from chargehand.errors import SessionEnded
from tests.browser.chromium import Tab
from tests.browser.web_ui import SessionPage
from tests.scripted_provider import ScriptedReply, ScriptedRequest
from tests.waiting import until

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
async def ground(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Ground]:
    async with open_ground(tmp_path_factory.mktemp("ground")) as opened:
        await opened.worker()
        yield opened


@dataclass
class Running:
    """A session whose first subtask waits for a model's answer."""

    session: Session
    page: SessionPage
    subtask: str
    released: asyncio.Event
    asked_before: int
    """How many model calls had been made when it was started."""


async def begin(ground: Ground, tab: Tab, name: str) -> Running:
    """Start a session and bring it to where one of its model calls is under way."""
    usual, asked, released = script(), asyncio.Event(), asyncio.Event()
    asked_before = len(ground.provider.requests)

    async def respond(request: ScriptedRequest) -> ScriptedReply:
        if "part 1 of" in request.text and request.answer == "WorkAnswer" and not asked.is_set():
            asked.set()
            await released.wait()
        reply = usual(request)
        assert isinstance(reply, ScriptedReply)
        return reply

    ground.provider.respond = respond
    session = await ground.chargehand.start(SessionRequest(goal="Look into all parts of it."), session_id=name)
    await asyncio.wait_for(asked.wait(), 30)
    subtask = (await session.status()).subtasks[0].workflow_id
    assert subtask
    return Running(session, SessionPage(tab, _address(ground, name)), subtask, released, asked_before)


def _address(ground: Ground, workflow_id: str) -> str:
    return f"{ground.server.ui_url}/namespaces/default/workflows/{quote(workflow_id, safe='')}"


async def _is_closed(ground: Ground, workflow_id: str) -> bool:
    described = await ground.chargehand.client.get_workflow_handle(workflow_id).describe()
    return described.close_time is not None


async def _ends_as_usual(ground: Ground, running: Running) -> None:
    report = await asyncio.wait_for(running.session.result(), 30)

    assert is_as_without_faults(report)
    assert len(ground.provider.requests) - running.asked_before == report.usage.turns == STEPS


@pytest.mark.parametrize(
    ("menu_item", "button", "status"),
    [("Request Cancellation", "Confirm", "Canceled"), ("Terminate", "Terminate", "Terminated")],
)
async def test_a_session_that_is_stopped_stops_paying(
    ground: Ground, tab: Tab, menu_item: str, button: str, status: str
) -> None:
    """Cancelled or terminated, a session ends without a report, its subtasks end too, and the call is hung up."""
    running = await begin(ground, tab, f"stopped-{status}")

    await running.page.open()
    await running.page.act(menu_item)
    await running.page.confirm(button)
    await running.page.becomes(status)

    with pytest.raises(SessionEnded):
        await asyncio.wait_for(running.session.result(), 15)
    await ground.provider.until(lambda: any(each.hung_up for each in ground.provider.exchanges[-2:]))
    await until(lambda: _is_closed(ground, running.subtask))


async def test_a_signal_by_hand_changes_nothing(ground: Ground, tab: Tab) -> None:
    """Signals are between a session and its subtasks: what a person types is not taken for one of theirs."""
    running = await begin(ground, tab, "signalled")

    await running.page.open()
    await running.page.act("Send a Signal")
    await running.page.choose("signal-select", "request_grant")
    await tab.page.get_by_role("dialog").locator(".cm-content").fill("5")
    await running.page.confirm("Submit")
    running.released.set()

    await _ends_as_usual(ground, running)


async def test_a_reset_pays_nothing_again(ground: Ground, tab: Tab) -> None:
    """A session that has ended, reset to its beginning, comes to the same report without another model call."""
    running = await begin(ground, tab, "reset")
    running.released.set()
    await running.session.result()

    await running.page.open()
    await running.page.press("Reset")
    await running.page.choose("workflow-reset-event-id-select", "WorkflowTask")
    await running.page.confirm("Confirm")
    await until(lambda: _has_runs(ground, running.session.id, 2))

    await _ends_as_usual(ground, running)


async def _has_runs(ground: Ground, workflow_id: str, count: int) -> bool:
    return (await ground.chargehand.client.count_workflows(f"WorkflowId = '{workflow_id}'")).count == count


async def test_a_paused_session_waits_and_goes_on(ground: Ground, tab: Tab) -> None:
    """Paused, a session asks for nothing more although it has been answered; resumed, it ends as usual."""
    running = await begin(ground, tab, "paused")

    await running.page.open()
    await running.page.press("Pause Workflow")
    await running.page.confirm("Pause Workflow")
    await running.page.becomes("Paused")
    running.released.set()
    await running.page.press("Unpause Workflow")
    await running.page.confirm("Unpause Workflow")
    await running.page.becomes("Completed")

    await _ends_as_usual(ground, running)


async def test_a_paused_call_is_hung_up_and_made_once_more(ground: Ground, tab: Tab) -> None:
    """A model call that is paused under way stops; resumed, it is made anew, and the lost one is charged and named."""
    running = await begin(ground, tab, "activity")
    page = SessionPage(tab, _address(ground, running.subtask))

    await page.open("Pending Activities")
    await page.press("Pause")
    await page.confirm("Pause")
    await ground.provider.until(lambda: any(each.hung_up for each in ground.provider.exchanges[-3:]))
    running.released.set()
    await page.press("Unpause")
    await page.confirm("Unpause")
    report = await asyncio.wait_for(running.session.result(), 30)

    assert is_as_without_faults(report)
    assert len(ground.provider.requests) - running.asked_before == STEPS + 1
    assert report.usage.possibly_billed_twice_usd > 0
