"""Every provider failure has one meaning for the retry policy and reveals no secret."""

import asyncio
import inspect
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import ModuleType

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from temporalio.api.failure.v1 import Failure
from temporalio.contrib.pydantic import pydantic_data_converter

from activities.http.retry_after import LONGEST_RETRY_AFTER, retry_after
from activities.models.failures import (
    ProviderError,
    ProviderFault,
    Verdict,
    classify,
    redacted,
    translating,
    verdict_on,
)
from chargehand.wire import ErrorType
from tests.activities.models.calls import KEY, PROVIDERS, WIRES, Wire, a_call, a_provider, failure_of
from tests.processor_time import processor_seconds
from tests.scripted_provider import dropping, error, raw, resetting


def exported(package: ModuleType) -> set[type[BaseException]]:
    """List the exceptions that a package exports, wherever they are defined."""
    values = (getattr(package, name) for name in dir(package) if not name.startswith("_"))
    return {value for value in values if inspect.isclass(value) and issubclass(value, BaseException)}


def descendants(kind: type[BaseException]) -> Iterator[type[BaseException]]:
    """List all direct and indirect subclasses of a class."""
    for child in kind.__subclasses__():
        yield child
        yield from descendants(child)


def test_every_sdk_error_is_classified_by_its_base_class() -> None:
    """Status errors follow their status, lost connections may be billed, and SDK misuse is never retried."""
    import anthropic
    import openai

    for sdk, root in ((anthropic, anthropic.AnthropicError), (openai, openai.OpenAIError)):
        own = [kind for kind in descendants(root) if kind.__module__.partition(".")[0] == sdk.__name__]
        assert len(own) > 10
        for kind in own:
            if issubclass(kind, sdk.APIStatusError):
                expected = Verdict.BY_STATUS
            elif issubclass(kind, sdk.APIResponseValidationError):
                expected = Verdict.UNREADABLE
            elif issubclass(kind, sdk.APIError | anthropic.RetryableError):
                expected = Verdict.UNANSWERED
            else:
                expected = Verdict.REFUSED
            assert verdict_on(kind) is expected, kind


def test_every_transport_error_becomes_a_provider_error() -> None:
    """This covers every request error of the HTTP library below the SDKs."""
    request = httpx2.Request("POST", "http://127.0.0.1/")
    kinds = {kind for kind in exported(httpx2) if issubclass(kind, httpx2.RequestError)}

    assert len(kinds) > 15
    for kind in kinds:
        with pytest.raises(ProviderError), translating("anthropic"):
            raise kind("lost", request=request)


def test_bugs_and_cancellation_are_not_provider_errors() -> None:
    """They are raised unchanged."""
    for kind in (TypeError, KeyError, asyncio.CancelledError):
        with pytest.raises(kind), translating("anthropic"):
            raise kind("ours")


every_wire = pytest.mark.parametrize("wire", WIRES)

REFUSED = dict.fromkeys((*range(400, 420), 422, 431, 451, 499), (ErrorType.PROVIDER_REFUSED, True))
UNAVAILABLE = dict.fromkeys((408, 409, 500, 502, 503, 504, 529), (ErrorType.PROVIDER_UNAVAILABLE, False))
STATUSES = {**REFUSED, **UNAVAILABLE, 429: (ErrorType.RATE_LIMITED, False), 501: (ErrorType.PROVIDER_UNAVAILABLE, True)}


@every_wire
async def test_the_status_decides_whether_temporal_retries(wire: Wire) -> None:
    """408, 409, 429 and 5xx except 501 are retryable, all others final; the SDK itself sends no second request."""
    for status, (kind, final) in STATUSES.items():
        raised, requests = await failure_of(wire, error(status))
        assert (raised.kind, raised.is_final, requests) == (kind, final, 1), status


@every_wire
async def test_x_should_retry_overrides_the_status(wire: Wire) -> None:
    """Values other than true and false are ignored."""
    cases = [
        (400, "true", ErrorType.PROVIDER_UNAVAILABLE, False),
        (500, "false", ErrorType.PROVIDER_UNAVAILABLE, True),
        (429, "false", ErrorType.PROVIDER_REFUSED, True),
        (500, "maybe", ErrorType.PROVIDER_UNAVAILABLE, False),
    ]
    for status, said, kind, final in cases:
        raised, _ = await failure_of(wire, error(status, {"x-should-retry": said}))
        assert (raised.kind, raised.is_final) == (kind, final)


@pytest.mark.parametrize("wire", ["responses", "chat"])
async def test_an_exhausted_quota_is_not_a_rate_limit(wire: Wire) -> None:
    """OpenAI's 429 for an exhausted quota is final, even if its headers ask for a retry."""
    body = {"error": {"message": "You exceeded your current quota.", "type": "q", "code": "insufficient_quota"}}
    raised, _ = await failure_of(wire, error(429, {"x-should-retry": "true", "retry-after": "3"}, body))

    assert (raised.kind, raised.is_final, raised.retry_after) == (ErrorType.PROVIDER_REFUSED, True, None)
    assert raised.message == (
        "openai answered 429 insufficient_quota: You exceeded your current quota. "
        "Look at the account's rate limit, quota and billing."
    ).replace("openai", PROVIDERS[wire])


async def test_a_spend_limit_is_not_a_rate_limit() -> None:
    """Anthropic's 429 for a spend limit is final; it is recognized by its error code."""
    details = {"error_code": "enforced_spend_limit_reached"}
    body = {"type": "error", "error": {"type": "rate_limit_error", "message": "No more.", "details": details}}
    raised, _ = await failure_of("anthropic", error(429, body=json.dumps(body).encode()))

    fault = ProviderFault(
        provider="anthropic", status=429, code="enforced_spend_limit_reached", request_id="req_1", possibly_billed=False
    )
    assert (raised.kind, raised.is_final, raised.fault) == (ErrorType.PROVIDER_REFUSED, True, fault)


@every_wire
async def test_the_providers_retry_after_is_respected(wire: Wire) -> None:
    """`retry-after-ms` takes precedence over `retry-after`."""
    for milliseconds, seconds in (("1500", 1.5), ("soon", 7.0)):
        raised, _ = await failure_of(wire, error(429, {"retry-after-ms": milliseconds, "retry-after": "7"}))
        assert raised.retry_after == timedelta(seconds=seconds)


def test_invalid_retry_after_values_are_ignored() -> None:
    """Seconds and dates are accepted, nonsense and the past are not, and the wait is capped at one hour."""
    hour = LONGEST_RETRY_AFTER.total_seconds()
    waits = {"7": 7.0, "0.25": 0.25, "1e999": hour, "9999999999999": hour}
    senseless = ("", "-3", "nan", "soon", "Wed, 21 Oct 2015 07:28:00 GMT")

    assert {header: wait and wait.total_seconds() for header in waits if (wait := retry_after(header))} == waits
    assert [retry_after(header) for header in senseless] == [None] * len(senseless)
    until = retry_after(format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True))
    assert until is not None
    assert timedelta(seconds=60) < until <= timedelta(seconds=90)


@every_wire
async def test_a_lost_or_garbled_reply_is_retryable(wire: Wire) -> None:
    """It is recorded as possibly billed."""
    html = raw(b"<html>504 from a proxy</html>", {"content-type": "text/html"})
    bodies: tuple[bytes, ...] = (b'{"model": "m", "con', b"[1, 2]", b'{"model": "m"}', b"\xff\xfe", b"")
    for reply in (dropping(), resetting(), html, *map(raw, bodies)):
        raised, requests = await failure_of(wire, reply)
        assert (raised.kind, raised.is_final, requests) == (ErrorType.PROVIDER_UNAVAILABLE, False, 1)
        assert raised.fault.possibly_billed


@every_wire
async def test_a_refused_connection_is_retryable_and_not_billed(wire: Wire) -> None:
    """A refused connection is retryable and cannot have been billed."""
    async with a_provider(wire, lambda _: error(500)) as (server, model):
        await server.stop()
        with pytest.raises(ProviderError) as caught:
            await model.complete(a_call(wire))
        await server.start()

    assert (caught.value.kind, caught.value.is_final) == (ErrorType.PROVIDER_UNAVAILABLE, False)
    assert caught.value.fault == ProviderFault(provider=PROVIDERS[wire], possibly_billed=False)
    assert caught.value.message.endswith("Check the network and the base URL.")


@every_wire
async def test_no_api_key_enters_the_workflow_history(wire: Wire) -> None:
    """Keys that a provider quotes are in no part of the stored failure, which has no cause."""
    other = "sk-ant-api03-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789"
    body = {"error": {"message": f"Incorrect API key {KEY} (also {other})", "type": "x", "code": KEY}}
    raised, _ = await failure_of(wire, error(401, {"x-request-id": KEY, "request-id": KEY}, body))

    stored = Failure()
    await pydantic_data_converter.encode_failure(raised, stored)
    told = stored.SerializeToString() + raised.fault.model_dump_json().encode()

    assert KEY.encode() not in told
    assert other.encode() not in told
    assert "cause" not in {field.name for field, _ in stored.ListFields()}


def test_anything_that_looks_like_a_key_is_redacted() -> None:
    """Control characters are removed too, and the rest is cut to 300 characters."""
    cases = [
        ("Incorrect API key provided: sk-proj-a1b2c3d4e5.", "Incorrect API key provided: [redacted]"),
        ("authorization: Bearer abc.def-123 is bad", "authorization: [redacted] is bad"),
        ('{"x-api-key": "abc", "model": "m"}', '{"[redacted]", "model": "m"}'),
        ("cannot reach https://user:pass@host/v1", "cannot reach https[redacted]host/v1"),
        ("token 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b is spent", "token [redacted] is spent"),
        ("secret house-word in use", "secret [redacted] in use"),
        ("model claude-haiku-5-5-20261001 is overloaded", "model claude-haiku-5-5-20261001 is overloaded"),
        ("line one\n\x1b[31mline two\x00", "line one [31mline two"),
        ("word " * 100, ("word " * 100)[:299] + "…"),
    ]
    for said, kept in cases:
        assert redacted(said, ("house-word",)) == kept


def test_an_unknown_kind_of_error_is_final() -> None:
    """An error of an unknown class is never retried."""
    raised = classify(RuntimeError("new"), "openai")

    assert (raised.kind, raised.is_final) == (ErrorType.PROVIDER_REFUSED, True)


def test_long_error_messages_are_cut_before_redaction() -> None:
    """Redaction takes bounded time for any length, and yields one line of at most 300 characters."""
    cases = ["a-" * 30_000, "bearer " * 9_000, "://" + ":" * 60_000, "x" * 60_000, " " * 60_000]
    for text in cases:
        with processor_seconds(0.1):
            line = redacted(text, (KEY,))
        assert len(line) <= 300


@given(shown=st.integers(0, 12))
def test_no_partial_secret_survives_the_cut(shown: int) -> None:
    """A secret that the cut divides is removed."""
    kept = redacted(" " * (4_000 - shown) + "house-word and more", ("house-word",))
    assert kept in {"", "[redacted]", "[redacted] a"}
