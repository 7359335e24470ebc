"""Dates of publication, which engines write in many ways, in one. Pure."""

import re
from datetime import UTC, datetime, time
from email.utils import parsedate_to_datetime
from typing import Final

_MONTH: Final = re.compile(r"[12]\d{3}(-(0[1-9]|1[0-2]))?")
_MAIL_DATE: Final = re.compile(r"([A-Z][a-z]{2}, )?\d{1,2} [A-Z][a-z]{2} \d{4}\b.*")
_LONGEST: Final = 100


def iso_date(stated: str | None) -> str | None:
    """Write a date as ISO 8601, as exactly as it is stated, in UTC if its zone is known.

    None for what is neither ISO 8601 nor the date of a mail or feed: a guess at `03/04/2026` would often be wrong.
    """
    text = (stated or "").strip()[:_LONGEST]
    if _MONTH.fullmatch(text):
        return text
    try:
        moment = parsedate_to_datetime(text) if _MAIL_DATE.fullmatch(text) else datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            moment = moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None and moment.time() == time():
        return moment.date().isoformat()
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
