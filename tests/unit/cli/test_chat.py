"""The terminal of a conversation asks the server nothing while nothing happens."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast

import pytest

from chargehand import Conversation
from chargehand.contracts import StateEvent, Transcript
from chargehand_cli.verbs.chat import Chat
from tests.waiting import until


class _Talk:
    """Stands for a conversation: what it is asked, and what happens in it."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.happens = asyncio.Queue[StateEvent]()

    async def transcript(self) -> Transcript:
        self.asked.append("transcript")
        return Transcript()

    async def status(self) -> SimpleNamespace:
        self.asked.append("status")
        return SimpleNamespace(state="awaiting_message", calls=())

    async def follow(self) -> AsyncGenerator[StateEvent]:
        while True:
            yield await self.happens.get()


async def test_an_idle_conversation_is_asked_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is looked at once for what happens, and not at intervals."""
    monkeypatch.setattr("chargehand_cli.verbs.chat._LOOK_SECONDS", 0.0)
    (reading, writing), talk = os.pipe(), _Talk()
    with os.fdopen(reading) as lines:
        monkeypatch.setattr(sys, "stdin", lines)
        holding = asyncio.create_task(Chat(cast("Conversation", talk), as_json=True).hold())
        for _ in range(1_000):  # rounds of the loop, in which something that polls would ask
            await asyncio.sleep(0)
        idle = [*talk.asked]
        talk.happens.put_nowait(StateEvent(session="talk", subtask="", at=datetime.now(UTC), state="executing"))
        await until(lambda: len(talk.asked) > len(idle))
        os.close(writing)
        await asyncio.wait_for(holding, 10)

    assert (idle, talk.asked[1:3]) == (["transcript"], ["transcript", "status"])
