"""The console in a real browser: ask with a document, approve the plan, watch, read; on phone and desktop."""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from chargehand.contracts import SessionRequest
from chargehand.contracts.conversation import USUAL_GOAL
from chargehand_plugins.console.backend import Backend
from chargehand_plugins.console.server import RunningConsole, serving
from chargehand_plugins.console.settings import ConsoleSettings
from chargehand_plugins.console.tests.conftest import DECISION_KEY, TOKEN, OpenConsole, open_console
from chargehand_plugins.webhooks.links import Links
from tests.browser.chromium import Chromium, Tab, accessibility_problems
from tests.crew_files import crew_folder
from tests.environment import open_environment
from tests.scripted_model import Held, Script, answer, report, request_tool, say, subtask, use
from tests.waiting import eventually, until_state

pytestmark = pytest.mark.browser

HOSTILE = "<img src=x onerror=console.log('ran')><script>console.log('ran')</script>"
SCRIPT = (
    Script()
    .plan(subtask("T1", instruction=f"Read the notes. {HOSTILE}"), subtask("T2", agent="analyst"))
    .work("", answer(f"It is known. {HOSTILE}"))
    .on("converse", say(f"It is known: **at nine**. {HOSTILE}"))
    .synthesis(report(f"All of it is known.\n\n{HOSTILE}\n\n| a | b |\n|---|---|\n| 1 | 2 |"))
)
LOOKS = {390: "light", 1280: "dark"}
"""The colour scheme that is checked at each width; the two do not depend on each other."""
PICTURES = os.environ.get("CHARGEHAND_TEST_PICTURES")
"""A folder for a picture of each page, for people to look at."""


@pytest.fixture(scope="module")
async def console(client: Client, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[OpenConsole]:
    async with open_console(client, tmp_path_factory.mktemp("console"), SCRIPT) as opened:
        yield opened


async def look(page: Any, name: str, *, scripts: bool = True) -> None:
    """Check that nothing is wider than the page and that axe finds nothing, at each width and in each scheme."""
    for width, scheme in LOOKS.items():
        await page.set_viewport_size({"width": width, "height": 900})
        await page.emulate_media(color_scheme=scheme)
        wide = await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide == 0, f"{name} overflows by {wide} px at {width}"
        problems = await accessibility_problems(page) if scripts else []
        assert problems == [], f"{name} at {width} in {scheme}"
        if PICTURES:
            await page.screenshot(path=Path(PICTURES) / f"{name}-{width}-{scheme}.png", full_page=True)


async def sign_in(tab: Tab, running: RunningConsole, session: str = "") -> Any:
    """Sign in, and go to the page of a session or stay on the first one."""
    await tab.page.goto(running.sign_in_link())
    await tab.page.wait_for_url(f"{running.url}/")
    if session:
        await tab.page.goto(f"{running.url}/sessions/{session}")
    return tab.page


async def test_a_session_can_be_run_in_the_console_from_goal_to_report(
    console: OpenConsole, tab: Tab, tmp_path: Path
) -> None:
    """Every page fits its window, logs nothing to the browser console and contacts only its own server."""
    notes = tmp_path / "notes.txt"
    notes.write_text("The ferry sails at nine.")
    await tab.page.goto(f"{console.running.url}/sessions")
    await look(tab.page, "login")
    tab.console.clear()  # the browser warns that a password field should have a user name field
    page = await sign_in(tab, console.running)
    await look(page, "ask")
    await page.fill("#goal", f"When does the ferry sail? {HOSTILE}")
    large = tmp_path / "large.txt"
    with large.open("wb") as file:
        file.truncate(50_000_001)
    await page.set_input_files("#documents", [str(large)])
    await page.wait_for_selector("#chosen:has-text('Too large, choose others: large.txt')")
    assert not await page.evaluate("document.getElementById('documents').checkValidity()")
    await page.set_input_files("#documents", [str(notes)])
    await page.click("text=Crew, limits and approval")
    await page.click("text=What the crews do")
    assert "What in this contract deviates" in await page.inner_text("dl")
    assert "at most 10,000" in await page.inner_text("#about-budget")
    await look(page, "options")
    await page.check("#approve_plan")
    await page.click("button:text-is('Start')")
    await page.wait_for_selector("text=The plan awaits your approval")
    await look(page, "approval")
    await page.click("text=Edit the plan")
    await look(page, "editor")
    await page.fill("#words-2", "Count the notes.")
    await page.click("text=One more subtask >> nth=0")
    await page.fill("#id-3", "T3")
    await page.fill("#agent-3", "analyst")
    await page.fill("#words-3", "Count the ferries.")
    await page.fill("#after-3", "T1")
    await page.fill("#place-3", "1.5")
    await page.click("text=Approve this plan instead")
    await page.wait_for_selector("text=Read the report")
    subtasks = await page.eval_on_selector_all("#live .tree strong", "found => found.map(each => each.textContent)")
    assert subtasks == ["T1", "T3", "T2"]
    await look(page, "finished")
    await page.click("text=Read the report")
    await page.wait_for_selector(".report")
    await look(page, "report")
    await page.click("text=Sessions")
    await page.fill("#q", "ferry")
    await page.click("text=Search")
    await page.wait_for_selector(".sessions li")
    await look(page, "sessions")
    await page.click("text=Spend")
    await page.wait_for_selector("h1:has-text('Spend')")
    await look(page, "spend")

    assert tab.console == []
    assert [each for each in tab.requests if not each.startswith((console.running.url, "data:"))] == []


async def test_a_conversation_can_be_held_and_closed_in_the_console(console: OpenConsole, tab: Tab) -> None:
    """A person opens one, reads the reply to each message below it, and closes it."""
    page = await sign_in(tab, console.running)
    await page.click("text=Talk")
    await page.fill("#goal", f"Help the tenant. {HOSTILE}")
    await look(page, "talk")
    await page.click("text=Open a conversation")
    for message in ("When does the ferry sail?", f"Really? {HOSTILE}"):
        await page.fill("#text", message)
        await page.click("button:has-text('Send')")
        await page.wait_for_selector(f"article:has-text('{message.partition(' <')[0]}') + article:has-text('known')")
    await look(page, "conversation")
    await page.click("text=Close the conversation")
    await page.wait_for_selector("text=The conversation has ended.")

    assert tab.console == []


async def test_live_updates_keep_what_the_user_has_typed(console: OpenConsole, tab: Tab) -> None:
    """A refused edit keeps it too, and pending decisions appear without reloading the page."""
    session = await console.environment.chargehand.start(SessionRequest(goal="Wait for me.", approval="plan"))
    page = await sign_in(tab, console.running, session.id)
    await page.wait_for_selector("text=The plan awaits your approval")
    await until_state(session, "awaiting_approval")
    await page.click("text=Raise limits")
    await page.fill("#raise-turns", "33")
    await page.click("text=Edit the plan")
    await page.fill("#place-2", "0.5")
    await page.check("#drop-1")
    await page.select_option("#message-to", "T2")
    for part in ("actions", "decisions"):
        await page.evaluate(f"replacePart('{part}', 'newer', document.getElementById('{part}').innerHTML + ' ')")

    typed = ["33", "0.5", "T2"]
    assert [await page.input_value(each) for each in ("#raise-turns", "#place-2", "#message-to")] == typed
    assert await page.is_checked("#drop-1")
    await page.fill("#agent-2", "no-such-agent")
    await page.click("text=Approve this plan instead")
    await page.wait_for_selector("text=there is no agent 'no-such-agent'")
    await page.wait_for_load_state()
    assert [await page.input_value(each) for each in ("#raise-turns", "#place-2", "#message-to")] == typed
    assert await page.is_checked("#drop-1")
    await page.click("button:has-text('Raise')")
    await page.wait_for_selector("text=of 33 turns")
    assert [each for each in tab.console if "422" not in each] == []


NESTED = "Look at the notes as a session."
STEPS = ".subtask:has(> div > strong:text-is('{}')) > div > details"
"""The latest steps of an agent."""


async def test_the_session_page_shows_live_progress_and_cost(
    client: Client, tmp_path: Path, chromium: Chromium
) -> None:
    """It covers nested agents; typed text and folded steps survive a restart; the page says when it is not live."""
    going_on = asyncio.Event()
    script = Script().plan(subtask("T1"), subtask("N1", agent="supervisor", instruction=NESTED))
    script = script.plan(subtask("X1"), goal=NESTED)
    script = script.work("", use("search_documents"), Held(use("query_data"), going_on), answer("Known."))
    async with (
        open_environment(client, tmp_path, script.synthesis(report("All of it is **known**."))) as opened,
        chromium.tab() as tab,
    ):
        backend = Backend(lambda: opened.chargehand, str(tmp_path))
        async with serving(backend, ConsoleSettings(TOKEN, port=0)) as running:
            session = await opened.chargehand.start(SessionRequest(goal="What is known? " * 200))
            page = await sign_in(tab, running, session.id)
            for agent in ("T1", "X1"):
                await page.wait_for_selector(f"{STEPS.format(agent)} + .now:has-text('turn 2')")
                await page.wait_for_selector(f"{STEPS.format(agent)} .action:has-text('search_documents')")
            await page.fill("#message", "Be brief.")
            await page.click("button:has-text('Send')")
            await page.wait_for_selector(".done:has-text('on its way')")
            await page.wait_for_selector("text=not read yet")
            status = await session.status()
            facts = await page.inner_text("#live .facts")
            assert f"{status.turns} of 20 turns" in facts
            await look(page, "live")
            await page.click(f"{STEPS.format('X1')} > summary")
            await page.evaluate("delete document.getElementById('live').dataset.key")  # the part is sent again
            await page.fill("#message", "Half a sentence")
        await page.wait_for_selector("#stale:has-text('Not live since')")
        await look(page, "not-live")
        await page.click("button:has-text('Send')")
        await page.wait_for_selector("#away:not([hidden])")
        async with serving(backend, ConsoleSettings(TOKEN, port=running.port)):
            await page.wait_for_selector("#live[data-key]")
            assert await page.locator(STEPS.format("T1")).get_attribute("open") is not None
            assert await page.locator(STEPS.format("X1")).get_attribute("open") is None
            await page.wait_for_selector("#stale", state="hidden")
            assert await page.input_value("#message") == "Half a sentence"
            await page.reload()
            assert await page.input_value("#message") == "Half a sentence"
        await page.wait_for_selector("#stale:has-text('Not live since')")
        going_on.set()
        await session.result()
        async with serving(backend, ConsoleSettings(TOKEN, port=running.port)):
            await page.wait_for_selector("#live .answer strong:text-is('known')")
            await page.wait_for_selector("#stale", state="hidden")
            assert "read by N1/X1, turn 3; T1, turn 3" in await page.inner_text("#live")
            assert await page.inner_text("#standing") == "answered, not all verified"
            assert not await page.evaluate("document.getElementById('session').classList.contains('is-stale')")
            await look(page, "answered")


async def test_call_arguments_are_shown_and_edited_as_separate_fields(
    client: Client, tmp_path: Path, chromium: Chromium
) -> None:
    """This works without scripts and from a decision link; arguments that are not edited keep their exact value."""
    kept: dict[str, Any] = {
        "reference": "1200",
        "note": "\nTwo lines,\r\nand a \u202ehidden\u202c turn. " + "Long. " * 60,
        "greeting": "\u0645\u0631\u062d\u0628\u0627, the ferry sails at nine",
        "nothing": "",
        "booking": {"from": "Oslo", "berths": [1, 2], "pets": None},
        "rate": 1.0,
        HOSTILE: None,
    }
    asked = {"amount": 7, "urgent": True, "to": "ann@example.org", **kept}
    crew = crew_folder(tmp_path, "desk", clerk='tools = ["refund"]\napprove = ["refund"]')
    script = Script().replies("money", request_tool("refund", **asked), say("Paid."))
    async with (
        open_environment(client, tmp_path, script, own_crews=(crew,), acting=("refund",)) as opened,
        serving(
            Backend(lambda: opened.chargehand, str(tmp_path)), ConsoleSettings(TOKEN, DECISION_KEY, port=0)
        ) as running,
        chromium.tab(scripts=False) as tab,
    ):
        talk = await opened.chargehand.converse(crew="desk")
        saying = asyncio.create_task(talk.say(text="I want my money back."))
        waits = (await eventually(talk.status, lambda status: bool(status.calls))).waits
        page = await sign_in(tab, running, talk.id)
        shown = dict(
            zip(*[await page.locator(f".values {each}").all_inner_texts() for each in ("dt", "dd")], strict=True)
        )
        await look(page, "call", scripts=False)
        link = Links(running.url, DECISION_KEY.encode()).make(talk.id, waits[0], "ntfy-1")
        await page.goto(link)
        await look(page, "decide", scripts=False)
        opens = await page.inner_text("main")
        await page.click("text=Edit the arguments")
        await look(page, "call-editor", scripts=False)
        await page.get_by_label("amount").fill("seven")
        await page.click("text=Approve with these arguments")
        refused = await page.inner_text(".problem:not([hidden])")
        assert await page.get_by_label("amount").input_value() == "seven"
        await page.get_by_label("amount").fill("6.5")
        await page.get_by_label("urgent").select_option("false")
        await page.get_by_label("to", exact=True).fill("bob@example.org")
        await page.get_by_label("Further arguments").fill('{"copies": 2}')
        await page.click("text=Approve with these arguments")
        await page.wait_for_selector("text=it is decided")
        await saying
        await page.goto(link)
        used = await page.inner_text("main")

    assert shown["amount"] == "7"
    assert shown["reference"] == '"1200"'
    assert shown["booking"].startswith('{ "from": "Oslo"')
    assert "a <U+202E>hidden" in shown["note"]
    assert len(shown["note"]) < 200
    assert "amount: must be a number" in refused
    assert "I want my money back." in opens
    assert "Each call of this tool needs approval." in opens
    assert USUAL_GOAL not in opens
    assert "it was edited (link sent to ntfy-1)" in used
    changed = {"amount": 6.5, "urgent": False, "to": "bob@example.org", "copies": 2}
    assert list(map(dict, opened.tools["refund"].calls)) == [asked | changed]


async def test_stopping_a_session_takes_a_second_click(console: OpenConsole, tab: Tab) -> None:
    """The page first says what will be lost, and then keeps the plan and cost of the stopped session."""
    session = await console.environment.chargehand.start(SessionRequest(goal="Stop me.", approval="plan"))
    page = await sign_in(tab, console.running, session.id)
    await page.click("text=Stop without a report …")
    await page.wait_for_selector("text=no report is written, and what was spent (1 turn, $")
    await page.click("button:has-text('Stop it, without a report')")
    await page.wait_for_selector("#standing:text-is('cancelled')")
    await page.wait_for_selector("#live .tree strong:text-is('T1')")
    # Its limits are unknown once no worker answers for it.
    assert re.search(r"1 (of 20 turns|turn)\b", await page.inner_text("#live .facts"))
    await look(page, "cancelled")
