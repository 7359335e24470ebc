"""One turn: how its prompt is counted, whether it is wanted and fresh, and the results of its reply and charge."""

import json
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import cast
from uuid import uuid4

import pytest
from pydantic import JsonValue
from temporalio.client import Client, WorkflowFailureError
from temporalio.testing import ActivityEnvironment

from activities.heartbeat import BEAT_SECONDS, begin
from activities.models.protocol import ModelCall, ModelReply
from activities.models.tiers import Models
from activities.turn.contracts import TurnRequest, TurnResult
from activities.turn.discarded_runs import DiscardedTurn
from activities.turn.journal import Entry, open_journal, record_charge, take_over
from activities.turn.retry_policy import Freshness
from chargehand.contracts import Tier, Usage
from chargehand.contracts.events import LiveText
from chargehand.record import Record
from chargehand.wire import ErrorType
from chargehand_plugins.testing.in_memory.activities import _NoServer  # pyright: ignore[reportPrivateUsage]
from tests.activities.models.calls import MODELS, Wire, a_provider, usual_usage
from tests.activities.turns.one_turn import Harness, a_turn, harness_worker, open_harness, turn_activities, turn_worker
from tests.scripted_provider import ScriptedReply, ScriptedRequest, ToolUse, answer, calling, hanging, raw, stalling
from tests.scripted_provider.wires import write

_RESERVED = 1_000
"""Fewer tokens than the number of bytes in the prompt."""


async def test_an_uncounted_prompt_is_bounded_by_its_size_in_bytes(client: Client, tmp_path: Path) -> None:
    """A prompt that might exceed its reservation is never sent; a provider that cannot count is not asked to."""

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


async def test_a_fallback_ignores_the_token_count_of_another_model(client: Client, tmp_path: Path) -> None:
    """A prompt that might exceed its reservation is refused unpaid; later the fallback reports its own count."""
    async with (
        a_provider("anthropic", lambda _: raw(b"", {"retry-after": "3600"}, 529)) as (_, first),
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
async def test_the_provider_counts_each_prompt_before_it_is_sent(client: Client, tmp_path: Path, wire: Wire) -> None:
    """The count covers exactly the prompt sent; one that is too long is not paid for, and its length is named."""
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


_LONG = "x" * 2_100_000
_DEEP: JsonValue = json.loads('{"a":' * 200 + "1" + "}" * 200)


async def test_a_reply_too_large_to_store_is_charged_as_billed(client: Client, tmp_path: Path) -> None:
    """Reasoning of 2.1 MB, 2,000 calls and arguments 200 levels deep are each charged once."""
    use = ToolUse("search", {"query": "ferry"})

    def respond(request: ScriptedRequest) -> ScriptedReply:
        match request.sequence:
            case 1:
                body = write(request, calling(use))
                body["output"].insert(0, {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": _LONG})
                return raw(body)
            case 2:
                return calling(*[use] * 2_000)
            case _:
                return calling(ToolUse("search", {"query": _DEEP}))

    async with open_harness(client, tmp_path, "responses", respond) as (server, harness):
        results = [await harness.take(a_turn()) for _ in range(3)]

    assert [(result.stop, result.usage) for result in results] == [("tools", usual_usage("responses"))] * 3
    assert server.charges == 3


class _Excessive:
    """A model whose replies exceed all limits."""

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
    """An adapter result that is too large or cannot be serialised is malformed, and is paid for once."""
    model = _Excessive(*items)
    async with harness_worker(client, f"harness-{uuid4().hex[:8]}", tmp_path, model, "excessive") as worker:
        result = await Harness(client, worker.task_queue).take(a_turn())

    assert (result.stop, result.usage, result.provider_items, model.calls) == ("malformed", model.usage, (), 1)


STARTED = datetime(2026, 11, 21, 12, tzinfo=UTC)


def test_an_attempt_is_fresh_only_if_young_by_a_credible_clock() -> None:
    """I19: an attempt asks the server about itself unless this host's clock shows that it is surely young."""
    cases = [
        ([0.0], [False]),  # new
        ([2.5], [False]),  # half the heartbeat timeout
        ([2.6], [True]),  # older than half the heartbeat timeout
        ([15.0], [True]),  # old
        ([-0.2], [False]),  # clocks differ a little
        ([3600.0, 3600.1], [True, True]),  # clock far ahead
        ([-2.0, -1.9, 4.0], [False, False, True]),  # clock behind, within the tolerance
        ([-3600.0, -3599.9], [True, True]),  # clock far behind
        ([0.1, -3599.9, -3599.8], [False, True, True]),  # clock jumps back
    ]
    for ages, doubtful in cases:
        now = (STARTED + timedelta(seconds=age) for age in ages)
        freshness = Freshness(now.__next__)
        assert [freshness.is_doubtful(STARTED, timedelta(seconds=5)) for _ in ages] == doubtful


def test_a_discarded_reply_is_reused_only_for_an_identical_request() -> None:
    """A difference in any field except `max_output_tokens` makes it another request."""
    before = a_turn().turn
    same = before.model_copy(update={"after_reset": True})
    assert DiscardedTurn(before).matches(same)
    for field in TurnRequest.model_fields:
        other = same.model_copy(update={field: "something else"})
        assert DiscardedTurn(before).matches(other) is (field == "max_output_tokens")


MACHINE_SECONDS = 9.0
"""Seconds that a busy machine may add."""
AT_WORK: dict[Wire, ScriptedReply] = {
    "anthropic": hanging(),
    "responses": stalling(),
    "chat": answer("word " * 4_000).spaced(0.05),
}


@pytest.mark.parametrize("wire", AT_WORK)
async def test_cancelling_a_session_closes_the_paid_call(client: Client, tmp_path: Path, wire: Wire) -> None:
    """The provider sees the connection closed within a second of the cancellation, at any stage of the call."""
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


_TURN = a_turn().turn
_REPLY = ModelReply(stop="answer", model="m", provider="p", usage=Usage(cost_usd=Decimal("0.01")))
_PAID = Usage(turns=1, cost_usd=Decimal("0.01"))
_BACKUP = datetime(2026, 11, 23, tzinfo=UTC)


def at(hours: int) -> ActivityEnvironment:
    """Schedule the turn this many hours after the backup."""
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, scheduled_time=_BACKUP + timedelta(hours=hours))
    return environment


async def test_a_turn_books_what_it_cost_before_a_database_restore(tmp_path: Path) -> None:
    """A lost charge is booked once, however often the database is restored; a repeated attempt books nothing."""
    record = Record(tmp_path)

    booked = [await at(hours).run(record_charge, record, _TURN, _REPLY) for hours in (1, 1, 2, 3)]

    assert booked[:2] == [None, None]
    assert booked[2:] == [_PAID + _PAID, _PAID]
    assert [charge.usage for charge in record.charges("a-session")] == [_PAID] * 4


@pytest.mark.parametrize("is_told", [False, True])
async def test_a_reply_reused_after_a_restore_is_booked_once(tmp_path: Path, *, is_told: bool) -> None:
    """A surviving worker or `reconcile --repair`, whichever comes first, claims the single charge."""
    record, kept = Record(tmp_path), TurnResult(stop="answer", model="m", provider="p", usage=_PAID)
    await at(1).run(record_charge, record, _TURN, _REPLY)
    [paid] = record.charges("a-session")
    assert record.begin_telling(paid) if is_told else not record.is_booked(paid)

    taken = [await at(hours).run(take_over, record, "a-session", kept) for hours in (1, 2, 2, 3)]

    assert record.is_booked(paid) is not is_told
    assert taken == ([kept, *[kept.model_copy(update={"usage": Usage()})] * 3] if is_told else [kept] * 4)


async def test_a_reply_is_kept_when_its_charge_cannot_be_recorded(tmp_path: Path) -> None:
    """The reply is paid for, so it is used all the same."""
    (tmp_path / "record").write_text("in the way")

    assert await at(1).run(record_charge, Record(tmp_path), _TURN, _REPLY) is None


async def test_live_text_still_streams_after_a_journal_entry_is_recorded() -> None:
    """Later heartbeats carry the entry and the text written since, as in a repeated call."""
    environment, beats = ActivityEnvironment(cast("Client", _NoServer())), list[object]()
    environment.on_heartbeat = lambda *details: beats.extend(details)

    async def attempt() -> None:
        begin()
        async with open_journal() as record:
            await record.record(Entry(is_waiting=True))
            record.publish(LiveText(text="At ei"))

    await environment.run(attempt)

    assert beats == [Entry(is_waiting=True, live=LiveText(text="At ei"))]
