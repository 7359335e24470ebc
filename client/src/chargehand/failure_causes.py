"""Causes of failed sessions and calls, and remedies: one table for all screens, the memo and `doctor`."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from chargehand.contracts import FailureCause
from chargehand.wire import ErrorType


class _Words(NamedTuple):
    cause: str
    remedy: str


_LIMITS: Final = "Raise max_turns or budget_usd."
_LOST: Final = _Words(
    "Nothing was heard of a worker in the middle of a call: it ended, was too busy, or was cut off.",
    "Look in the workers' logs whether they exit, and else at their load, memory and connection to the server.",
)
_PROVIDER: Final = "See the provider's status page; CHARGEHAND_FALLBACK_MODELS names models that take over."
_LOG: Final = "The worker's log has the place; `chargehand trace SESSION` has the step."
_DISK: Final = _Words(
    "The operating system of the worker refused something: a file, a disk or a connection.",
    "Check the space in CHARGEHAND_STATE_DIR, and access to CHARGEHAND_ARTIFACTS and CHARGEHAND_STORAGE.",
)
_STORED: Final = _Words(
    "A stored or encrypted payload, document or file cannot be read or written.",
    "Give all workers the same CHARGEHAND_ARTIFACTS, CHARGEHAND_STORAGE and encryption keys; check space and access.",
)
_WORDS: Final[Mapping[str, _Words]] = {
    ErrorType.INVALID_INPUT: _Words("The request is invalid.", "Correct the field that `chargehand result` names."),
    ErrorType.INVALID_PLAN: _Words(
        "No plan of the model was valid.", "Name a crew that fits the request, or a larger model."
    ),
    ErrorType.PLAN_REJECTED: _Words("A person rejected the plan.", "Say in the request what is wanted instead."),
    ErrorType.UPDATE_REFUSED: _Words("A change was refused.", "The error says what is accepted."),
    ErrorType.NOT_STANDALONE: _Words(
        "An activity was called from outside a session of its task queue.", "Start a session instead."
    ),
    ErrorType.LIMIT_TOO_SMALL: _Words("The limits do not suffice for a plan, its work and the report.", _LIMITS),
    ErrorType.TENANT_LIMIT: _Words(
        "The tenant has reached its limits.", "Start it again later, or raise them in the file of CHARGEHAND_TENANTS."
    ),
    ErrorType.RESERVE_TOO_SMALL: _Words("A prompt was larger than what was reserved for it.", _LIMITS),
    ErrorType.PROVIDER_UNAVAILABLE: _Words("The model provider did not answer, or answered with an error.", _PROVIDER),
    ErrorType.PROVIDER_REFUSED: _Words(
        "The model provider refused the call.", "Check the API key, the names of the models and the account."
    ),
    ErrorType.MODEL_DECLINED: _Words("The model declined the request.", "Reword the goal, or name another model."),
    ErrorType.RATE_LIMITED: _Words(
        "The model provider limits the rate.", "Set CHARGEHAND_REQUESTS_PER_SECOND below the provider's limit."
    ),
    ErrorType.ATTEMPT_LOST: _LOST,
    ErrorType.QUARANTINED: _Words(
        "Nothing was heard of two workers in the middle of this call, so no third one gets it.", _LOST.remedy
    ),
    ErrorType.WORKER_LOST: _LOST,
    ErrorType.CONVERSATION_MISSING: _Words(
        "A stored conversation cannot be read.", "Check that all workers share CHARGEHAND_ARTIFACTS."
    ),
    ErrorType.OUTCOME_UNKNOWN: _Words("The model provider was called and did not answer.", _PROVIDER),
    ErrorType.TOOL_UNAVAILABLE: _Words(
        "A service that a tool needs is unavailable.", "Check the service; the worker's log names the tool."
    ),
    ErrorType.CREW_UNAVAILABLE: _Words(
        "The session's crew cannot be read.", "Check that all workers share CHARGEHAND_ARTIFACTS and CHARGEHAND_CREWS."
    ),
    ErrorType.RECEIVER_UNAVAILABLE: _Words(
        "The receiver of a message, a mail server or an address, did not accept it.",
        "Check CHARGEHAND_SMTP, CHARGEHAND_NOTIFY or the request's webhook, and whether the worker can reach it.",
    ),
    ErrorType.INTERNAL: _Words("The worker has a bug, or lacks something that it needs.", _LOG),
    ErrorType.PAYLOAD_TOO_LARGE: _Words("A payload is too large for Temporal.", "Set CHARGEHAND_STORAGE."),
    "Timeout": _Words("The model provider did not answer in time.", _PROVIDER),
    **dict.fromkeys((ErrorType.TOOL_NOT_CALLED, "OSError", "OperationalError"), _DISK),
    **dict.fromkeys(("ArtifactError", "BucketError", "KeyMissing", "SealBroken", "StorageNotSet"), _STORED),
    **dict.fromkeys(("StoredPayloadMissing", "StoredPayloadDamaged"), _STORED),
    **dict.fromkeys(("ProtectionError", "ProtectionSettingsError"), _STORED),
    "HeartbeatTimeout": _LOST,
    "StartToCloseTimeout": _Words("The last attempt took longer than it may.", _LOG),
}
_FAILED: Final = 500
_SERVER_ERROR: Final = _Words("The model provider, or what stands before it, answered with an error.", _PROVIDER)
_UNKNOWN: Final = _Words("The worker reports an error of an unknown type.", _LOG)
_BY_STATUS: Final[Mapping[int, _Words]] = {
    400: _Words(
        "The model provider does not accept the request.",
        "If it names the model or a parameter, check the model settings.",
    ),
    401: _Words("The model provider does not accept the API key.", "Check the API key."),
    402: _Words("The model provider asks for payment.", "Check the account's billing."),
    403: _Words("The model provider forbids the call.", "Check what the account permits the key to use, and where."),
    404: _Words(
        "The model provider has nothing under this name or address, or has retired it.",
        "Check the model's name and the base URL in the settings.",
    ),
    413: _Words("The request is too large for the model.", "Use fewer or shorter documents."),
    429: _Words(
        "The model provider takes no more calls for now, or of this account.",
        "Look at the account's rate limit, quota and billing.",
    ),
}
"""Causes by a provider's HTTP status, more specific than the error type."""


def is_explained(error_type: str) -> bool:
    return error_type in _WORDS


def failure_cause(error_type: str, *, status: int | None = None, provider: str = "", model: str = "") -> FailureCause:
    """Explain a failure; an unknown type, as of a newer worker or a library, is stated as unknown."""
    answered = _BY_STATUS.get(status or 0) or (_SERVER_ERROR if (status or 0) >= _FAILED else None)
    words = answered or _WORDS.get(error_type, _UNKNOWN)
    return FailureCause(error_type=error_type, http_status=status, provider=provider, model=model, **words._asdict())


def error_words(error_type: str) -> str:
    """Name an error as one fact among others; keep the name of an unknown type."""
    return _WORDS[error_type].cause.rstrip(".") if is_explained(error_type) else error_type


def remedy_of_status(status: int) -> str:
    """Return the remedy for a provider's HTTP status; empty if the status alone does not determine one."""
    return _BY_STATUS[status].remedy if status in _BY_STATUS else ""
