"""Notifications over real HTTP and SMTP on loopback: who is notified of what, when and by which link."""

import asyncio
import base64
import json
import socketserver
import threading
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from email import message_from_string, policy
from email.message import EmailMessage, Message
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from temporalio import activity
from temporalio.client import Client
from temporalio.testing import ActivityEnvironment

from activities.contracts.session import SessionFacts
from chargehand.contracts import DecisionRecord, Limits, SessionRequest, Wait
from chargehand.visibility import describe
from chargehand.wire import ActivityType
from chargehand_plugins.notifications.channels import Mail, NotificationActivities
from chargehand_plugins.notifications.reminders import steps_of
from chargehand_plugins.notifications.settings import NotificationSettings
from chargehand_plugins.webhooks.activity import WaitNotice, WebhookNotice
from chargehand_plugins.webhooks.links import Links
from tests.crew_files import crew_folder
from tests.environment import SessionEnvironment, open_environment
from tests.in_memory_temporal import InMemoryTemporal
from tests.loopback_http import LoopbackHandler, serve_http
from tests.scripted_model import Script, answer, request_tool, say, subtask
from tests.waiting import until, until_state
from tests.workflows.conftest import DESK, pending, server_of
from worker.parts import WorkerParts
from workflows import run_end

NOW = datetime.now(UTC)
WAIT = Wait(id="c1", kind="call", asks="refund: <!channel> 7", since=NOW, until=NOW + timedelta(hours=1))
FIRST, SECOND = (SecretStr(f"mailto:{name}@b.example") for name in ("first", "second"))
AGAIN = timedelta(minutes=20)
WAITING = SessionRequest(goal="What is known?", approval="plan", answer_within=timedelta(days=1))
HOSTILE = "<!here> 日本\r\nBcc: c@b.example \x1b]8;;http://b.example/?d=1\x07 WWW.c.example \u202e"
MAIL = "mailto:a@b.example"
LINKS = Links("https://console.example", b"a key of twenty-four bytes")


@contextmanager
def mail_server() -> Generator[tuple[str, list[str]]]:
    """Accept e-mail over SMTP without TLS, except with a wrong password or from a refused sender."""
    taken: list[str] = []

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 here\r\n")
            while line := self.rfile.readline().strip().upper():
                if line.startswith((b"EHLO", b"AUTH", b"MAIL FROM:<REFUSED")):
                    is_refused = line.startswith(b"MAIL") or base64.b64encode(b"\0desk\0wrong").upper() in line
                    greeting = b"250-here\r\n250 AUTH PLAIN\r\n" if line.startswith(b"EHLO") else b"235 ok\r\n"
                    self.wfile.write(b"535 no\r\n" if is_refused else greeting)
                    continue
                if line == b"DATA":
                    self.wfile.write(b"354 go on\r\n")
                    taken.append(b"".join(iter(self.rfile.readline, b".\r\n")).decode())
                self.wfile.write(b"221 bye\r\n" if line == b"QUIT" else b"250 ok\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield f"smtp://127.0.0.1:{server.server_address[1]}", taken
        server.shutdown()


async def send(about: WaitNotice) -> tuple[dict[str, Any], Message, str, EmailMessage]:
    """Notify a channel of each kind; return Slack's message, ntfy's headers and text, and the e-mail."""
    posted: dict[str, tuple[Message, bytes]] = {}

    class Handler(LoopbackHandler):
        def reply(self) -> None:
            posted[self.path] = self.headers, self.body()
            self.answer(200)

    with serve_http(Handler) as url, mail_server() as (server, mails):
        to = {"slack-1": f"slack:{url}/slack", "ntfy-2": f"ntfy:{url}/topic", MAIL: MAIL}
        internal = frozenset({url.removeprefix("http://")})
        activities = NotificationActivities(to, LINKS, Mail(server, "desk@b.example"), internal)
        for channel in to:
            notice = WebhookNotice(id="1", channel=channel, about=about, at=NOW)
            await ActivityEnvironment().run(activities.send_notice, notice)
    headers, text = posted["/topic"]
    return json.loads(posted["/slack"][1]), headers, text.decode(), message_from_string(mails[0], policy=policy.default)


async def test_each_channel_gets_the_question_with_a_decision_link() -> None:
    """Slack gets a button and no mentions by a model, ntfy an action, and an e-mail the link in its text."""
    slack, headers, _, mail = await send(WaitNotice(session="s", wait=WAIT))

    link = {channel: LINKS.make("s", WAIT, channel) for channel in ("slack-1", "ntfy-2", MAIL)}
    text, actions = slack["blocks"]
    assert "&lt;!channel&gt;" in text["text"]["text"]
    assert actions["elements"][0]["url"] == link["slack-1"]
    assert headers["Actions"] == f"view, Decide, {link['ntfy-2']}"
    assert (mail["To"], mail["Subject"]) == ("a@b.example", "A tool call awaits approval")
    assert link[MAIL] in mail.get_content()


_MADE = DecisionRecord(wait="c1", kind="call", decision="approved", by="\u202e<!here>", at=NOW)


@pytest.mark.parametrize(("decision", "title"), [(None, "A tool call awaits approval"), (_MADE, "Decided: call")])
async def test_each_channel_takes_any_text(decision: DecisionRecord | None, title: str) -> None:
    """Markup and invisible characters in a session id, decision or question have no effect."""
    wait = WAIT.model_copy(update={"asks": (HOSTILE * 30)[:500]})
    slack, headers, told, mail = await send(WaitNotice(session=HOSTILE, wait=wait, decision=decision))

    text: str = slack["blocks"][0]["text"]["text"]
    assert (slack["unfurl_links"], slack["unfurl_media"], "<!" in text) == (False, False, False)
    assert len(text) <= 3_000
    assert (text.splitlines()[0], headers["Title"], mail["Subject"], mail["Bcc"]) == (f"*{title}*", title, title, None)
    texts = (text, told, mail.get_content())
    assert not any(mark in each for each in texts for mark in ("\x1b", "\u202e", "\nBcc", "http://b.", "WWW.c"))


def test_a_decision_link_is_valid_only_unmodified_and_until_it_expires() -> None:
    """A changed signature, another key or a later time makes it invalid."""
    token = LINKS.make("s", WAIT, "slack-1").rpartition("/")[2]
    link = LINKS.read(token, NOW)

    assert link is not None
    assert (link.session, link.wait, link.sent_to) == ("s", "c1", "slack-1")
    assert LINKS.read(f"A{token}", NOW) is None
    assert LINKS.read(token, WAIT.until) is None
    assert Links("", b"another key of that length").read(token, NOW) is None
    assert Links("").read(token, NOW) is None


Told = tuple[str, str, int, str]
"""A message: its channel, the number of the one that it follows, how many came before, and the decision."""


@asynccontextmanager
async def reminding(
    client: Client | None, folder: Path, told: list[Told], there: asyncio.Event, *, tasks: int = 1, **options: Any
) -> AsyncGenerator[SessionEnvironment]:
    """Run a worker that reminds the first address three times, and a second one once."""
    told_when = NotificationSettings(**options)
    steps = steps_of((FIRST,), (SECOND,), told_when.notify_later_after, told_when.notify_again_every)

    @activity.defn(name=ActivityType.SEND_NOTICE)
    async def send_notice(notice: WebhookNotice) -> None:
        assert isinstance(notice.about, WaitNotice)
        decision = notice.about.decision.decision if notice.about.decision else ""
        if not decision:
            await there.wait()
        told.append((notice.channel[7:-10] or "url", notice.after[-1:], notice.about.times_before, decision))

    @activity.defn(name=ActivityType.CALL_WEBHOOK)
    async def call_webhook(notice: WebhookNotice) -> None:
        await send_notice(notice)

    async def add_steps(_: SessionRequest, facts: SessionFacts) -> SessionFacts:
        return facts.model_copy(update={"notices": steps})

    async def add(parts: WorkerParts) -> None:
        parts.opening_steps.append(add_steps)

    chain = [subtask(f"T{number}", after=[f"T{number - 1}"] if number > 1 else []) for number in range(1, tasks + 1)]
    script = Script().plan(*chain).work("", answer("It is known."))
    for number in (7, 8):
        script = script.replies(f"message {number}", request_tool("refund", amount=number), say("Done."))
    desk = partial(open_environment, own_crews=(crew_folder(folder, "desk", **DESK),), acting=("refund",))
    async with desk(client, folder, script, task_queue="q", added=[send_notice, call_webhook], parts=[add]) as opened:
        yield opened


async def an_hour_passes(server: InMemoryTemporal, told: Sequence[Told], there: asyncio.Event) -> None:
    """Let each reminder arrive before the next is due, if the receiver is there."""
    for _ in range(3):
        count = len(told)
        server.skip(AGAIN)
        await until(lambda count=count: len(told) > count or not there.is_set())


async def test_reminders_and_the_second_address_follow_on_schedule(tmp_path: Path) -> None:
    """The first address is reminded three times; a message not accepted before the decision is not sent after it."""
    told, there = list[Told](), asyncio.Event()
    there.set()
    async with reminding(None, tmp_path, told, there, notify_again_every=AGAIN) as opened:
        for count in (5, 6):
            started = await opened.start(WAITING, until="awaiting_approval")
            await until(lambda: bool(told))
            await an_hour_passes(server_of(opened), told, there)
            await until(lambda count=count: len(told) == count)
            await started.approve()
            await started.result()
            await until(lambda count=count: len(told) > count)
            there.clear()
        there.set()
        await opened.chargehand.start(WAITING)
        await until(lambda: len(told) > 7)

    reminders = [("first", "", 0, ""), ("first", "0", 1, ""), ("first", "1", 2, ""), ("first", "2", 3, "")]
    approved = ("first", "3", 0, "approved")
    assert sorted(told[:5]) == [*reminders, ("second", "", 0, "")]
    assert told[5:] == [approved, approved, reminders[0]]


async def test_conversation_reminders_survive_continue_as_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No reminder is lost or sent twice, although the conversation continues as new after each message."""
    monkeypatch.setattr(run_end, "MOST_EVENTS", 5)
    told, there, runs = list[Told](), asyncio.Event(), set[str]()
    there.set()
    async with reminding(None, tmp_path, told, there, notify_again_every=AGAIN) as opened:
        talk = await opened.chargehand.converse(crew="desk")
        for count, amount in enumerate((7, 8), start=1):
            saying = asyncio.create_task(talk.say(text=f"message {amount}"))
            call = await pending(talk)
            runs.add((await describe(opened.chargehand.client, talk.id)).workflow_execution_info.execution.run_id)
            await until(lambda count=count: len(told) == 6 * count - 5)
            await an_hour_passes(server_of(opened), told, there)
            await until(lambda count=count: len(told) == 6 * count - 1)
            await talk.approve_call(call)
            await asyncio.wait_for(saying, 30)
            await until(lambda count=count: len(told) == 6 * count)

    reminders = [("first", str(number - 1) if number else "", number, "") for number in range(4)]
    each = [*reminders, ("first", "3", 0, "approved"), ("second", "", 0, "")]
    assert (sorted(told), len(runs)) == (sorted(2 * each), 2)


@pytest.mark.parametrize("is_slow", [False, True])
async def test_session_reminders_survive_continue_as_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_slow: bool
) -> None:
    """Each reminder is sent once and the decision to all; what is not accepted before it is not sent after it."""
    told, there = list[Told](), asyncio.Event()
    limits = Limits(max_turns=4, max_parallel=1, on_limit="pause")
    request = WAITING.replace(approval="none", limits=limits, webhook="http://a.example")
    began = [("url", "", 0, ""), ("first", "", 0, "")]
    reminders = [("first", str(number), number + 1, "") for number in range(3)]
    async with reminding(None, tmp_path, told, there, tasks=5, notify_again_every=AGAIN) as opened:
        server, session = server_of(opened), await opened.chargehand.start(request)
        if not is_slow:
            there.set()
        await until_state(session, "paused")
        await until(lambda: is_slow or len(told) == 2)
        await an_hour_passes(server, told, there)
        await until(lambda: is_slow or len(told) == 6)
        monkeypatch.setattr(run_end, "MOST_EVENTS", 5)
        await session.raise_limits(max_turns=5)
        there.set()
        await until(lambda: len(told) == (5 if is_slow else 10))

    accepted = [("url", "", 0, "")] if is_slow else [*began, *reminders, ("second", "", 0, "")]
    decided = [("url", "k", 0, "raised"), ("first", "3", 0, "raised")]
    assert (server.runs(session.id), sorted(told)) == (2, sorted([*accepted, *decided, *began]))


async def test_only_the_newest_reminder_arrives_after_a_receivers_outage(tmp_path: Path) -> None:
    """Each reminder that becomes due withdraws the one before it, if that was not accepted."""
    told, there = list[Told](), asyncio.Event()
    async with reminding(None, tmp_path, told, there, notify_again_every=AGAIN) as opened:
        started = await opened.start(WAITING, until="awaiting_approval")
        await an_hour_passes(server_of(opened), told, there)
        await server_of(opened).saved()
        there.set()
        await until(lambda: len(told) > 1)
        await started.approve()
        await started.result()

    reminder, second, approved = ("first", "2", 3, ""), ("second", "", 0, ""), ("first", "3", 0, "approved")
    assert sorted(told) == [reminder, approved, second]


@pytest.mark.slow
async def test_reminders_due_while_no_worker_runs_are_sent_once(client: Client, tmp_path: Path) -> None:
    """Only the last reminder and the message to the second address are sent."""
    told, there = list[Told](), asyncio.Event()
    there.set()
    options: dict[str, Any] = {"notify_again_every": timedelta(seconds=3), "notify_later_after": timedelta(seconds=9)}
    async with reminding(client, tmp_path, told, there, **options) as opened:
        started = await opened.chargehand.start(WAITING)
        await until(lambda: bool(told))
        began = datetime.now(UTC)
    await until(lambda: datetime.now(UTC) > began + timedelta(seconds=10))
    async with reminding(client, tmp_path, told, there, **options):
        await until(lambda: {("first", 3), ("second", 0)} <= {(channel, before) for channel, _, before, _ in told})
        await started.approve()
        await started.result()
        await until(lambda: told[-1][-1] == "approved")

    assert 2 <= len([each for each in told[:-1] if each[0] == "first"]) <= 3  # one may be on its way as the worker ends
