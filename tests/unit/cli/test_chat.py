"""The terminal of a conversation asks the server nothing while nothing happens."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import cast

import pytest

from chargehand import Conversation
from chargehand.contracts import Event, StateEvent, Transcript
from chargehand_cli.verbs.chat import Chat
from tests.waiting import until


@dataclass
class _Talk:
    """Stands for a conversation: what it was asked, and what happens in it."""

    id: str = "talk"
    asked: list[str] = field(default_factory=list[str])
    happens: "asyncio.Queue[Event | None]" = field(default_factory=asyncio.Queue["Event | None"])
    followers: int = 0

    async def transcript(self) -> Transcript:
        self.asked.append("transcript")
        return Transcript()

    async def status(self) -> "_Status":
        self.asked.append("status")
        return _Status()

    async def follow(self) -> AsyncGenerator[Event]:
        self.followers += 1
        while event := await self.happens.get():
            yield event


@dataclass
class _Status:
    state: str = "awaiting_message"
    calls: tuple[()] = ()


async def test_an_idle_conversation_is_asked_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is looked at once for each thing that happens, and not at intervals."""
    reading, writing = os.pipe()
    talk = _Talk()
    with os.fdopen(reading) as lines:
        monkeypatch.setattr(sys, "stdin", lines)
        monkeypatch.setattr("chargehand_cli.verbs.chat._LOOK_SECONDS", 0.0)
        holding = asyncio.create_task(Chat(cast("Conversation", talk), as_json=True).hold())
        await until(lambda: talk.followers == 1)
        for _ in range(1_000):  # rounds of the loop, in which something that polls would ask
            await asyncio.sleep(0)
        idle = [*talk.asked]
        talk.happens.put_nowait(StateEvent(session="talk", subtask="", at=datetime.now(UTC), state="executing"))
        await until(lambda: len(talk.asked) > len(idle))
        os.close(writing)
        await asyncio.wait_for(holding, 10)

    assert (idle, talk.asked[1:3]) == (["transcript"], ["transcript", "status"])
