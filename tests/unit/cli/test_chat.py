"""The terminal of a conversation asks the server nothing while nothing happens."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import cast

import pytest

from chargehand import Conversation, Status
from chargehand.contracts import EndEvent, Transcript
from chargehand_cli.verbs.chat import Chat


class _Talk:
    """Stands for a conversation."""

    def __init__(self) -> None:
        self.asked, self.ends = list[str](), asyncio.Event()

    async def transcript(self) -> Transcript:
        self.asked.append("transcript")
        return Transcript()

    async def status(self) -> Status:
        self.asked.append("status")
        return Status(session="talk", goal="", state="finished", stop_reason="closed")

    async def follow(self) -> AsyncGenerator[EndEvent]:
        await self.ends.wait()
        yield EndEvent(session="talk", subtask="", at=datetime.now(UTC), state="completed")


async def test_an_idle_conversation_is_asked_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is looked at for what happens, and not at intervals."""
    monkeypatch.setattr("chargehand_cli.verbs.chat._LOOK_SECONDS", 0.0)
    (reading, _), talk = os.pipe(), _Talk()
    monkeypatch.setattr(sys, "stdin", os.fdopen(reading))
    holding = asyncio.create_task(Chat(cast("Conversation", talk), as_json=True).hold())
    for _ in range(1_000):  # rounds of the loop, in which something that polls would ask
        await asyncio.sleep(0)
    idle = [*talk.asked]
    talk.ends.set()
    is_over = await asyncio.wait_for(holding, 10)

    assert (idle, talk.asked, is_over) == (["transcript"], ["transcript", "transcript", "status"], True)
