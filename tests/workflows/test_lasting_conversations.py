"""Conversations that last for days and many runs, and outlive their server and their workers.

Real servers and workers are killed by `test_evaluation_desks.py`, at night.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from activities.models.protocol import ModelCall
from activities.turn_kinds.work import ConverseTask
from chargehand import Conversation
from tests.scripted_model import Script, Turn, request_tool, say
from tests.workflows.conftest import Desk, pending, say_once, server_of
from workflows import run_end

SUPPORT = [f"Message {number} of the customer." for number in range(1, 31)]
SLACK = Path(__file__).resolve().parents[2] / "docs/how-to/slack-and-webhooks.md"
REFUNDS = (8, 23)
"""Messages that ask for a refund, which a person has to approve."""


def _support(call: ModelCall) -> Turn:
    """Reply to each message by its number, after a refund if one is requested."""
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
        reply = await saying
        assert (reply.text, reply.answers) == (f"Reply {number}.", (2 * number - 1,))


async def test_a_long_conversation_survives_restarts_and_days_of_waiting(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of thirty messages gets its own reply, though the worker is lost after every task, and everything is lost
    once while an approval waits and runs continue as new. An approval can wait for a day without costing agent time,
    and the agent reads the whole conversation.
    """
    monkeypatch.setattr(run_end, "MOST_EVENTS", 60)
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
        end = await talk.result()

    rounds = opened.model.tasks(ConverseTask)[-1].rounds
    assert runs > 3
    both_sides = [text for number, said in enumerate(SUPPORT, start=1) for text in (said, f"Reply {number}.")]
    assert [line.text for line in transcript.lines] == both_sides
    assert [past.said for past in rounds if past.said] == SUPPORT[1:]
    assert [call["amount"] for each in (before, opened) for call in each.tools["refund"].calls] == [*REFUNDS]
    assert (end.reason, end.messages, end.replies, end.usage.turns) == ("idle", 30, 30, 32)
    assert len(before.model.calls) + len(opened.model.calls) == 32


async def test_the_slack_recipe_maps_a_thread_to_one_conversation(desk: Desk) -> None:
    """An event that Slack repeats is one message, even after server and worker are lost; two at once are answered."""
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

    async def post(*, channel: str, thread_ts: str, text: str, **_: bool) -> None:
        posted.append((channel, thread_ts, text))

    async def deliver(*ids: str) -> None:
        answer = names["answer_in_thread"]
        told = (answer(opened.chargehand, events[each], each, post) for each in ids)
        await asyncio.gather(*told)

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
