"""Both vendors' SDKs against a real language model on this machine, which a scripted peer can only imitate.

Run with `make test MODEL=local`. What the model says is meaningless and is not checked.
"""

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Literal

import pytest

from activities.contracts.tool import ToolSpec
from activities.models.failures import ProviderError
from activities.models.protocol import ModelCall
from activities.models.streaming import SLOW_TO_BEGIN
from activities.turn_kinds.protocol import Message, TurnAnswer
from chargehand.wire import ErrorType
from tests.activities.models import local_server
from tests.activities.models.calls import SEARCH, WIRES, AnyModel, Wire, a_call, an_adapter
from tests.waiting import until

pytestmark = [pytest.mark.local_llm, pytest.mark.timeout(900)]

CONTEXT = 1_024
SECONDS = 300.0


class Verdict(TurnAnswer):
    """An answer that even a weak model gives in a few tokens when a grammar constrains it."""

    verdict: Literal["yes", "no"]
    sure: bool


class Peer:
    """The server, as seen by the SDKs and by its own log."""

    def __init__(self, base_url: str, log: Path) -> None:
        self._address = base_url.removesuffix("/v1")
        self._log = log

    def cancelled(self) -> int:
        return self._log.read_text(encoding="utf-8", errors="replace").count("cancel task")

    def at_work(self) -> int:
        return self._log.read_text(encoding="utf-8", errors="replace").count("launch_slot_")

    def adapter(self, wire: Wire) -> AnyModel:
        prices = {local_server.NAME: (Decimal(1), Decimal(2))}
        return an_adapter(wire, self._address, prices=prices, patience=SLOW_TO_BEGIN)

    def call(self, wire: Wire, text: str, *, most: int = 40, tools: Sequence[ToolSpec] = ()) -> ModelCall:
        call = a_call(
            wire, messages=[Message(role="user", text=text)], tools=tools, answer_type=Verdict, timeout_seconds=SECONDS
        )
        return call.model_copy(update={"model": local_server.NAME, "max_output_tokens": most})


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Generator[Peer]:
    log = tmp_path_factory.mktemp("model") / "model.log"
    command = [sys.executable, local_server.__file__, str(CONTEXT)]
    with (
        log.open("wb") as output,
        # Leaving closes the server's input, and so ends it.
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output, text=True) as process,
    ):
        assert process.stdout
        yield Peer(process.stdout.readline().strip(), log)


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> Wire:
    return request.param


@pytest.fixture
async def model(wire: Wire, peer: Peer) -> AsyncGenerator[AnyModel]:
    adapter = peer.adapter(wire)
    yield adapter
    await adapter.aclose()


async def test_a_turn_against_a_real_server_reports_its_usage(peer: Peer, wire: Wire, model: AnyModel) -> None:
    """The server accepts each adapter's tool format, and its token counts determine the cost."""
    reply = await model.complete(peer.call(wire, "When does the ferry leave?", tools=[SEARCH]))

    used = reply.usage
    assert reply.stop in ("answer", "tools", "truncated")
    assert reply.model == local_server.NAME
    assert used is not None
    assert used.turns == 1
    assert 20 < used.input_tokens < CONTEXT
    assert 1 <= used.output_tokens <= 40
    assert used.cost_usd > 0


async def test_the_server_enforces_the_answer_schema(peer: Peer) -> None:
    """Through Chat Completions, even a model that knows no JSON returns a valid answer."""
    adapter = peer.adapter("chat")

    reply = await adapter.complete(peer.call("chat", "Is the sky blue?", most=100))
    await adapter.aclose()

    assert reply.stop == "answer"
    assert Verdict.model_validate_json(reply.text).verdict in ("yes", "no")


async def test_a_prompt_over_the_context_window_is_not_retried(peer: Peer, wire: Wire, model: AnyModel) -> None:
    """The server's 400 is final, since the same prompt would be too long again."""
    with pytest.raises(ProviderError) as raised:
        await model.complete(peer.call(wire, "sky " * 2 * CONTEXT))

    assert (raised.value.kind, raised.value.is_final) == (ErrorType.PROVIDER_REFUSED, True)


async def test_a_cancelled_turn_stops_the_model(peer: Peer, wire: Wire, model: AnyModel) -> None:
    """Closing the connection reaches the server, which abandons the reply."""
    launched, cancelled = peer.at_work(), peer.cancelled()

    turn = asyncio.create_task(model.complete(peer.call(wire, "Tell a story.", most=900, tools=[SEARCH])))
    await until(lambda: peer.at_work() > launched, seconds=SECONDS)
    turn.cancel()

    with pytest.raises(asyncio.CancelledError):
        await turn
    await until(lambda: peer.cancelled() > cancelled, seconds=SECONDS)
