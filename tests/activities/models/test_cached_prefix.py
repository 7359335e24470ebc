"""What a provider can cache: each request of a conversation begins with the whole of the one before."""

import json
from typing import Any

import pytest

from tests.activities.models.calls import WIRES, Wire, a_call, a_provider, round_of
from tests.scripted_provider import ToolUse, answer, calling


@pytest.mark.parametrize("wire", WIRES)
async def test_a_turn_begins_with_the_turn_before_it(wire: Wire) -> None:
    """Tools, system text, answer's shape and messages of the first request are byte for byte those of the second."""
    replies = iter([calling(ToolUse("read_document", {"name": "a.pdf"})), answer()])
    async with a_provider(wire, lambda _: next(replies)) as (server, model):
        reply = await model.complete(a_call(wire))
        await model.complete(a_call(wire, messages=round_of(reply, "At eight.")))

    (fixed, first), (also_fixed, second) = (_parts(request.body) for request in server.requests)
    assert fixed == also_fixed
    assert first == second[: len(first)]
    assert len(first) < len(second)


def _parts(body: dict[str, Any]) -> tuple[str, list[str]]:
    """Tell the messages of a request from the rest; marks for the cache are no part of the prompt."""
    rest = dict(body)
    messages = rest.pop("input" if "input" in rest else "messages")
    written = [json.dumps(message).replace(', "cache_control": {"type": "ephemeral"}', "") for message in messages]
    return json.dumps(rest), written
