"""Turn what was typed on the command line into a request, into higher limits or an answer."""

import json
import re
import sys
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, cast

from pydantic import ValidationError

from chargehand.contracts import Answer, RaisedLimits, SessionRequest
from chargehand.converter import describe_problems
from chargehand_cli.request_options import BadRequest, Typed

_SECONDS: Final[Mapping[str, int]] = {"s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400}
_LENGTH: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|d)?")


def build_request(typed: Typed, documents: tuple[str, ...]) -> SessionRequest:
    """Put options over the JSON request, if there is one, and check the whole.

    Raises:
        BadRequest: it cannot be read or does not fit.
    """
    fields = _read(typed.input) if typed.input else {}
    fields |= _given(
        {
            "goal": typed.goal,
            "crew": typed.crew,
            "approval": "plan" if typed.approve_plan else None,
            "review": typed.review,
            "questions": "allowed" if typed.questions else None,
            "answer_within": _length_or_none(typed.answer_within),
            "urgency": typed.urgency,
        }
    )
    limits = _raisable(typed) | _given(
        {
            "max_parallel": typed.parallel,
            "max_depth": typed.depth,
            "max_attempts": typed.attempts,
            "max_rounds": typed.rounds,
            "subtask_deadline": _length_or_none(typed.subtask_deadline),
            "on_limit": typed.on_limit,
        }
    )
    if limits:
        before = fields.get("limits")
        fields["limits"] = {**(cast("dict[str, Any]", before) if isinstance(before, dict) else {}), **limits}
    if documents:
        before = fields.get("documents")
        fields["documents"] = [*(cast("list[object]", before) if isinstance(before, list) else []), *documents]
    try:
        return SessionRequest.model_validate(fields)
    except ValidationError as error:
        raise BadRequest(
            f"The request cannot be used: {'; '.join(describe_problems(error, SessionRequest))}"
        ) from error


def build_raised(typed: Typed) -> RaisedLimits:
    """Check what was typed as higher limits.

    Raises:
        BadRequest: it does not fit.
    """
    try:
        return RaisedLimits.model_validate(_raisable(typed))
    except ValidationError as error:
        raise BadRequest(
            f"The limits cannot be raised so: {'; '.join(describe_problems(error, RaisedLimits))}"
        ) from error


def build_answer(subtask: str, text: str) -> Answer:
    """Check what was typed as an answer.

    Raises:
        BadRequest: it does not fit.
    """
    try:
        return Answer(subtask=subtask, text=text)
    except ValidationError as error:
        raise BadRequest(f"The answer cannot be used: {'; '.join(describe_problems(error, Answer))}") from error


def _raisable(typed: Typed) -> dict[str, Any]:
    return _given(
        {
            "budget_usd": None if typed.budget is None else Decimal(str(typed.budget)),
            "max_turns": typed.turns,
            "deadline": _length_or_none(typed.deadline),
        }
    )


def _given(fields: Mapping[str, object]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _read(source: str) -> dict[str, Any]:
    try:
        text = sys.stdin.read() if source == "-" else Path(source).expanduser().read_text(encoding="utf-8")
        fields = json.loads(text)
    except OSError as error:
        raise BadRequest(f"{source} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise BadRequest(f"{source} is not JSON: {error}.") from error
    if not isinstance(fields, dict):
        raise BadRequest(f'{source} is not a JSON object; a request looks like {{"goal": "…"}}.')
    return cast("dict[str, Any]", fields)


def _length_or_none(text: str | None) -> float | str | None:
    """Read `90`, `90s`, `10m`, `2h`; anything else is left to the contract, which also knows ISO 8601."""
    if text is None:
        return None
    match = _LENGTH.fullmatch(text.strip().lower())
    return float(match[1]) * _SECONDS[match[2] or "s"] if match else text
