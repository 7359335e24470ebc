"""A prompt that may be longer than what was reserved is counted by its provider before it is sent."""

from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import JsonValue
from temporalio.client import Client

from activities.models.registry import Models
from chargehand.contracts import Tier
from chargehand.wire import ErrorType
from tests.activities.models.calls import MODELS, Wire, a_provider
from tests.activities.turns.one_turn import Harness, a_turn, open_harness, turn_activities, turn_worker
from tests.scripted_provider import answer, error

_RESERVED = 1_000
"""Fewer tokens than the prompt has bytes."""


async def test_without_a_count_a_prompt_is_bounded_by_its_bytes(client: Client, tmp_path: Path) -> None:
    """A provider that counts no prompts is not asked, one that fails to costs only the count; no prompt is sent that
    could be longer than what is reserved."""

    def fail(_: object) -> int:
        raise LookupError("no such path")

    wires: tuple[Wire, ...] = ("chat", "anthropic")
    for wire in wires:
        async with open_harness(client, tmp_path / wire, wire, lambda _: answer("At eight.")) as (server, harness):
            server.count = fail
            refusal = await harness.fail(a_turn(max_input_tokens=_RESERVED))
            server.script_errors.clear()
        assert refusal.type == ErrorType.RESERVE_TOO_SMALL
        assert refusal.details[0] > 6_000
        assert (server.charges, bool(server.counted)) == (0, wire == "anthropic")


async def test_a_fallbacks_prompt_is_not_bounded_by_what_another_model_counted(client: Client, tmp_path: Path) -> None:
    """It is refused before it is paid if it may be longer than what was reserved, and counts for itself afterwards."""
    async with (
        a_provider("anthropic", lambda _: error(529, {"retry-after": "3600"})) as (_, first),
        a_provider("chat", lambda _: answer("At eight.")) as (server, second),
    ):
        turns = turn_activities(tmp_path, first, MODELS["anthropic"])
        cards = {tier: turns.models.card(tier).model_copy(update={"name": MODELS["chat"]}) for tier in Tier}
        turns = replace(turns, models=replace(turns.models, fallback=Models(second, cards)))
        async with turn_worker(client, "fallback-counts", turns) as worker:
            harness = Harness(client, worker.task_queue)
            counted: JsonValue = {"model": MODELS["anthropic"], "tokens": 200, "messages": 1}
            refusal = await harness.fail(a_turn(counted=counted, max_input_tokens=5_000))
            charges = server.charges
            result = await harness.take(a_turn(counted=counted, max_input_tokens=refusal.details[0]))

    assert (refusal.type, charges) == (ErrorType.RESERVE_TOO_SMALL, 0)
    assert refusal.details[0] > 6_000
    assert result.counted is not None
    assert result.counted.model == MODELS["chat"]


@pytest.mark.parametrize("wire", ["anthropic", "responses"])
async def test_a_prompt_is_counted_by_its_provider_before_it_is_sent(
    client: Client, tmp_path: Path, wire: Wire
) -> None:
    """The count is of the very prompt that is sent. One that is too long is not paid, and the refusal names what it may
    have at most, so that so much can be reserved; one that fits with its margin passes."""
    async with open_harness(client, tmp_path, wire, lambda _: answer("At eight.")) as (server, harness):
        server.count = lambda _: 990
        refusal = await harness.fail(a_turn(max_input_tokens=_RESERVED))
        charges = server.charges
        server.count = lambda _: 900
        result = await harness.take(a_turn(max_input_tokens=_RESERVED))

    counted, sent = ([(each.text, each.tools) for each in requests] for requests in (server.counted, server.requests))
    assert (refusal.type, charges) == (ErrorType.RESERVE_TOO_SMALL, 0)
    assert 990 < refusal.details[0] < 1_100
    assert (result.stop, counted) == ("answer", sent * 2)
