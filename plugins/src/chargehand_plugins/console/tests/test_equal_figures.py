"""The law of equal figures: each view shows as spent what the provider has charged."""

import asyncio
import json
import random
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from html import escape, unescape
from pathlib import Path
from typing import Final, Literal

import pytest
from httpx2 import AsyncClient
from temporalio.client import Client

from activities.models.protocol import ModelCall
from chargehand.contracts import SessionRequest, SpendEvent, Status, Usage
from chargehand.errors import NotReachable, SessionEnded
from chargehand.session import Session
from chargehand_cli import live_session
from chargehand_cli.connection import Connection
from chargehand_cli.live_tree import Lines
from chargehand_cli.location import LocationOptions, find_location
from chargehand_cli.rendering.progress import spend_facts
from chargehand_plugins.console.tests.conftest import OpenConsole, bare_headings, events_of, open_console
from tests.crew_files import crew_folder
from tests.scripted_model import COST, Held, Script, Turn, answer, report, request_tool, subtask, use
from tests.waiting import eventually, until

NESTED: Final = "Look into the second topic as a whole."
BELOW: Final = "Look into the third topic as a whole."
QUICK: Final = "search_documents"
SCRIPT: Final = (
    Script()
    .plan(subtask("T1"), subtask("N1", agent="supervisor", instruction=NESTED))
    .plan(subtask("X1"), subtask("X2", agent="supervisor", instruction=BELOW), goal=NESTED)
    .plan(subtask("Y1"), subtask("Y2"), goal=BELOW)
    .work("", use(QUICK), use("query_data"), answer("Known."))
    .synthesis(report("All of it is known."))
)
CALLS_HELD: Final = 2 * 4
"""Each of the four agents calls the tool within its turn, and again in an activity as it takes longer."""
LATEST_SECONDS: Final = 2.0
PATIENT_SECONDS: Final = 60.0
Figures = tuple[int, Decimal]
View = Callable[[], Awaitable[Figures]]


class Books:
    """A provider that answers one call at a time on request, and records what it has charged."""

    def __init__(self) -> None:
        self.waiting: list[asyncio.Event] = []

    def respond(self, call: ModelCall) -> Turn:
        self.waiting.append(asyncio.Event())
        return Held(SCRIPT(call), self.waiting[-1])

    def answer_one(self, moments: random.Random) -> None:
        """Answer a randomly chosen waiting call."""
        self.waiting.pop(moments.randrange(len(self.waiting))).set()


def _read(facts: str) -> Figures:
    turns, dollars = re.search(r"(\d+)(?: of \d+)? turns?", facts), re.search(r"\$([\d.]+)", facts)
    return (int(turns[1]), Decimal(dollars[1])) if turns and dollars else (0, Decimal(0))


class FiguresOnTerminal(Lines):
    """Keeps the latest figures that the live tree shows."""

    shown: Figures = (0, Decimal(0))
    has_shown = False

    def chosen(self, *_: object, **__: object) -> "FiguresOnTerminal":
        return self

    def update(self, status: Status) -> None:
        self.shown, self.has_shown = _read(" ".join(spend_facts(status))), True


@dataclass
class _Views:
    """Every view of a session, three of which follow it."""

    console: OpenConsole
    session: Session
    browser: AsyncClient
    terminal: FiguresOnTerminal
    spent: Usage = field(default_factory=Usage)
    part: str = ""
    """The part of the open page that has the figures."""

    async def status(self) -> Figures:
        found = await self.session.status()
        return found.turns, found.spent_usd

    async def histories(self) -> Figures:
        found = await self.session.recorded_status()
        return found.turns, found.spent_usd

    async def http(self) -> Figures:
        found = (await self.console.api.get(f"/api/v1/sessions/{self.session.id}/status")).json()
        return found["turns"], Decimal(str(found["spent_usd"]))

    async def page(self) -> Figures:
        return _read((await self.browser.get(f"/sessions/{self.session.id}")).text)

    async def open_page(self) -> Figures:
        return _read(self.part)

    async def follower(self) -> Figures:
        return self.spent.turns, self.spent.cost_usd

    async def live_tree(self) -> Figures:
        return self.terminal.shown

    @property
    def all(self) -> Sequence[View]:
        return (self.status, self.histories, self.http, self.page, self.open_page, self.follower, self.live_tree)

    async def follow(self) -> None:
        async for event in self.session.follow():
            if isinstance(event, SpendEvent):
                self.spent += event.usage

    async def stream(self) -> None:
        async for event in events_of(self.browser, f"/sessions/{self.session.id}/stream"):
            if event.get("event") == "part" and (told := json.loads(event["data"]))["id"] == "live":
                self.part = told["html"]


@asynccontextmanager
async def _open_views(
    console: OpenConsole, session: Session, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[Sequence[View]]:
    terminal = FiguresOnTerminal(write=lambda _: None)
    monkeypatch.setattr(live_session, "choose_progress", partial(FiguresOnTerminal.chosen, terminal))
    connection = await _connect(console)
    # All are open before the first answer, so that the startup time of a page or command does not count as delay.
    async with console.browser() as browser:
        views = _Views(console, session, browser, terminal)
        showing = live_session.follow(connection, session.id, quiet=False)
        async with asyncio.TaskGroup() as following:
            for each in (showing, views.follow(), views.stream()):
                following.create_task(each)
            await views.page()
            await until(lambda: bool(views.part) and terminal.has_shown, PATIENT_SECONDS)
            yield views.all


async def _connect(console: OpenConsole) -> Connection:
    """Connect as the command line does."""
    chargehand = console.environment.chargehand
    address = chargehand.client.service_client.config.target_host
    options = LocationOptions(address=address, task_queue=chargehand.task_queue)
    connection = Connection(find_location(options, {}, console.folder, here=console.folder, project=console.folder))
    await connection.open(worker=False)
    return connection


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tools", "latest_seconds"),
    [
        ("slow", PATIENT_SECONDS),
        pytest.param("slow", LATEST_SECONDS, marks=pytest.mark.nightly),
        pytest.param("quick", LATEST_SECONDS, marks=pytest.mark.nightly),
    ],
)
async def test_every_view_shows_what_the_provider_has_charged(
    client: Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tools: Literal["quick", "slow"],
    latest_seconds: float,
) -> None:
    """After each provider reply, in any order of the agents of three nested sessions and with slow or quick tools, all
    views reach the figures of the provider's books and stay there until the next reply; nightly, within two seconds on
    an idle machine, although they share the worker's process.
    """
    moments, books = random.Random(24), Books()
    async with open_console(client, tmp_path, books.respond, at_once=[QUICK]) as console:
        opened = console.environment
        tool = opened.tools[QUICK]
        tool.released = asyncio.Event()
        if tools == "quick":
            tool.released.set()
        session = await opened.chargehand.start(
            SessionRequest(goal="What is known of the topics?", review="never", limits={"max_turns": 60})  # pyright: ignore[reportArgumentType]  # as JSON
        )
        ended = asyncio.ensure_future(session.result())
        async with _open_views(console, session, monkeypatch) as views:
            while True:
                await until(
                    lambda: bool(books.waiting) or ended.done() or len(tool.calls) == CALLS_HELD, PATIENT_SECONDS
                )
                if ended.done():
                    break
                if not books.waiting:
                    tool.released.set()
                    await until(lambda: bool(books.waiting) or ended.done(), PATIENT_SECONDS)
                    continue
                charged = opened.model.replies + 1
                books.answer_one(moments)
                await until(lambda charged=charged: opened.model.replies == charged)
                figures = charged, charged * COST
                late = await asyncio.gather(*(_await_equal(view, figures, latest_seconds) for view in views))
                assert not any(late), (charged, "; ".join(filter(None, late)))
        usage = (await ended).usage

    assert (usage.turns, usage.cost_usd) == (opened.model.replies, opened.model.replies * COST)
    assert usage.turns == 18


async def _await_equal(view: View, figures: Figures, latest_seconds: float) -> str:
    """Wait until a view shows these figures; if it is late, return what it shows instead."""

    async def says() -> Figures | None:
        with suppress(NotReachable):  # the server has lost a query whose worker evicted the session
            return await view()
        return None

    try:
        await eventually(says, lambda said: said == figures, latest_seconds)
    except TimeoutError:
        return f"{view.__name__} says {await view()}"
    return ""


@pytest.mark.parametrize(
    ("end", "words"), [("cancel", "cancelled"), ("terminate", "terminated"), ("finish", "stopped by `finish`")]
)
async def test_every_view_shows_how_a_session_ended(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, words: str
) -> None:
    """All use the same words and figures, with no agent running and no call to approve, however it ended."""
    held = Held(answer("Late."))
    async with open_console(
        client, tmp_path, Script().plan(subtask("T1"), subtask("T2", after=["T1"])).work("T1", held)
    ) as console:
        chargehand = console.environment.chargehand
        session = await chargehand.start(SessionRequest(goal="What is known of the topics?", review="never"))
        await held.reached.wait()
        match end:
            case "cancel":
                await session.cancel()
            case "terminate":
                await client.get_workflow_handle(session.id).terminate()
            case _:
                await session.finish_now()
        with suppress(SessionEnded):
            await session.result()
        await eventually(session.recorded_status, lambda found: found.turns == 2)  # an agent ends after its session
        told = list[str]()

        def lines(*_: str, **__: object) -> Lines:
            return Lines(write=told.append)

        monkeypatch.setattr(live_session, "choose_progress", lines)
        async with console.browser() as browser:
            with suppress(SessionEnded):
                await live_session.follow(await _connect(console), session.id, quiet=False)
            page = (await browser.get(f"/sessions/{session.id}")).text
            rows = (await browser.get("/sessions")).text
        found = [await session.status(), await session.recorded_status()]
        http = (await console.api.get(f"/api/v1/sessions/{session.id}/status")).json()
        await eventually(session.thread, lambda rows: [each.shown for each in rows if each.id == session.id] == [words])

    assert [each.standing.words for each in found] == [words] * 2
    assert f'id="standing">{escape(words)}<' in page
    assert bare_headings(page) == []
    assert f">{escape(words)}</span>" in rows
    assert told[-1].partition("session ")[2].startswith(f"{words} · ")
    assert {_read(" ".join(spend_facts(found[0]))), _read(told[-1]), _read(page)} == {
        (found[1].turns, found[1].spent_usd.quantize(Decimal("0.0001")))
    }
    assert [each["state"] for each in http["subtasks"]] == ["failure", "skipped"]
    assert found[0].ended_at == found[1].ended_at is not None
    assert 'class="state state-running"' not in page
    assert "Approve" not in page


async def test_every_view_shows_which_subtasks_wait_for_a_person(client: Client, tmp_path: Path) -> None:
    """Subtasks of nested sessions are shown by their path."""
    asks = answer("", status="ambiguous_input").model_copy(update={"message": "Which year?"})
    script = Script().plan(
        subtask("T1", "clerk"), subtask("T2"), subtask("N1", "supervisor", ["T1"], instruction=NESTED)
    )
    script = script.plan(subtask("T1", "clerk", instruction="Settle the rest of it."), goal=NESTED)
    script = script.work("", request_tool("refund", amount=1), answer("Paid."), agent="clerk").work("topic T2", asks)
    script = script.work("the rest of it", request_tool("refund", amount=2), answer("Paid."))
    script = script.work("The calendar year", answer("Known."))
    crew = crew_folder(tmp_path, "desk", clerk='tools = ["refund"]\napprove = ["refund"]', reader="")
    async with open_console(client, tmp_path, script, acting=("refund",), own_crews=(crew,)) as console:
        request = SessionRequest(goal="Settle what is known.", crew="desk", questions="allowed", review="never")
        session = await console.environment.chargehand.start(request)
        for call, path, at_work in (("c1", "T1", ["T1"]), ("c2", "N1/T1", ["N1", "T1"])):
            asked = await eventually(session.status, lambda found: bool(found.calls and found.questions))
            words = {path.partition("/")[0]: "awaiting call approval", "T2": "awaiting an answer"}
            http = (await console.api.get(f"/api/v1/sessions/{session.id}/status")).json()
            async with console.browser() as browser:
                page = unescape((await browser.get(f"/sessions/{session.id}")).text)
                rows = (await browser.get("/sessions")).text
            lines = list[str]()
            Lines(write=lines.append).update(asked)

            for found in (asked, await session.recorded_status()):
                assert {each.id: each.reason for each in found.subtasks if each.state == "running"} == words
                assert [(each.id, each.subtask) for each in found.calls] == [(call, path)]
            assert {each["id"]: each["reason"] for each in http["subtasks"] if each["state"] == "running"} == words
            shown = re.findall(r"<strong>(\w+)</strong> \w+ <span class=\"state state-waiting\">(awaiting[^,<]+)", page)
            assert sorted(shown) == sorted([*((each, words[at_work[0]]) for each in at_work), ("T2", words["T2"])])
            assert f"{path} asks to use refund ({call})" in page
            assert f"waits for an answer to T2 and a decision on {call}<" in rows
            assert all(any(f" {each} " in line and f": {words[each]}" in line for line in lines) for each in words)
            assert any(f"? {path} asks to use refund ({call})" in line for line in lines)
            await session.approve_call(asked.calls[0])
        await session.answer(subtask="T2", text="The calendar year.")
        await session.result()

    assert len(console.environment.tools["refund"].calls) == 2
