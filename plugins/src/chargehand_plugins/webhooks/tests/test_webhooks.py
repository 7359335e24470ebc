"""Webhooks: every end of a session is announced until it is received, and only where allowed."""

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from queue import SimpleQueue

import pytest
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from chargehand.contracts import SessionRequest
from chargehand.errors import InvalidInput, SessionCancelled, SessionFailed
from chargehand.wire import ErrorType
from chargehand_plugins.webhooks.activity import WebhookActivities, WebhookNotice, WebhookRules, post
from chargehand_plugins.webhooks.links import NO_LINKS, Links
from tests.environment import SessionEnvironment, open_environment
from tests.loopback_http import LoopbackHandler, serve_http
from tests.scripted_model import Held, Script, answer, say, subtask
from tests.simulation.directed import VirtualSession
from tests.waiting import eventually, until_state

SECRET = b"a secret of twenty-four bytes"
SCRIPT = Script().plan(subtask("T1")).work("", answer("It is known."))
Received = tuple[dict[str, str], bytes]


@contextmanager
def receiver(*statuses: int) -> Generator[tuple[str, "SimpleQueue[Received]"]]:
    """Receive messages, answering with these statuses in turn and then with 204."""
    left = list(statuses)
    taken: SimpleQueue[Received] = SimpleQueue()

    class Handler(LoopbackHandler):
        def reply(self) -> None:
            taken.put(({name.lower(): value for name, value in self.headers.items()}, self.body()))
            self.answer(left.pop(0) if left else 204)

    with serve_http(Handler) as url:
        yield url, taken


@asynccontextmanager
async def worker(
    client: Client, folder: Path, rules: WebhookRules, script: Script = SCRIPT, links: Links = NO_LINKS
) -> AsyncGenerator[SessionEnvironment]:
    """Run a worker with what the plug-in adds to it."""
    added = [WebhookActivities(rules, links).call_webhook]
    async with open_environment(client, folder, script, request_checks=[rules.check], added=added) as opened:
        yield opened


def is_signed(headers: dict[str, str], body: bytes) -> bool:
    """Verify a message as the specification tells receivers to."""
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.new(SECRET, signed, hashlib.sha256).digest()).decode()
    return headers["webhook-signature"] == f"v1,{expected}"


async def test_a_conversation_announces_that_it_waits_for_its_user(client: Client, tmp_path: Path) -> None:
    """It does so after each reply, with its text and no decision link, unless a message is already waiting."""
    held = Held(say("One moment."))
    script = Script().replies("Hello", held).replies("pump", say("Its valve is closed."))
    links = Links("https://chargehand.test", b"a key of twenty-four bytes")
    with receiver() as (url, taken):
        rules = WebhookRules(frozenset({url.removeprefix("http://")}), SECRET)
        async with worker(client, tmp_path, rules, script, links) as opened:
            talk = await opened.chargehand.converse(crew="support", webhook=f"{url}/hook", idle=3_600)
            first = asyncio.create_task(talk.say(text="Hello"))
            await held.reached.wait()
            second = asyncio.create_task(talk.say(text="Why does the pump not run?"))
            await eventually(talk.transcript, lambda transcript: len(transcript.lines) == 2)
            held.released.set()
            replies = [await each for each in (first, second)]
            _, waits = await asyncio.to_thread(taken.get, timeout=30)
            await talk.close()
            await talk.result()
            _, ended = await asyncio.to_thread(taken.get, timeout=30)

    told = json.loads(waits)
    since, until_ = (datetime.fromisoformat(told["data"]["wait"].pop(name)) for name in ("since", "until"))
    assert told["type"] == "wait.began"
    assert told["data"] == {
        "session": talk.id,
        "wait": {"id": f"message-{replies[1].number}", "kind": "message", "asks": "Its valve is closed."},
        "decision": None,
    }
    assert until_ - since == timedelta(hours=1)
    assert json.loads(ended)["type"] == "session.finished"
    assert taken.empty()


@pytest.mark.slow
async def test_webhooks_arrive_in_order_after_an_outage(client: Client, tmp_path: Path) -> None:
    """A wait's end comes after its beginning, and the session's end after both."""
    with receiver(*[503] * 8) as (url, taken):
        rules = WebhookRules(frozenset({url.removeprefix("http://")}), SECRET)
        async with worker(client, tmp_path, rules) as opened:
            request = SessionRequest(goal="What is known?", approval="plan", webhook=f"{url}/hook")
            session = await opened.chargehand.start(request)
            await until_state(session, "awaiting_approval")
            await session.approve()
            await session.result()
            told = [await asyncio.to_thread(taken.get, timeout=60) for _ in range(8 + 3)]

    types = [json.loads(body)["type"] for _, body in told]
    assert types == [*["wait.began"] * 9, "wait.ended", "session.finished"]


async def test_every_session_end_is_announced(client: Client, tmp_path: Path) -> None:
    """A receiver that failed gets the same message again; it has nothing of what the session is about."""
    with receiver(503) as (url, taken):
        rules = WebhookRules(frozenset({url.removeprefix("http://")}), SECRET)
        async with worker(client, tmp_path, rules) as opened:
            request = SessionRequest(goal="What is the secret word?", webhook=f"{url}/hook?key=1")
            session = await opened.chargehand.start(request)
            subtasks = {event.subtask async for event in session.follow()}
            refused, repeated = [await asyncio.to_thread(taken.get, timeout=30) for _ in range(2)]
            asked = request.model_copy(update={"approval": "plan"})
            rejected, cancelled = [await opened.chargehand.start(asked) for _ in range(2)]
            for each in (rejected, cancelled):
                await until_state(each, "awaiting_approval")
            await cancelled.cancel()
            with pytest.raises(SessionCancelled):
                await cancelled.result()
            await rejected.reject("No.")
            with pytest.raises(SessionFailed):
                await rejected.result()
            others = [await asyncio.to_thread(taken.get, timeout=30) for _ in range(6)]

    assert subtasks == {"", "T1"}
    assert refused[0]["webhook-id"] == repeated[0]["webhook-id"]
    assert refused[1] == repeated[1]
    assert all(is_signed(*each) for each in (refused, repeated, *others))
    bodies = [json.loads(body) for body in (refused[1], *(body for _, body in others))]
    ends = [each for each in bodies if each["type"].startswith("session.")]
    assert "secret word" not in json.dumps(ends)
    decisions = [each["data"]["decision"] for each in bodies if each["type"].startswith("wait.")]
    assert sorted(each["decision"] if each else "" for each in decisions) == ["", "", "none", "rejected"]
    assert {each["type"]: each["data"]["stop_reason"] + each["data"]["error"] for each in ends} == {
        "session.finished": "completed",
        "session.failed": ErrorType.PLAN_REJECTED,
        "session.cancelled": "",
    }


@pytest.mark.parametrize(
    ("plugins", "problem"),
    [
        ({"webhooks": "chargehand_plugins.webhooks:register"}, "webhook: must be https.*allows: hooks.example"),
        ({}, r"webhook: .* the plug-in 'webhooks'; .* chargehand-plugins"),
    ],
)
async def test_a_webhook_to_another_host_or_without_the_plugin_is_refused(
    client: Client, tmp_path: Path, install: Callable[..., None], plugins: dict[str, str], problem: str
) -> None:
    """The error names the field, or the missing plug-in and its package; nothing is spent."""
    install(**plugins)
    rules = [WebhookRules(frozenset({"hooks.example"}), SECRET).check] if plugins else []
    async with open_environment(client, tmp_path, SCRIPT, request_checks=rules) as opened:
        with pytest.raises(SessionFailed, match=problem) as refused:
            await opened.run(SessionRequest(goal="Call home.", webhook="https://169.254.169.254/latest"))

    assert refused.value.error_type is ErrorType.INVALID_INPUT
    assert opened.model.calls == []


@pytest.mark.parametrize(
    "address",
    [
        *("http://hooks.example/", "https://hooks.example:8443/", "https://hooks.example@evil.example/"),
        *("https://evil.example/hooks.example", "https://evil.example#hooks.example", "https://hooks.example.evil/"),
        *("https://user:word@hooks.example/", "https://hooks.example:x/", "ftp://hooks.example/", "https:///"),
        *("http://internal:80/", "https://internal:8080/", "http://internal:8081/"),
    ],
)
def test_no_address_passes_for_another(address: str) -> None:
    """An allowed name is reached by https at its usual port only, an allowed port at that name only."""
    rules = WebhookRules(frozenset({"hooks.example", "internal:9000"}), SECRET)

    assert rules.problems(address)
    assert WebhookRules().problems(address)
    assert not rules.problems("https://hooks.example/x?y=1")
    assert not rules.problems("http://internal:9000/x")
    assert repr(SECRET) not in repr(WebhookActivities(rules))


@pytest.mark.parametrize("path", ["é", "a b", "\n"])
def test_an_unusable_webhook_address_is_refused(path: str) -> None:
    """It is refused at once, not a day later by a call that never succeeds."""
    with pytest.raises(InvalidInput, match="webhook"):
        SessionRequest(goal="What is it?", webhook=f"https://hooks.example/{path}")


async def test_an_allowed_name_at_an_internal_address_is_not_called() -> None:
    """A name allowed without a port must resolve to a public address when it is called."""
    rules = WebhookRules(frozenset({"localhost"}), SECRET)
    notice = WebhookNotice.model_validate(
        {"id": "1", "url": "https://localhost/", "about": {"session": "s", "state": "finished"}, "at": 0}
    )

    with pytest.raises(ApplicationError, match="this machine") as refused:
        await ActivityEnvironment().run(WebhookActivities(rules).call_webhook, notice)

    assert refused.value.non_retryable


async def test_retry_after_of_a_busy_receiver_is_obeyed() -> None:
    """In seconds or as a date, it is the delay before the next attempt, at most an hour."""

    class Busy(LoopbackHandler):
        def reply(self) -> None:
            self.answer(503, Retry_After=self.body().decode())

    delays: list[timedelta | None] = []
    tomorrow = format_datetime(datetime.now(UTC) + timedelta(days=1), usegmt=True)
    with serve_http(Busy) as url:
        for said in ("7", tomorrow, "soon"):
            with pytest.raises(ApplicationError) as caught:
                await post(f"{url}/hook", said.encode(), {}, frozenset({url.removeprefix("http://")}))
            delays.append(caught.value.next_retry_delay)

    assert delays == [timedelta(seconds=7), timedelta(hours=1), None]


def test_the_announced_end_of_a_session_is_its_actual_end() -> None:
    """A finished report is not lost to a cancellation that arrives while its webhook is called."""
    request = SessionRequest(goal="What do the documents say?", review="never", webhook="https://localhost/")
    script = Script().plan(subtask("T1")).work("T1", Held(answer("Known."), seconds=10))
    ends: list[str] = []
    for moment in range(100, 140, 2):
        session = VirtualSession(request, script, 400)  # milliseconds that every message takes
        session.run_until(moment / 10)
        status, announced = session.cancel()
        assert announced == ["finished" if status == "completed" else status]
        ends.append(status)

    assert sorted(ends) == ends
    assert set(ends) == {"cancelled", "completed"}
