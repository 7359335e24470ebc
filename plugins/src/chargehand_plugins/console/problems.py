"""Errors for clients: RFC 9457 problem details, worded as on the command line."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from chargehand import ChargehandError, ErrorType, NotReachable, SessionFailed, SessionNotFound
from chargehand.contracts.problems import join_problems
from chargehand.errors import DownloadRefused, InvalidInput, UpdateRefused, UploadRefused
from chargehand_cli.rendering.escaping import error_text
from chargehand_cli.run_options import BadRequest

_RETRY_SECONDS: Final = "5"
_STATUS: Final[Mapping[ErrorType, HTTPStatus]] = {
    ErrorType.INVALID_INPUT: HTTPStatus.UNPROCESSABLE_ENTITY,
    ErrorType.INVALID_PLAN: HTTPStatus.UNPROCESSABLE_ENTITY,
    ErrorType.PAYLOAD_TOO_LARGE: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
}


@dataclass
class Problem(Exception):  # noqa: N818  # the name of RFC 9457
    status: HTTPStatus
    detail: str
    kind: str = ""
    """A machine-readable type: one of `ErrorType`, or of those below."""
    headers: dict[str, str] = field(default_factory=dict[str, str])

    def body(self) -> dict[str, object]:
        return {
            "type": "about:blank",
            "title": self.status.phrase,
            "status": int(self.status),
            "detail": self.detail,
            "kind": self.kind or self.status.name.lower(),
        }


def problem_of(error: ChargehandError | Problem) -> Problem:
    match error:
        case Problem():
            return error
        case NotReachable():
            return Problem(HTTPStatus.SERVICE_UNAVAILABLE, str(error), "not_reachable", {"Retry-After": _RETRY_SECONDS})
        case SessionNotFound() | DownloadRefused():
            return Problem(HTTPStatus.NOT_FOUND, str(error))
        case UploadRefused() | BadRequest() | InvalidInput():
            return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, error_text(error), ErrorType.INVALID_INPUT)
        case SessionFailed(error_type=ErrorType() as kind) | UpdateRefused(error_type=ErrorType() as kind):
            return Problem(_STATUS.get(kind, HTTPStatus.CONFLICT), error_text(error), kind)
        case _:
            return Problem(HTTPStatus.CONFLICT, str(error), type(error).__name__)


def invalid(noun: str, problems: Sequence[str]) -> Problem:
    """Build the problem of invalid input; each item names its field."""
    return Problem(
        HTTPStatus.UNPROCESSABLE_ENTITY, f"The {noun} is invalid: {join_problems(problems)}", ErrorType.INVALID_INPUT
    )
