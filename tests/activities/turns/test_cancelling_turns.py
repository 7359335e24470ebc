"""A turn that nobody wants any more is not paid to its end."""

import time
from pathlib import Path

import pytest
from temporalio.client import Client, WorkflowFailureError

from activities.heartbeat import BEAT_SECONDS
from tests.activities.models.calls import Wire
from tests.activities.turns.one_turn import a_turn, open_harness
from tests.scripted_provider import ScriptedReply, answer, hanging, stalling

MACHINE_SECONDS = 1.0
"""What a busy machine may add."""
AT_WORK: dict[Wire, ScriptedReply] = {
    "anthropic": hanging(),
    "responses": stalling(),
    "chat": answer("word " * 4_000).spaced(0.05),
}


@pytest.mark.parametrize("wire", AT_WORK)
async def test_cancelling_a_session_closes_the_paid_call(client: Client, tmp_path: Path, wire: Wire) -> None:
    """However far the provider has come, it sees the connection closed within a second of the cancel."""
    async with open_harness(client, tmp_path, wire, lambda _: AT_WORK[wire]) as (server, harness):
        turn = await harness.start(a_turn())
        await server.until(lambda: len(server.requests) == 1)
        cancelled_at = time.monotonic()
        await turn.cancel()
        await server.until(lambda: server.exchanges[0].hung_up)
        took = time.monotonic() - cancelled_at
        with pytest.raises(WorkflowFailureError):
            await turn.result()

    assert BEAT_SECONDS < 1.0
    assert took < 1.0 + MACHINE_SECONDS
    assert len(server.requests) == 1
