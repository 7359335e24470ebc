"""Durations as people write them: `90s`, `1h30m`, a number of seconds, or ISO 8601, to which they serialize."""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, WithJsonSchema

from chargehand.contracts.problems import DURATION_EXPECTED

_UNITS: Final[Mapping[str, int]] = {"s": 1, "min": 60, "m": 60, "h": 3_600, "d": 86_400}
_NUMBER: Final = r"\d{1,9}(\.\d{1,9})?"
_ISO: Final = rf"P\d{{1,3}}D|P(\d{{1,3}}D)?T(\d{{1,4}}H(\d{{1,5}}M)?({_NUMBER}S)?|\d{{1,5}}M({_NUMBER}S)?|{_NUMBER}S)"
"""Allows fractions of seconds, unlike JSON Schema's format `duration`."""
_TYPED: Final = rf"{_NUMBER}|({_NUMBER} {{0,9}}({'|'.join(_UNITS)}) {{0,9}}){{1,4}}"
_PART: Final = re.compile(rf"({_NUMBER}) {{0,9}}([a-z]*)")


def _read(value: object) -> object:
    """Parse a typed duration; pydantic parses seconds and ISO 8601."""
    if isinstance(value, bool):
        raise ValueError(DURATION_EXPECTED)
    if not isinstance(value, str) or not re.fullmatch(_TYPED, typed := value.strip().lower()):
        return value
    return sum(float(part[1]) * _UNITS[part[3] or "s"] for part in _PART.finditer(typed))


def _schema(most: timedelta) -> dict[str, Any]:
    text = {"type": "string", "pattern": f"^({_ISO}|{_TYPED})$", "examples": ["90s", "1h30m", "PT10M"]}
    return {"anyOf": [text, {"type": "number", "minimum": 0.001, "maximum": int(most.total_seconds())}]}


Duration = Annotated[timedelta, WithJsonSchema({"type": "string", "pattern": f"^({_ISO})$"})]
"""A duration written only by our own processes."""
_DAY, _WEEK = timedelta(days=1), timedelta(days=7)
UpToADay = Annotated[timedelta, Field(gt=timedelta(0), le=_DAY), BeforeValidator(_read), WithJsonSchema(_schema(_DAY))]
"""A positive duration of at most a day: seconds, `90s`, `1h30m`, or ISO 8601 such as `PT10M`."""
UpToAWeek = Annotated[
    timedelta, Field(gt=timedelta(0), le=_WEEK), BeforeValidator(_read), WithJsonSchema(_schema(_WEEK))
]
"""A positive duration of at most seven days."""
AnswerTime = Annotated[UpToAWeek, BeforeValidator(lambda value: _WEEK if value == "none" else value)]
"""A positive duration of at most seven days; `none` means the maximum."""
