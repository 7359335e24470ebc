"""A reply that is too much to keep is charged as billed, and asked for once."""

import json
from decimal import Decimal
from pathlib import Path
from uuid import uuid4

import pytest
from pydantic import JsonValue
from temporalio.client import Client

from activities.models.protocol import ModelCall, ModelReply
from chargehand.contracts import Usage
from tests.activities.models.calls import WIRES, Wire, usual_usage
from tests.activities.turns.one_turn import Harness, a_turn, harness_worker, open_harness
from tests.scripted_provider import ScriptedReply, ScriptedRequest, ToolUse, calling, raw
from tests.scripted_provider.wires import Body, write

_LONG = "x" * 2_100_000
_DEEP: JsonValue = json.loads('{"a":' * 200 + "1" + "}" * 200)


def _with_reasoning(wire: Wire, body: Body) -> Body:
    """Add 2.1 MB of reasoning to a reply."""
    match wire:
        case "anthropic":
            body["content"].insert(0, {"type": "thinking", "thinking": _LONG, "signature": "s"})
        case "responses":
            body["output"].insert(0, {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": _LONG})
        case "chat":
            body["choices"][0]["message"]["reasoning_content"] = _LONG
    return body


@pytest.mark.parametrize("wire", WIRES)
async def test_a_reply_that_is_too_much_to_keep_is_charged_as_billed(
    client: Client, tmp_path: Path, wire: Wire
) -> None:
    """Reasoning of 2.1 MB, 2,000 calls and arguments 200 levels deep each cost what they cost, once."""
    use = ToolUse("search", {"query": "ferry"})

    def respond(request: ScriptedRequest) -> ScriptedReply:
        match request.sequence:
            case 1:
                return raw(_with_reasoning(wire, write(request, calling(use))))
            case 2:
                return calling(*[use] * 2_000)
            case _:
                return calling(ToolUse("search", {"query": _DEEP}))

    async with open_harness(client, tmp_path, wire, respond) as (server, harness):
        results = [await harness.take(a_turn()) for _ in range(3)]

    assert [(result.stop, result.usage) for result in results] == [("tools", usual_usage(wire))] * 3
    assert server.charges == 3


class _Excessive:
    """A model whose replies are within no limit."""

    def __init__(self, *items: JsonValue) -> None:
        self.calls = 0
        self._items = items
        self.usage = Usage(turns=1, input_tokens=9, output_tokens=9, cost_usd=Decimal("0.5"))

    async def complete(self, call: ModelCall) -> ModelReply:
        self.calls += 1
        return ModelReply(
            stop="tools", provider_items=self._items, model=call.model, provider="excessive", usage=self.usage
        )


@pytest.mark.parametrize("items", [(_LONG,), (_DEEP,), ("\ud800",)])
async def test_a_result_that_cannot_be_recorded_is_charged_and_not_repeated(
    client: Client, tmp_path: Path, items: tuple[JsonValue, ...]
) -> None:
    """Whatever an adapter lets through, a result that is too large or cannot be read is malformed, and paid once."""
    model = _Excessive(*items)
    async with harness_worker(client, f"harness-{uuid4().hex[:8]}", tmp_path, model, "excessive") as worker:
        result = await Harness(client, worker.task_queue).take(a_turn())

    assert (result.stop, result.usage, result.provider_items, model.calls) == ("malformed", model.usage, (), 1)
