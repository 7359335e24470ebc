"""What people press in the Web UI does to a session what the same call by the API does."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import quote

import pytest

from chaos.books import session_of
from chaos.harness import STEPS, Harness, is_as_without_faults, open_harness, script
from chargehand.contracts import SessionRequest
from chargehand.errors import SessionEnded
from chargehand.session import Session
from chargehand_cli.embedded.web_ui_guard import WebUiGuard
from tests.browser.chromium import Tab
from tests.browser.web_ui import SessionPage
from tests.scripted_provider import Exchange, ScriptedReply, ScriptedRequest
from tests.waiting import runs_of, until

pytestmark = [pytest.mark.browser, pytest.mark.nightly]


@pytest.fixture(scope="module")
async def harness(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Harness]:
    async with open_harness(tmp_path_factory.mktemp("harness")) as opened:
        await opened.worker()
        guard = WebUiGuard(opened.server.ui)
        guard.start()
        opened.settings["CHARGEHAND_UI_URL"] = guard.url
        yield opened


@dataclass
class Running:
    """A session whose first subtask waits for a model's answer."""

    session: Session
    page: SessionPage
    subtask: str
    released: asyncio.Event


async def begin(harness: Harness, tab: Tab, name: str) -> Running:
    """Start a session and bring it to where one of its model calls is under way."""
    usual, asked, released = script(), asyncio.Event(), asyncio.Event()

    async def respond(request: ScriptedRequest) -> ScriptedReply:
        if "part 1 of" in request.text and request.answer == "WorkAnswer" and not asked.is_set():
            asked.set()
            await released.wait()
        reply = usual(request)
        assert isinstance(reply, ScriptedReply)
        return reply

    harness.provider.respond = respond
    session = await harness.chargehand.start(SessionRequest(goal="Look into all parts of it."), session_id=name)
    await asyncio.wait_for(asked.wait(), 30)
    subtask = (await session.status()).subtasks[0].workflow_id
    assert subtask
    return Running(session, SessionPage(tab, _address(harness, name)), subtask, released)


def _calls(harness: Harness, running: Running) -> list[Exchange]:
    """The model calls of this session; those of earlier ones may still be arriving or hanging up."""
    return [each for each in harness.provider.exchanges if session_of(each.request) == running.session.id]


def _address(harness: Harness, workflow_id: str) -> str:
    return f"{harness.settings['CHARGEHAND_UI_URL']}/namespaces/default/workflows/{quote(workflow_id, safe='')}"


async def _is_closed(harness: Harness, workflow_id: str) -> bool:
    described = await harness.chargehand.client.get_workflow_handle(workflow_id).describe()
    return described.close_time is not None


async def _ends_as_usual(harness: Harness, running: Running) -> None:
    report = await asyncio.wait_for(running.session.result(), 30)

    assert is_as_without_faults(report)
    assert len(_calls(harness, running)) == report.usage.turns == STEPS


@pytest.mark.parametrize(
    ("menu_item", "button", "status"),
    [("Request Cancellation", "Confirm", "Canceled"), ("Terminate", "Terminate", "Terminated")],
)
async def test_a_session_that_is_stopped_stops_paying(
    harness: Harness, tab: Tab, menu_item: str, button: str, status: str
) -> None:
    """Cancelled or terminated, a session ends without a report, its subtasks end too, and the call is hung up."""
    running = await begin(harness, tab, f"stopped-{status}")

    await running.page.open()
    await running.page.act(menu_item)
    await running.page.confirm(button)
    await running.page.becomes(status)

    with pytest.raises(SessionEnded):
        await asyncio.wait_for(running.session.result(), 15)
    await harness.provider.until(lambda: any(each.hung_up for each in _calls(harness, running)))
    await until(lambda: _is_closed(harness, running.subtask))


async def test_a_signal_by_hand_changes_nothing(harness: Harness, tab: Tab) -> None:
    """Signals are between a session and its subtasks: what a person types is not taken for one of theirs."""
    running = await begin(harness, tab, "signalled")

    await running.page.open()
    await running.page.act("Send a Signal")
    await running.page.choose("signal-select", "mailbox")
    await tab.page.get_by_role("dialog").locator(".cm-content").fill("5")
    await running.page.confirm("Submit")
    running.released.set()

    await _ends_as_usual(harness, running)


async def test_a_reset_pays_nothing_again(harness: Harness, tab: Tab) -> None:
    """A session that has ended, reset to its beginning, comes to the same report without another model call."""
    running = await begin(harness, tab, "reset")
    running.released.set()
    await running.session.result()

    await running.page.open()
    await running.page.press("Reset")
    await running.page.choose("workflow-reset-event-id-select", "WorkflowTask")
    await running.page.confirm("Confirm")
    await runs_of(harness.chargehand.client, running.session.id, 2)

    await _ends_as_usual(harness, running)


async def test_a_paused_session_waits_and_goes_on(harness: Harness, tab: Tab) -> None:
    """Paused, a session asks for nothing more although it has been answered; resumed, it ends as usual."""
    running = await begin(harness, tab, "paused")

    await running.page.open()
    await running.page.press("Pause Workflow")
    await running.page.confirm("Pause Workflow")
    await running.page.becomes("Paused")
    running.released.set()
    await running.page.press("Unpause Workflow")
    await running.page.confirm("Unpause Workflow")
    await running.page.becomes("Completed")

    await _ends_as_usual(harness, running)


async def test_a_paused_call_is_hung_up_and_made_once_more(harness: Harness, tab: Tab) -> None:
    """A model call that is paused under way stops; resumed, it is made anew, and the lost one is charged and named."""
    running = await begin(harness, tab, "activity")
    page = SessionPage(tab, _address(harness, running.subtask))

    await page.open("Pending Activities")
    await page.press("Pause")
    await page.confirm("Pause")
    await harness.provider.until(lambda: any(each.hung_up for each in _calls(harness, running)))
    running.released.set()
    await page.press("Unpause")
    await page.confirm("Unpause")
    report = await asyncio.wait_for(running.session.result(), 30)

    assert is_as_without_faults(report)
    assert len(_calls(harness, running)) == STEPS + 1
    assert report.usage.possibly_billed_twice_usd > 0
