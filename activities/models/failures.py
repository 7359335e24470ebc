"""What a provider's failure means for the retry policy: one table, and the error that leaves our code.

No SDK is imported: the table names their classes, and a test holds it against what they export.
"""

import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import Enum, auto
from typing import Any, Final, cast

from temporalio.exceptions import ApplicationError

from chargehand.contracts import Contract
from chargehand.wire import ErrorType

LONGEST_WAIT: Final = timedelta(hours=1)
"""A provider that asks for more patience is asked again after this."""
_QUOTED_CHARACTERS: Final = 300


class ProviderFault(Contract):
    """The facts of a failure, as the details of its `ApplicationError`; free of user text."""

    provider: str
    status: int | None = None
    """HTTP status; None if there was no answer."""
    code: str = ""
    """The provider's own name for the cause."""
    request_id: str = ""
    """What the provider's support asks for."""
    possibly_billed: bool = False
    """The provider may have done the work although no answer came."""


class Verdict(Enum):
    """What a class of errors says about asking again."""

    BY_STATUS = auto()
    """It is an HTTP status."""
    UNREACHED = auto()
    """The request never arrived: ask again, nothing was paid."""
    UNANSWERED = auto()
    """The request may have arrived and been worked on: ask again, it may be paid twice."""
    UNREADABLE = auto()
    """The answer came and makes no sense: ask again, it is paid."""
    REFUSED = auto()
    """Asking again is of no use."""


VERDICTS: Final[Mapping[tuple[str, str], Verdict]] = {
    ("anthropic", "AnthropicError"): Verdict.REFUSED,
    ("anthropic", "APIError"): Verdict.UNANSWERED,
    ("anthropic", "APIStatusError"): Verdict.BY_STATUS,
    ("anthropic", "APIConnectionError"): Verdict.UNANSWERED,
    ("anthropic", "APITimeoutError"): Verdict.UNANSWERED,
    ("anthropic", "APIResponseValidationError"): Verdict.UNREADABLE,
    ("anthropic", "APIWebhookValidationError"): Verdict.REFUSED,
    ("anthropic", "RetryableError"): Verdict.UNANSWERED,
    ("anthropic", "CredentialsError"): Verdict.REFUSED,
    ("anthropic", "IdentityTokenFileError"): Verdict.REFUSED,
    ("anthropic", "WorkloadIdentityError"): Verdict.REFUSED,
    ("anthropic", "BadRequestError"): Verdict.BY_STATUS,
    ("anthropic", "AuthenticationError"): Verdict.BY_STATUS,
    ("anthropic", "PaymentRequiredError"): Verdict.BY_STATUS,
    ("anthropic", "PermissionDeniedError"): Verdict.BY_STATUS,
    ("anthropic", "NotFoundError"): Verdict.BY_STATUS,
    ("anthropic", "RequestTimeoutError"): Verdict.BY_STATUS,
    ("anthropic", "ConflictError"): Verdict.BY_STATUS,
    ("anthropic", "PreconditionFailedError"): Verdict.BY_STATUS,
    ("anthropic", "ContentTooLargeError"): Verdict.BY_STATUS,
    ("anthropic", "UnprocessableEntityError"): Verdict.BY_STATUS,
    ("anthropic", "RateLimitError"): Verdict.BY_STATUS,
    ("anthropic", "RequestHeaderFieldsTooLargeError"): Verdict.BY_STATUS,
    ("anthropic", "ClientClosedRequestError"): Verdict.BY_STATUS,
    ("anthropic", "InternalServerError"): Verdict.BY_STATUS,
    ("anthropic", "HTTPNotImplementedError"): Verdict.REFUSED,
    ("anthropic", "ServiceUnavailableError"): Verdict.BY_STATUS,
    ("anthropic", "GatewayTimeoutError"): Verdict.BY_STATUS,
    ("anthropic", "OverloadedError"): Verdict.BY_STATUS,
    ("anthropic", "ClaudeCodeKeyCreatorNotMemberError"): Verdict.REFUSED,
    ("anthropic", "ClaudeCodeVersionTooOldError"): Verdict.REFUSED,
    ("anthropic", "CMEKContextUnavailableError"): Verdict.BY_STATUS,
    ("anthropic", "CMEKKeyDisabledError"): Verdict.REFUSED,
    ("anthropic", "CMEKKeyNetworkBlockedError"): Verdict.REFUSED,
    ("anthropic", "CMEKKeyUnreachableError"): Verdict.BY_STATUS,
    ("anthropic", "ContractSpendLimitReachedError"): Verdict.REFUSED,
    ("anthropic", "EnforcedSpendLimitReachedError"): Verdict.REFUSED,
    ("anthropic", "LinkedOrganizationBillingUnavailableError"): Verdict.REFUSED,
    ("anthropic", "LinkedOrganizationSpendLimitReachedError"): Verdict.REFUSED,
    ("anthropic", "OrganizationOnHoldError"): Verdict.REFUSED,
    ("anthropic", "OrganizationTypeNotSupportedError"): Verdict.REFUSED,
    ("anthropic", "ParentOrganizationRequiredError"): Verdict.REFUSED,
    ("anthropic", "RampLimitExceededError"): Verdict.BY_STATUS,
    ("anthropic", "RequestBodyEncodingInvalidError"): Verdict.REFUSED,
    ("anthropic", "RequestBodyEncodingUnsupportedError"): Verdict.REFUSED,
    ("anthropic", "RequestBodyTooLargeAfterDecodingError"): Verdict.REFUSED,
    ("anthropic", "SandboxEgressRestrictedError"): Verdict.REFUSED,
    ("openai", "OpenAIError"): Verdict.REFUSED,
    ("openai", "APIError"): Verdict.UNANSWERED,
    ("openai", "APIStatusError"): Verdict.BY_STATUS,
    ("openai", "APIConnectionError"): Verdict.UNANSWERED,
    ("openai", "APITimeoutError"): Verdict.UNANSWERED,
    ("openai", "APIResponseValidationError"): Verdict.UNREADABLE,
    ("openai", "BadRequestError"): Verdict.BY_STATUS,
    ("openai", "AuthenticationError"): Verdict.BY_STATUS,
    ("openai", "OAuthError"): Verdict.BY_STATUS,
    ("openai", "PermissionDeniedError"): Verdict.BY_STATUS,
    ("openai", "NotFoundError"): Verdict.BY_STATUS,
    ("openai", "ConflictError"): Verdict.BY_STATUS,
    ("openai", "UnprocessableEntityError"): Verdict.BY_STATUS,
    ("openai", "RateLimitError"): Verdict.BY_STATUS,
    ("openai", "InternalServerError"): Verdict.BY_STATUS,
    ("openai", "LengthFinishReasonError"): Verdict.UNREADABLE,
    ("openai", "ContentFilterFinishReasonError"): Verdict.REFUSED,
    ("openai", "InvalidWebhookSignatureError"): Verdict.REFUSED,
    ("openai", "SubjectTokenProviderError"): Verdict.REFUSED,
    ("openai", "WebSocketConnectionClosedError"): Verdict.UNANSWERED,
    ("openai", "WebSocketQueueFullError"): Verdict.UNREACHED,
    # What the transport below both SDKs raises, and what they pass on of Python's own.
    ("httpx2", "ConnectError"): Verdict.UNREACHED,
    ("httpx2", "ConnectTimeout"): Verdict.UNREACHED,
    ("httpx2", "PoolTimeout"): Verdict.UNREACHED,
    ("httpx2", "ProxyError"): Verdict.UNREACHED,
    ("httpx2", "UnsupportedProtocol"): Verdict.REFUSED,
    ("httpx2", "InvalidURL"): Verdict.REFUSED,
    ("httpx2", "TooManyRedirects"): Verdict.REFUSED,
    ("httpx2", "DecodingError"): Verdict.UNREADABLE,
    ("httpx2", "HTTPError"): Verdict.UNANSWERED,
    ("httpx2", "StreamError"): Verdict.UNANSWERED,
    ("builtins", "TimeoutError"): Verdict.UNANSWERED,
    ("builtins", "OSError"): Verdict.UNANSWERED,
    ("activities", "UnreadableReply"): Verdict.UNREADABLE,
}
"""By package and class; a class that is not named here is judged as its nearest base that is."""

_NO_USE_ASKING_AGAIN: Final = frozenset(
    {
        "insufficient_quota",
        "billing_hard_limit_reached",
        "billing_not_active",
        "access_terminated",
        "billing_error",
        "contract_spend_limit_reached",
        "enforced_spend_limit_reached",
    }
)
"""Causes that look like a rate limit by their status and do not pass by themselves."""

_ADVICE: Final[Mapping[int, str]] = {
    400: "The provider does not accept this request; if it names the model or a parameter, check the model settings.",
    401: "Check the API key.",
    402: "Check the account's billing.",
    403: "The key may not use this model or this region; check the account's permissions.",
    404: "Check the model's name and the base URL in the settings.",
    413: "The request is too large for this model; give it fewer or shorter documents.",
    429: "The account's rate limit or quota is used up.",
}


class UnreadableReply(ValueError):  # noqa: N818  # reads as a statement of fact
    """A provider's answer is not what its interface promises; the message says in what, without quoting it."""


def verdict_on(kind: type[BaseException]) -> Verdict | None:
    """Judge a class of errors by itself or by its nearest base; None if it is not the provider's doing."""
    return next((VERDICTS[name] for base in kind.__mro__ if (name := _named(base)) in VERDICTS), None)


def passes(error: BaseException) -> bool:
    """Whether a provider's failure may be gone when it is asked again."""
    return _may_ask_again(error, _verdict(error), cast("int | None", getattr(error, "status_code", None)))


@contextmanager
def translating(provider: str, secrets: Sequence[str] = ()) -> Generator[None]:
    """Turn what a provider's SDK raises into what leaves our code; bugs and cancellation pass as they are."""
    try:
        yield
    except Exception as error:
        if verdict_on(type(error)) is None:
            raise
        # Without its cause: that would take the SDK's own words into the workflow's history.
        raise failure(error, provider, secrets) from None


def failure(error: BaseException, provider: str, secrets: Sequence[str] = ()) -> ApplicationError:
    """Translate what an SDK raised, or what is below it.

    Args:
        error: what was raised.
        provider: whose adapter asked.
        secrets: texts that must not appear in the message, whatever happens.
    """
    verdict = _verdict(error)
    status = cast("int | None", getattr(error, "status_code", None))
    fault = ProviderFault(
        provider=provider,
        status=status,
        code=next((code for code in _codes(error) if _identifier(code, secrets)), ""),
        request_id=_identifier(getattr(error, "request_id", None), secrets),
        possibly_billed=verdict in {Verdict.UNANSWERED, Verdict.UNREADABLE} or status in {408, 504},
    )
    headers = _headers(error)
    ask_again = _may_ask_again(error, verdict, status)
    message = _message(error, verdict, fault, secrets)
    if ask_again:
        kind = ErrorType.RATE_LIMITED if status == 429 else ErrorType.PROVIDER_UNAVAILABLE
    else:
        kind = ErrorType.PROVIDER_UNAVAILABLE if (status or 0) >= 500 else ErrorType.PROVIDER_REFUSED
    return _application_error(message, fault, kind, headers, retry=ask_again)


def reported_failure(
    provider: str,
    code: str,
    text: str,
    *,
    passing: bool,
    possibly_billed: bool = False,
    secrets: Sequence[str] = (),
) -> ApplicationError:
    """Translate a failure that came as an ordinary answer, or in the middle of one.

    Args:
        provider: who failed.
        code: its own name for the cause.
        text: its own words.
        passing: whether asking again may help.
        possibly_billed: whether it had begun to answer.
        secrets: texts that must not appear in the message, whatever happens.
    """
    fault = ProviderFault(
        provider=provider, status=200, code=_identifier(code, secrets), possibly_billed=possibly_billed
    )
    kind = ErrorType.PROVIDER_REFUSED
    if passing:
        kind = ErrorType.RATE_LIMITED if code == "rate_limit_exceeded" else ErrorType.PROVIDER_UNAVAILABLE
    message = f"{provider} could not answer ({fault.code or 'no reason given'}): {redacted(text, secrets)}"
    return _application_error(message, fault, kind, {}, retry=passing)


def redacted(text: str, secrets: Sequence[str] = ()) -> str:
    """Shorten a provider's words to one line of 300 characters without anything like a key."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, "[redacted]")
    for pattern in (*_LIKE_A_KEY, _LONG_AND_MIXED):
        text = pattern.sub("[redacted]", text)
    line = " ".join("".join(character if character.isprintable() else " " for character in text).split())
    return line if len(line) <= _QUOTED_CHARACTERS else f"{line[: _QUOTED_CHARACTERS - 1]}…"


_LIKE_A_KEY: Final = (
    re.compile(r"(?i)\b(?:bearer|basic)\s+[^\s\"',;]+"),
    re.compile(r"(?i)\b(?:sk|pk|rk|key|tvly|e2b|ghp|gsk|xai|aiza|hf|nvapi)[-_][^\s\"',;)}\]]{4,}"),
    re.compile(r"(?i)\b(?:api[-_ ]?key|x-api-key|token|secret|password)\b[\"']?\s*[:=]\s*[\"']?[^\s\"',;)}\]]+"),
    re.compile(r"(?i)://[^\s/@]+:[^\s/@]+@"),
    re.compile(r"\bAIza[0-9A-Za-z_-]{10,}|\bAKIA[0-9A-Z]{12,}|\beyJ[0-9A-Za-z_-]{10,}[0-9A-Za-z_.-]*"),
)
_LONG_AND_MIXED: Final = re.compile(r"\b(?=[A-Za-z0-9_+/-]*\d)(?=[A-Za-z0-9_+/-]*[A-Za-z])[A-Za-z0-9_+/-]{32,}")
"""A key of an unknown kind, or an id: ids are told in `ProviderFault`."""


def _verdict(error: BaseException) -> Verdict:
    verdict = verdict_on(type(error)) or Verdict.REFUSED
    below = error.__cause__
    # An SDK says only that the connection failed; below it stands whether the request was sent.
    while verdict is Verdict.UNANSWERED and below is not None:
        verdict = verdict_on(type(below)) or verdict
        below = below.__cause__
    return verdict


def _named(kind: type) -> tuple[str, str]:
    return kind.__module__.partition(".")[0], kind.__name__


def _may_ask_again(error: BaseException, verdict: Verdict, status: int | None) -> bool:
    if verdict is not Verdict.BY_STATUS:
        return verdict is not Verdict.REFUSED
    if not _NO_USE_ASKING_AGAIN.isdisjoint(_codes(error)):
        return False
    match _headers(error).get("x-should-retry"):
        case "true":
            return True
        case "false":
            return False
        case _:
            return status is not None and (status in {408, 409, 429} or status >= 500)


def _application_error(
    message: str, fault: ProviderFault, kind: ErrorType, headers: Mapping[str, str], *, retry: bool
) -> ApplicationError:
    return ApplicationError(
        message,
        fault,
        type=kind,
        non_retryable=not retry,
        next_retry_delay=_asked_wait(headers) if retry else None,
    )


def _asked_wait(headers: Mapping[str, str]) -> timedelta | None:
    """Read how long the provider asks to wait; None if it does not say, or says nothing sensible."""
    milliseconds = _number(headers.get("retry-after-ms"))
    seconds = milliseconds / 1000 if milliseconds is not None else _number(headers.get("retry-after"))
    if seconds is None:
        seconds = _seconds_until(headers.get("retry-after"))
    if seconds is None or seconds <= 0:
        return None
    return min(timedelta(seconds=min(seconds, LONGEST_WAIT.total_seconds())), LONGEST_WAIT)


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if number == number else None  # noqa: PLR0124  # NaN is a float and no number


def _seconds_until(text: str | None) -> float | None:
    try:
        moment = parsedate_to_datetime(text or "")
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - datetime.now(UTC)).total_seconds()


def _headers(error: BaseException) -> Mapping[str, str]:
    response = getattr(error, "response", None)
    # The transport's own mapping, which finds names in whatever case they were sent.
    return cast("Mapping[str, str]", getattr(response, "headers", None) or {})


def _codes(error: BaseException) -> list[str]:
    """Find the provider's names for the cause, the most particular first."""
    values = (getattr(error, attribute, None) for attribute in ("error_code", "code", "type"))
    return [value for value in values if isinstance(value, str)]


def _identifier(value: object, secrets: Sequence[str]) -> str:
    """Keep what is an identifier and no key; an echoing proxy may put one anywhere."""
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9_.:-]{1,80}", value):
        return ""
    is_key = any(secret and secret in value for secret in secrets) or any(key.search(value) for key in _LIKE_A_KEY)
    return "" if is_key else value


def _message(error: BaseException, verdict: Verdict, fault: ProviderFault, secrets: Sequence[str]) -> str:
    quoted = redacted(_words(error), secrets)
    if verdict is Verdict.UNREADABLE:
        return f"{fault.provider} gave an answer that cannot be read: {quoted}"
    if fault.status is None:
        kind = type(error.__cause__ or error).__name__
        advice = " Check the network and the base URL." if verdict is Verdict.UNREACHED else ""
        return f"{fault.provider} did not answer ({kind}): {quoted or 'no reason given.'}{advice}"
    code = f" {fault.code}" if fault.code else ""
    advice = _ADVICE.get(fault.status, "")
    said = quoted if quoted.endswith((".", "!", "?", "…")) else f"{quoted}."
    return f"{fault.provider} answered {fault.status}{code}: {said} {advice}".rstrip()


def _words(error: BaseException) -> str:
    """Find the provider's own sentence; the SDK's message wraps it in the whole body."""
    body: Any = getattr(error, "body", None)
    if isinstance(body, Mapping):
        inner: Any = cast("Mapping[str, Any]", body)
        inner = inner["error"] if isinstance(inner.get("error"), Mapping) else inner
        if isinstance(inner.get("message"), str):
            return inner["message"]
    return str(error)
