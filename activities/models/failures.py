"""Classifies a provider's failures by HTTP status and by the SDKs' base classes; `retry_policy` decides what follows.

No SDK is imported: classes are identified by name, and a test checks the names against the SDKs' exports.
"""

import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from enum import Enum, auto
from typing import Any, Final, cast
from urllib.parse import urlsplit

from pydantic import JsonValue

from activities.http.response_limits import describe_tls_error
from activities.http.retry_after import retry_after
from chargehand.contracts import Contract
from chargehand.contracts.problems import one_line
from chargehand.failure_causes import remedy_of_status
from chargehand.wire import ErrorType

_SCANNED_CHARACTERS: Final = 4_000
"""Maximum characters of a message that are searched for keys."""
_QUOTED_CHARACTERS: Final = 300
_LONGEST_ADDRESS: Final = 2_000


class ProviderFault(Contract):
    """The facts of a failure, for the error details in the history; contains no user text."""

    provider: str
    model: str = ""
    status: int | None = None
    """HTTP status; None without a response."""
    code: str = ""
    """The provider's error code."""
    request_id: str = ""
    """The request's id, for the provider's support."""
    possibly_billed: bool = False
    """Whether the provider may have done the work although no response arrived."""


class ProviderError(Exception):
    """A classified provider failure; its message has no secrets."""

    def __init__(
        self,
        message: str,
        fault: ProviderFault,
        kind: ErrorType,
        *,
        is_final: bool = False,
        retry_after: timedelta | None = None,
    ) -> None:
        """Classify a failure: `kind` is the error type that the workflow sees if the turn is given up.

        The failure is final if a retry cannot help; `retry_after` is the wait requested by the provider, if any.
        """
        super().__init__(message)
        self.message = message
        self.fault = fault
        self.kind = kind
        self.is_final = is_final
        self.retry_after = None if is_final else retry_after

    def note_model(self, name: str) -> None:
        """Record the called model, unless it is known."""
        self.fault = self.fault.replace(model=self.fault.model or name)


class ReportedError(Exception):
    """A failure that arrived with status 200, as a reply or within one."""

    def __init__(self, code: str, text: str, *, is_final: bool = False, possibly_billed: bool = False) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.is_final = is_final
        self.possibly_billed = possibly_billed
        self.kind = ErrorType.PROVIDER_REFUSED if is_final else ErrorType.PROVIDER_UNAVAILABLE
        if code == "rate_limit_exceeded" and not is_final:
            self.kind = ErrorType.RATE_LIMITED


class Verdict(Enum):
    """What an error implies for retries."""

    BY_STATUS = auto()
    """The HTTP status decides."""
    UNREACHED = auto()
    """The request never arrived: retryable, and nothing was billed."""
    UNANSWERED = auto()
    """The request may have arrived and been worked on: retryable, and possibly billed."""
    UNREADABLE = auto()
    """The response arrived but is unusable: retryable, and possibly billed."""
    UNUSABLE = auto()
    """The response arrived but is too large: possibly billed, and a retry cannot help."""
    REFUSED = auto()
    """A retry cannot help."""


VERDICTS: Final[Mapping[str, Verdict]] = {
    # The base classes of both SDKs.
    "APIStatusError": Verdict.BY_STATUS,
    "APIError": Verdict.UNANSWERED,
    "AnthropicError": Verdict.REFUSED,
    "OpenAIError": Verdict.REFUSED,
    # Exceptions to the verdict of their base class.
    "APIResponseValidationError": Verdict.UNREADABLE,
    "RetryableError": Verdict.UNANSWERED,
    # The transport below the SDKs, and Python's exceptions that pass through it.
    "HTTPError": Verdict.UNANSWERED,
    "StreamError": Verdict.UNANSWERED,
    "ConnectError": Verdict.UNREACHED,
    "ConnectTimeout": Verdict.UNREACHED,
    "PoolTimeout": Verdict.UNREACHED,
    "ProxyError": Verdict.UNREACHED,
    "UnsupportedProtocol": Verdict.REFUSED,
    "InvalidURL": Verdict.REFUSED,
    "TooManyRedirects": Verdict.REFUSED,
    "DecodingError": Verdict.UNREADABLE,
    "OSError": Verdict.UNANSWERED,
    # Pydantic AI's translations of any SDK's errors.
    "ModelHTTPError": Verdict.BY_STATUS,
    "ModelAPIError": Verdict.UNANSWERED,
    "UnexpectedModelBehavior": Verdict.UNREADABLE,
    "UserError": Verdict.REFUSED,
    "UnreadableReply": Verdict.UNREADABLE,
    "BodyRefused": Verdict.UNUSABLE,
}
"""Verdicts by class name; any other class has the verdict of its nearest base class in this table."""
_PACKAGES: Final = frozenset({"anthropic", "openai", "httpx2", "pydantic_ai", "builtins", __name__.partition(".")[0]})

_RETRYABLE_STATUSES: Final = frozenset({408, 409, 429, *range(500, 600)} - {501})
_POSSIBLY_BILLED_STATUSES: Final = frozenset({408, 502, 504, 520, 524})
"""A gateway timed out while waiting for the model. The provider's own errors, including 500, are free."""
_FINAL_CODES: Final = frozenset(
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
"""Causes with the status of a rate limit that do not resolve by themselves."""

_EFFORT: Final = re.compile(r"(?i)\b(effort|reasoning\w*|thinking)\b|output_config")


class UnreadableReply(ValueError):  # noqa: N818  # reads as a statement of fact
    """A provider's response is not in the documented format; the message says where, without quoting it."""

    def __init__(self, message: str, body: JsonValue = None) -> None:
        """Describe the problem; `body` is the readable part of a complete reply."""
        super().__init__(message)
        self.body = body


def verdict_on(kind: type[BaseException]) -> Verdict | None:
    """Return the verdict on an error class; None if it does not come from a provider."""
    names = (base.__name__ for base in kind.__mro__ if base.__module__.partition(".")[0] in _PACKAGES)
    return next((VERDICTS[name] for name in names if name in VERDICTS), None)


def is_retryable(error: BaseException) -> bool:
    verdict = _verdict(error)
    if verdict is not Verdict.BY_STATUS:
        return verdict not in {Verdict.REFUSED, Verdict.UNUSABLE}
    if _is_redirect(error) or not _FINAL_CODES.isdisjoint(_codes(error)):
        return False
    stated = {"true": True, "false": False}.get(_headers(error).get("x-should-retry", ""))
    return _status(error) in _RETRYABLE_STATUSES if stated is None else stated


def refuses_effort(error: BaseException) -> bool:
    return _status(error) == 400 and bool(_EFFORT.search(_words(error)[:_SCANNED_CHARACTERS]))


@contextmanager
def translating(provider: str, secrets: Sequence[str] = ()) -> Generator[None]:
    """Classify errors of a provider's SDK, redacting secrets; bugs and cancellation pass unchanged."""
    try:
        yield
    # Without the cause, whose unredacted message would enter the workflow's history.
    except ReportedError as error:
        fault = ProviderFault(
            provider=provider, status=200, code=_identifier(error.code, secrets), possibly_billed=error.possibly_billed
        )
        message = f"{provider} could not answer ({fault.code or 'no reason given'}): {redacted(error.text, secrets)}"
        raise ProviderError(message, fault, error.kind, is_final=error.is_final) from None
    except Exception as error:
        if verdict_on(type(error)) is None:
            raise
        raise classify(error, provider, secrets) from None


def classify(error: BaseException, provider: str, secrets: Sequence[str] = ()) -> ProviderError:
    verdict = _verdict(error)
    status = _status(error)
    fault = ProviderFault(
        provider=provider,
        status=status,
        code=next((code for code in _codes(error) if _identifier(code, secrets)), ""),
        request_id=_identifier(getattr(error, "request_id", None), secrets),
        possibly_billed=verdict in {Verdict.UNANSWERED, Verdict.UNREADABLE, Verdict.UNUSABLE}
        or status in _POSSIBLY_BILLED_STATUSES,
    )
    is_final = not is_retryable(error)
    kind = ErrorType.PROVIDER_UNAVAILABLE
    if is_final and (status or 0) < 500:
        kind = ErrorType.PROVIDER_REFUSED
    elif not is_final and status == 429:
        kind = ErrorType.RATE_LIMITED
    message = _message(error, verdict, fault, secrets)
    return ProviderError(message, fault, kind, is_final=is_final, retry_after=_retry_after(_headers(error)))


def redacted(text: str, secrets: Sequence[str] = ()) -> str:
    """Shorten a provider's message to one line of 300 characters, without anything that looks like a key."""
    if len(text) > _SCANNED_CHARACTERS:
        # Without the last word, which may be part of a key.
        words = text[:_SCANNED_CHARACTERS].split()[:-1]
        text = " ".join(words)
    for secret in filter(None, secrets):
        text = text.replace(secret, _REDACTED)
    for pattern in _LIKE_A_KEY:
        text = pattern.sub(_REDACTED, text)
    text = _LONG_WORD.sub(lambda word: _REDACTED if _is_mixed(word[0]) else word[0], text)
    return one_line("".join(character if character.isprintable() else " " for character in text), _QUOTED_CHARACTERS)


def without_keys(text: str, secrets: Sequence[str] = ()) -> str:
    """Redact secrets in a text of any length, and words that look like keys."""
    for secret in filter(None, secrets):
        text = text.replace(secret, _REDACTED)
    for pattern in _LIKE_A_KEY:
        text = pattern.sub(lambda found: _REDACTED if _is_mixed(found[0]) else found[0], text)
    return text


_REDACTED: Final = "[redacted]"
_LIKE_A_KEY: Final = (
    re.compile(r"(?i)\b(?:bearer|basic)\s+[^\s\"',;]+"),
    re.compile(r"(?i)\b(?:sk|pk|rk|key|tvly|e2b|ghp|gsk|xai|aiza|hf|nvapi)[-_][^\s\"',;)}\]]{4,}"),
    re.compile(r"(?i)\b(?:api[-_ ]?key|x-api-key|token|secret|password)\b[\"']?\s*[:=]\s*[\"']?[^\s\"',;)}\]]+"),
    re.compile(r"(?i)://[^\s/@:]+:[^\s/@]+@"),
    re.compile(r"\bAIza[0-9A-Za-z_-]{10,}|\bAKIA[0-9A-Z]{12,}|\beyJ[0-9A-Za-z_-]{10,}[0-9A-Za-z_.-]*"),
)
_LONG_WORD: Final = re.compile(r"[A-Za-z0-9_+/-]{32,}+")


def _is_mixed(word: str) -> bool:
    """Whether a long word may be a key of an unknown kind, or an id, which `ProviderFault` has."""
    return any(each.isdigit() for each in word) and any(each.isalpha() for each in word)


def _verdict(error: BaseException) -> Verdict:
    if describe_tls_error(error):
        return Verdict.REFUSED
    verdict = verdict_on(type(error)) or Verdict.REFUSED
    below = error.__cause__
    # The SDK only reports a failed connection; its cause tells whether the request was sent.
    while verdict is Verdict.UNANSWERED and below is not None:
        verdict = verdict_on(type(below)) or verdict
        below = below.__cause__
    return verdict


def _status(error: BaseException) -> int | None:
    return cast("int | None", getattr(error, "status_code", None))


def _is_redirect(error: BaseException) -> bool:
    return 300 <= (_status(error) or 0) < 400


def _retry_after(headers: Mapping[str, str]) -> timedelta | None:
    try:
        return retry_after(str(float(headers["retry-after-ms"]) / 1000))
    except (KeyError, ValueError):
        return retry_after(headers.get("retry-after"))


def _headers(error: BaseException) -> Mapping[str, str]:
    response = getattr(error, "response", error)
    # The transport's own mapping ignores case.
    return cast("Mapping[str, str]", getattr(response, "headers", None) or {})


def _codes(error: BaseException) -> list[str]:
    """Return the provider's error codes, most specific first."""
    values = (getattr(error, attribute, None) for attribute in ("error_code", "code", "type"))
    return [value for value in values if isinstance(value, str)]


def _identifier(value: object, secrets: Sequence[str]) -> str:
    """Return a value if it is an identifier and not a key, which a proxy may echo anywhere."""
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9_.:-]{1,80}", value):
        return ""
    is_key = any(secret and secret in value for secret in secrets) or any(key.search(value) for key in _LIKE_A_KEY)
    return "" if is_key else value


def _message(error: BaseException, verdict: Verdict, fault: ProviderFault, secrets: Sequence[str]) -> str:
    quoted = redacted(_words(error), secrets)
    if problem := describe_tls_error(error):
        host = getattr(getattr(getattr(error, "request", None), "url", None), "host", "the base URL")
        return f"{fault.provider} at {host} cannot be used: {problem}. Check the base URL and the network's proxy."
    if verdict in {Verdict.UNREADABLE, Verdict.UNUSABLE}:
        quoted = redacted(str(error.__cause__ or error)) if verdict is Verdict.UNUSABLE else quoted
        return f"{fault.provider} gave an answer that cannot be read: {quoted}"
    if fault.status is None:
        kind = type(error.__cause__ or error).__name__
        advice = " Check the network and the base URL." if verdict is Verdict.UNREACHED else ""
        return f"{fault.provider} did not answer ({kind}): {quoted or 'no reason given.'}{advice}"
    if _is_redirect(error):
        host = redacted(urlsplit(_headers(error).get("location", "")[:_LONGEST_ADDRESS]).hostname or "another address")
        return (
            f"{fault.provider} answered {fault.status}: it redirects to {host}, and redirects are not followed. "
            "Set the base URL to the address of the API itself."
        )
    code = f" {fault.code}" if fault.code else ""
    advice = remedy_of_status(fault.status)
    sentence = quoted if quoted.endswith((".", "!", "?", "…")) else f"{quoted}."
    return f"{fault.provider} answered {fault.status}{code}: {sentence} {advice}".rstrip()


def _words(error: BaseException) -> str:
    """Extract the provider's own message; the SDK's message contains the whole body."""
    body: Any = getattr(error, "body", None)
    if isinstance(body, list) and body:  # in Gemini's format
        body = cast("list[Any]", body)[0]
    if isinstance(body, Mapping):
        inner: Any = cast("Mapping[str, Any]", body)
        inner = inner["error"] if isinstance(inner.get("error"), Mapping) else inner
        if isinstance(inner.get("message"), str):
            return inner["message"]
    return str(error)
