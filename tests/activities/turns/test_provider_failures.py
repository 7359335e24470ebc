"""A provider's failure is handled in the right place: retried by the activity, or returned to be booked."""

import asyncio
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from uuid import uuid4

import pytest
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from activities.turn.journal import Journal
from activities.turn.retry_policy import pause_after
from activities.turn_kinds.work import WorkAnswer
from chargehand.wire import ErrorType
from tests.activities.models.calls import an_adapter
from tests.activities.turns import one_turn
from tests.activities.turns.one_turn import HURRY, Harness, a_turn, harness_worker, open_harness
from tests.parameters import first_fast
from tests.scripted_provider import answer, dropping, error, hanging, raw, resetting

UNKNOWN_OUTCOMES = (
    (dropping(), 1.0 / HURRY),
    (resetting(), 1.0 / HURRY),
    (raw(b"<html>504 from a proxy</html>", {"content-type": "text/html"}), 1.0 / HURRY),
    (error(504, {"retry-after": "7"}), 7.0),
)


async def test_an_unknown_outcome_is_booked_before_the_next_paid_call(client: Client, tmp_path: Path) -> None:
    """A call of unknown outcome sends one request; earlier failures count, and the wait doubles each time."""
    earlier_failures = [(dropping(), earlier, 2**earlier / HURRY) for earlier in (1, 2)]
    calls = [*earlier_failures, *((reply, 0, wait) for reply, wait in UNKNOWN_OUTCOMES)]
    replies = iter([each for reply, _, _ in calls for each in (reply, answer())])
    failures: list[ApplicationError] = []
    async with open_harness(client, tmp_path, "responses", lambda _: next(replies)) as (server, harness):
        for _, earlier, _ in calls:
            failures.append(await harness.fail(a_turn(provider_failures=earlier)))
            if len(failures) < len(calls):
                await harness.take(a_turn())  # or the breaker opens

    assert {(failure.type, failure.non_retryable) for failure in failures} == {(ErrorType.OUTCOME_UNKNOWN, True)}
    assert [tuple(failure.details)[:2] for failure in failures] == [
        (earlier + 1, pytest.approx(wait, rel=0.1)) for _, earlier, wait in calls
    ]
    assert len(server.requests) == 2 * len(calls) - 1


async def test_only_possibly_billed_calls_count_as_provider_failures(client: Client, tmp_path: Path) -> None:
    """The activity retries errors that cost nothing with growing pauses and leaves them out of the count."""
    replies = iter([error(503), error(429), error(500), error(529), dropping(), error(500), answer("At eight.")])
    async with open_harness(client, tmp_path, "chat", lambda _: next(replies)) as (server, harness):
        failure = await harness.fail(a_turn())
        gaps = [later.arrived_at - earlier.arrived_at for earlier, later in pairwise(server.requests)]
        result = await harness.take(a_turn())

    assert failure.type == ErrorType.OUTCOME_UNKNOWN
    assert tuple(failure.details)[:2] == (1, pytest.approx(1 / HURRY, rel=0.1))
    assert [gap >= 0.9 * 2 ** min(number, 2) / HURRY for number, gap in enumerate(gaps)] == [True] * 4
    assert isinstance(result.answer, WorkAnswer)
    assert (result.answer.content, len(server.requests)) == ("At eight.", 7)


@pytest.mark.parametrize("kind", first_fast(["refused", "unknown name", "hangs up"]))
async def test_an_unreachable_provider_is_retried_until_the_turn_times_out(
    client: Client, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that was never made costs nothing, and the failure stays retryable."""
    tried = list[int]()

    def pause(failures: int) -> timedelta:
        tried.append(failures)
        return pause_after(failures) / HURRY if failures < 3 else timedelta(hours=1)

    monkeypatch.setattr(one_turn, "hurried", pause)

    async def say_no(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with await asyncio.start_server(say_no, "127.0.0.1", 0) as plain:
        port = plain.sockets[0].getsockname()[1]
        if kind == "refused":
            plain.close()
        url = "https://nowhere.invalid" if kind == "unknown name" else f"https://127.0.0.1:{port}"
        model = an_adapter("anthropic", url)
        await model.warm_up()
        queue = f"down-{uuid4().hex[:8]}"
        async with harness_worker(client, queue, tmp_path, model, "any"):
            failure = await Harness(client, queue).fail(a_turn().model_copy(update={"time": timedelta(minutes=1)}))
        await model.aclose()

    assert max(tried) == 3
    assert failure.type == ErrorType.PROVIDER_UNAVAILABLE
    assert not failure.non_retryable
    assert "did not answer" in failure.message


def test_provider_backoff_doubles_up_to_four_seconds() -> None:
    """The pauses are 1, 2 and then 4 seconds, with 10 % jitter."""
    for failures, seconds in ((1, 1), (2, 2), (3, 4), (6, 4), (10_000, 4)):
        pauses = {pause_after(failures).total_seconds() for _ in range(100)}
        assert all(0.9 * seconds <= pause <= 1.1 * seconds for pause in pauses)
        assert len(pauses) > 1


async def test_retry_after_is_respected(client: Client, tmp_path: Path) -> None:
    """No request arrives before `retry-after` has passed."""
    replies = iter([error(429, {"retry-after": "0.7"}), answer()])
    async with open_harness(client, tmp_path, "anthropic", lambda _: next(replies)) as (server, harness):
        await harness.take(a_turn())
        first, second = (request.arrived_at for request in server.requests)

    assert second - first >= 0.7


async def test_a_hanging_provider_call_fails_with_an_unknown_outcome(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The activity gives up on the call before its own timeout and closes the connection."""
    replies = iter([answer()])
    async with open_harness(client, tmp_path, "anthropic", lambda _: next(replies, hanging())) as (server, harness):
        await harness.take(a_turn())  # so that imports and connections are done, and only the reply is awaited
        monkeypatch.setattr(Journal, "patience_seconds", 1.0)
        failure = await harness.fail(a_turn())
        await server.until(lambda: all(each.hung_up for each in server.exchanges[1:]))

    assert failure.type == ErrorType.OUTCOME_UNKNOWN
    assert tuple(failure.details)[:2] == (1, pytest.approx(1 / HURRY, rel=0.1))
