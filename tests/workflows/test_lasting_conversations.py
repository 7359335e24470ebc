"""Conversations that last for days and many runs, and outlive their server and their workers."""

import asyncio
import os
import re
import signal
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from temporalio.client import Client

from activities.models.protocol import ModelCall
from activities.turn_kinds.work import ConverseTask
from chargehand import Conversation
from chargehand.converter import data_converter
from chargehand_cli.embedded.server import end_process, start_server
from chargehand_cli.embedded.user import find_temporal
from tests.crew_files import crew_folder
from tests.environment import open_environment
from tests.scripted_model import Script, Turn, request_tool, say
from tests.waiting import runs_of
from tests.workflows.conftest import DESK, Desk, pending, say_once, server_of
from workflows import continue_as_new

SUPPORT = [f"Message {number} of the customer." for number in range(1, 31)]
SLACK = Path(__file__).resolve().parents[2] / "docs/how-to/slack-and-webhooks.md"
REFUNDS = (8, 23)
"""Messages that ask for a refund, which a person has to approve."""


def _support(call: ModelCall) -> Turn:
    """Reply to each message by its number, after a refund where one is asked for."""
    task = call.task
    assert isinstance(task, ConverseTask)
    latest = task.latest()
    number = SUPPORT.index(latest.instruction) + 1
    if number in REFUNDS and not latest.rounds:
        return request_tool("refund", amount=number)
    return say(f"Reply {number}.")


async def _talk_through(talk: Conversation, numbers: Iterable[int], decide: Callable[[], Awaitable[None]]) -> None:
    """Say some of the messages, each with its own update id, and check each reply."""
    for number in numbers:
        saying = asyncio.create_task(say_once(talk, SUPPORT[number - 1], update=f"u{number}"))
        if number in REFUNDS:
            await pending(talk)
            await decide()
            await talk.approve_call(await pending(talk))
        reply = await asyncio.wait_for(saying, 30)
        assert (reply.text, reply.answers) == (f"Reply {number}.", (2 * number - 1,))


async def test_a_long_conversation_with_days_between(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of thirty messages gets its own reply though the worker is lost after every task, server, worker and client
    are lost in the middle, while an approval waits, and runs continue as new; an approval can wait for a day, and costs
    the agent no time; the agent reads the whole conversation."""
    monkeypatch.setattr(continue_as_new, "MOST_EVENTS", 60)
    script = Script().on("converse", _support)

    async def wait_a_day() -> None:
        server_of(opened).skip(timedelta(days=1))

    async with desk(script, cached_workflows=0) as opened:
        talk = await opened.chargehand.converse(crew="desk", idle=timedelta(days=3), answer_within="2d")
        await _talk_through(talk, range(1, 23), wait_a_day)
        asking = asyncio.create_task(say_once(talk, SUPPORT[22], update="u23"))
        await pending(talk)
        saved = await server_of(opened).saved()
        asking.cancel()
        await asyncio.wait({asking})
        before = opened
    async with desk(script, cached_workflows=0, saved=saved) as opened:
        talk = opened.chargehand.conversation(talk.id)
        await _talk_through(talk, range(23, 31), wait_a_day)
        transcript = await talk.transcript()
        runs = server_of(opened).runs(talk.id)
        server_of(opened).skip(timedelta(days=3))
        end = await asyncio.wait_for(talk.result(), 20)

    rounds = opened.model.tasks(ConverseTask)[-1].rounds
    assert runs > 3
    assert [line.text for line in transcript.lines] == _both_sides()
    assert [past.said for past in rounds if past.said] == SUPPORT[1:]
    assert [call["amount"] for each in (before, opened) for call in each.tools["refund"].calls] == [*REFUNDS]
    assert (end.reason, end.messages, end.replies, end.usage.turns) == ("idle", 30, 30, 32)
    assert len(before.model.calls) + len(opened.model.calls) == 32


async def test_a_slack_thread_is_one_conversation(desk: Desk) -> None:
    """The recipe, as its page has it: an event that Slack repeats is the same message, two at once are both answered,
    and after server and worker are lost a repeated one gets the reply that it had."""
    names: dict[str, Any] = {}
    [recipe] = re.findall(r"^```python\n(.*?)^```$", SLACK.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    exec(compile(recipe, str(SLACK), "exec"), names)
    posted: list[tuple[str, str, str]] = []
    events = {
        "Ev1": {"channel": "C1", "ts": "1.0", "text": "first"},
        "Ev2": {"channel": "C1", "ts": "2.0", "thread_ts": "1.0", "text": "second"},
        "Ev3": {"channel": "C1", "ts": "3.0", "thread_ts": "1.0", "text": "third"},
        "Ev4": {"channel": "C1", "ts": "4.0", "thread_ts": "1.0", "text": "fourth"},
    }
    script = Script()
    for event in events.values():
        script = script.replies(event["text"], say(f"To the {event['text']} <!channel>."))

    async def post(*, channel: str, thread_ts: str, text: str) -> None:
        posted.append((channel, thread_ts, text))

    async def deliver(*ids: str) -> None:
        answer = names["answer_in_thread"]
        told = (answer(opened.chargehand, events[each], each, post) for each in ids)
        await asyncio.wait_for(asyncio.gather(*told), 60)

    async with desk(script) as opened:
        await deliver("Ev1", "Ev1")
        await deliver("Ev2", "Ev3", "Ev2")
        saved, paid = await server_of(opened).saved(), len(opened.model.calls)
    async with desk(script, saved=saved) as opened:
        await deliver("Ev3", "Ev4")
        transcript = await opened.chargehand.conversation("slack-C1-1.0").transcript()
        paid += len(opened.model.calls)

    said = [line.text for line in transcript.lines if line.kind == "message"]
    assert sorted(said) == sorted(event["text"] for event in events.values())
    assert paid == len(events)
    repeated = ["first", "first", "second", "second", "third", "third", "fourth"]
    assert sorted(posted) == sorted(("C1", "1.0", f"To the {text} &lt;!channel&gt;.") for text in repeated)


@contextmanager
def _server_to_kill(folder: Path) -> Generator[tuple[str, Callable[[], None]]]:
    """Run a real server on a database of its own; yields its address, and what kills it and starts it anew."""
    with (folder / "lock").open("w") as lock:
        files = (find_temporal(), folder / "temporal.db", folder / "server.log")
        servers = [start_server(*files, lock_descriptor=lock.fileno(), prefer=0)]

        def restart() -> None:
            os.killpg(servers[-1].process.pid, signal.SIGKILL)
            servers[-1].process.wait()
            servers.append(start_server(*files, lock_descriptor=lock.fileno(), prefer=servers[0].port))
            assert servers[-1].port == servers[0].port

        yield servers[0].address, restart
        end_process(servers[-1].process, grace_seconds=5)


@pytest.mark.slow
@pytest.mark.real_server
async def test_it_survives_server_and_worker_and_goes_on_in_new_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server is killed and the worker replaced while a call waits for a person, the worker again while a message
    waits for an answer, and runs continue as new between messages: none is lost or answered twice, whichever run it is
    sent to again."""
    with _server_to_kill(tmp_path) as (address, restart):
        client = await Client.connect(address, data_converter=data_converter())
        await _survive(client, restart, tmp_path, monkeypatch)


async def _survive(
    client: Client, restart: Callable[[], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(continue_as_new, "MOST_EVENTS", 60)
    folder, queue = crew_folder(tmp_path, "desk", **DESK), f"talk-{uuid4().hex[:8]}"
    options: dict[str, Any] = {"own_crews": (folder,), "acting": ("refund",), "task_queue": queue}
    script = Script().on("converse", _support)

    async def at_once() -> None:
        pass

    async with open_environment(client, tmp_path, script, **options) as opened:
        talk = await opened.chargehand.converse(crew="desk")
        await _talk_through(talk, range(1, 8), at_once)
        refunding = asyncio.create_task(say_once(talk, SUPPORT[7], update="u8"))
        call = await pending(talk)
        refunding.cancel()
    await asyncio.to_thread(restart)
    async with open_environment(client, tmp_path, script, **options) as second:
        refunding = asyncio.create_task(say_once(talk, SUPPORT[7], update="u8"))
        await talk.approve_call(call)
        assert (await asyncio.wait_for(refunding, 30)).text == "Reply 8."
        await _talk_through(talk, range(9, 16), at_once)
    waiting = asyncio.create_task(say_once(talk, SUPPORT[15], update="u16"))
    async with open_environment(client, tmp_path, script, **options) as third:
        assert (await asyncio.wait_for(waiting, 30)).text == "Reply 16."
        await _talk_through(talk, range(17, 31), at_once)
        again = await asyncio.wait_for(say_once(talk, SUPPORT[2], update="u3"), 30)
        transcript = await talk.transcript()
        await talk.close()
        end = await asyncio.wait_for(talk.result(), 30)
        runs = await runs_of(client, talk.id, 4)

    calls = [call for each in (opened, second, third) for call in each.tools["refund"].calls]
    assert again.text == "Reply 3."
    assert [line.text for line in transcript.lines] == _both_sides()
    assert [call["amount"] for call in calls] == [*REFUNDS]
    assert len(runs) > 3
    assert (end.messages, end.replies, end.usage.turns) == (30, 30, 32)


def _both_sides() -> list[str]:
    return [text for number, said in enumerate(SUPPORT, start=1) for text in (said, f"Reply {number}.")]
