"""A provider's failure ends where it belongs: retried by the activity, or handed back to be booked first."""

from itertools import pairwise
from pathlib import Path

import pytest
from temporalio.client import Client

from activities.model_turn.retry_policy import pause_after
from activities.turn_kinds.work import WorkAnswer
from chargehand.wire import ErrorType
from tests.activities.models.calls import WIRES, Wire
from tests.activities.turns.one_turn import HURRY, a_turn, open_harness
from tests.scripted_provider import answer, dropping, error, hanging, raw, resetting

every_wire = pytest.mark.parametrize("wire", WIRES)

UNKNOWN_OUTCOMES = {
    "dropped": (dropping(), 1.0 / HURRY),
    "reset": (resetting(), 1.0 / HURRY),
    "not JSON": (raw(b"<html>504 from a proxy</html>", {"content-type": "text/html"}), 1.0 / HURRY),
    "gateway timeout": (error(504, {"retry-after": "7"}), 7.0),
}


@every_wire
@pytest.mark.parametrize("case", UNKNOWN_OUTCOMES)
async def test_what_may_have_been_charged_is_booked_before_more_is_paid(
    client: Client, tmp_path: Path, wire: Wire, case: str
) -> None:
    """A call of unknown outcome is one request; the workflow is told the number of failures and how long to wait."""
    reply, wait = UNKNOWN_OUTCOMES[case]
    async with open_harness(client, tmp_path, wire, lambda _: reply) as (server, harness):
        failure = await harness.fail(a_turn())

    assert (failure.type, failure.non_retryable) == (ErrorType.OUTCOME_UNKNOWN, True)
    assert tuple(failure.details) == (1, pytest.approx(wait, rel=0.1))
    assert len(server.requests) == 1


@every_wire
async def test_failures_of_earlier_activities_count(client: Client, tmp_path: Path, wire: Wire) -> None:
    """The third failure of a turn is the third, whoever handed the first two back; the wait doubles each time."""
    async with open_harness(client, tmp_path, wire, lambda _: dropping()) as (_, harness):
        failures = [await harness.fail(a_turn(provider_failures=earlier)) for earlier in (1, 2)]

    assert [tuple(failure.details) for failure in failures] == [
        (2, pytest.approx(2 / HURRY, rel=0.1)),
        (3, pytest.approx(4 / HURRY, rel=0.1)),
    ]


@every_wire
async def test_known_and_unknown_failures_are_counted_together(client: Client, tmp_path: Path, wire: Wire) -> None:
    """An error that costs nothing is retried by the activity, and counts when a later attempt is handed back."""
    replies = iter([error(503), dropping()])
    async with open_harness(client, tmp_path, wire, lambda _: next(replies)) as (server, harness):
        failure = await harness.fail(a_turn())

    assert (failure.type, tuple(failure.details)) == (ErrorType.OUTCOME_UNKNOWN, (2, pytest.approx(2 / HURRY, rel=0.1)))
    assert len(server.requests) == 2


async def test_a_failure_that_is_final_leaves_nothing_to_try(client: Client, tmp_path: Path) -> None:
    """A provider that says not to ask again, of a call that it may charge, has had all its attempts."""
    reply = error(504, {"x-should-retry": "false"})
    async with open_harness(client, tmp_path, "anthropic", lambda _: reply) as (server, harness):
        failure = await harness.fail(a_turn())

    assert (failure.type, failure.details[0]) == (ErrorType.OUTCOME_UNKNOWN, 3)
    assert len(server.requests) == 1


@every_wire
@pytest.mark.parametrize("status", [429, 503])
async def test_an_error_that_passes_is_three_requests(client: Client, tmp_path: Path, wire: Wire, status: int) -> None:
    """Exactly three requests, further apart each time, then the turn is given up: there is one layer of retries."""
    async with open_harness(client, tmp_path, wire, lambda _: error(status)) as (server, harness):
        failure = await harness.fail(a_turn())
        arrivals = [request.arrived_at for request in server.requests]

    assert (failure.type, failure.non_retryable) == (ErrorType.PROVIDER_UNAVAILABLE, True)
    assert failure.message.startswith("The model provider failed 3 times: ")
    first = 0.9 / HURRY
    gaps = [later - earlier for earlier, later in pairwise(arrivals)]
    assert len(gaps) == 2
    assert gaps[0] >= first
    assert gaps[1] >= 2 * first


@pytest.mark.parametrize(("failures", "seconds"), [(1, 1), (2, 2), (3, 4)])
def test_every_gap_is_twice_the_one_before(failures: int, seconds: int) -> None:
    """A provider's errors are answered by a back-off of 1, 2, 4 seconds, a tenth more or less (F13)."""
    pauses = {pause_after(failures).total_seconds() for _ in range(100)}

    assert all(0.9 * seconds <= pause <= 1.1 * seconds for pause in pauses)
    assert len(pauses) > 1


@every_wire
async def test_an_error_that_passed_is_forgotten(client: Client, tmp_path: Path, wire: Wire) -> None:
    """Two errors and then an answer are an answer."""
    replies = iter([error(500), error(529), answer("At eight.")])
    async with open_harness(client, tmp_path, wire, lambda _: next(replies)) as (server, harness):
        result = await harness.take(a_turn())

    assert isinstance(result.answer, WorkAnswer)
    assert (result.answer.content, len(server.requests)) == ("At eight.", 3)


@every_wire
@pytest.mark.parametrize("status", [400, 401])
async def test_a_refusal_is_one_request(client: Client, tmp_path: Path, wire: Wire, status: int) -> None:
    """What the provider does not accept is not sent again."""
    async with open_harness(client, tmp_path, wire, lambda _: error(status)) as (server, harness):
        failure = await harness.fail(a_turn())

    assert (failure.type, len(server.requests)) == (ErrorType.PROVIDER_REFUSED, 1)


async def test_the_wait_that_a_provider_asks_for_is_kept(client: Client, tmp_path: Path) -> None:
    """No request arrives before `retry-after` has passed."""
    replies = iter([error(429, {"retry-after": "0.7"}), answer()])
    async with open_harness(client, tmp_path, "anthropic", lambda _: next(replies)) as (server, harness):
        await harness.take(a_turn())
        first, second = (request.arrived_at for request in server.requests)

    assert second - first >= 0.7


async def test_a_provider_that_hangs_is_handed_back(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that takes too long is given up while the activity lives, and is of unknown outcome."""
    monkeypatch.setattr("activities.model_turn.activity.CALL_TIMEOUT_SECONDS", 0.3)
    async with open_harness(client, tmp_path, "anthropic", lambda _: hanging()) as (server, harness):
        failure = await harness.fail(a_turn())
        await server.until(lambda: server.exchanges[0].hung_up)

    assert (failure.type, tuple(failure.details)) == (ErrorType.OUTCOME_UNKNOWN, (1, pytest.approx(1 / HURRY, rel=0.1)))
