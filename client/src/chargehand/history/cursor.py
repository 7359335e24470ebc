"""Cursors of events: how far a follower was given the histories of a session, and the text of its report."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final
from zlib import crc32

from pydantic import Field, ValidationError

from chargehand.contracts import Contract, LiveText, left_out
from chargehand.errors import ChargehandError

_LONGEST: Final = 50_000


class Position(Contract):
    """How far the events of a workflow were given."""

    model_config = Contract.model_config | {"frozen": False}

    run: int = Field(default=0, ge=0, alias="r", exclude_if=lambda value: not value)
    """Of a child, the number of the run, from 0: it may have continued as new."""
    event: int = Field(default=0, ge=0, alias="e")
    outputs: int = Field(default=0, ge=0, alias="n")
    """How many of the events that this one of the history comes to were given."""
    children: dict[int, "Position"] = Field(default={}, alias="c", exclude_if=lambda value: not value)
    """Those that have not ended, by the event that initiated them."""


class TextPosition(Contract):
    """How much of the report's text was given."""

    model_config = Contract.model_config | {"frozen": False}

    draft: int = left_out(0)
    length: int = left_out(0)
    """In characters."""
    crc: int = left_out(0)
    """CRC-32 of the text as UTF-8."""

    def advance(self, live: LiveText) -> str:
        """Return what is new in a text, as part of the present draft if it goes on there, else of the next one."""
        known = self.length - live.offset
        if 0 <= known <= len(live.text) and _crc(live.text[:known], live.before) == self.crc:
            new = live.text[known:]
        elif live.offset:
            return ""  # the beginning of this draft was missed; the whole text comes when it is written
        else:
            self.draft, self.length, self.crc, new = self.draft + 1, 0, 0, live.text
        self.draft = max(self.draft, 1)
        self.length, self.crc = self.length + len(new), _crc(new, self.crc)
        return new


class Cursor(Contract):
    """How far the events of a session were given."""

    run: str
    """Of the session's workflow."""
    position: Position
    text: TextPosition = TextPosition()

    def __str__(self) -> str:
        return urlsafe_b64encode(self.model_dump_json(by_alias=True).encode()).decode().rstrip("=")


def read_cursor(after: str) -> Cursor:
    """Read a cursor.

    Raises:
        ChargehandError: it is none.
    """
    try:
        if len(after) > _LONGEST:
            raise ValueError("too long")  # noqa: TRY301  # as any other that cannot be read
        return Cursor.model_validate_json(urlsafe_b64decode(after + "=" * (-len(after) % 4)))
    except (ValueError, ValidationError):
        raise ChargehandError("after: is not a cursor; pass the `cursor` of an event, unchanged.") from None


def _crc(text: str, before: int) -> int:
    return crc32(text.encode(errors="surrogatepass"), before)
