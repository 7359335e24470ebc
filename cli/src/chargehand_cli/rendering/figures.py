"""Figures, dates and titles as people write them."""

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final

from chargehand_cli.rendering.escaping import one_safe_line
from chargehand_cli.rendering.text import duration

_SENTENCE_END: Final = re.compile(r"[.!?。！？](?=\s|$)|\n")
_LONGEST_SENTENCE: Final = 2_000


def cost(amount: Decimal) -> str:
    """Format US dollars as in a sentence."""
    if 0 < amount < Decimal("0.01"):
        return "less than 1 cent"
    return f"${amount:,.2f}"


def count(number: int, singular: str, plural: str = "") -> str:
    """Format a number with its noun."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def period(length: timedelta) -> str:
    """Format a duration as in a sentence."""
    words = duration(length).removesuffix(" 0 s").removesuffix(" 0 min")
    return "less than 0.1 s" if words == "0.0 s" and length else words


def took(started_at: datetime | None, ended_at: datetime | None) -> str:
    """Say how long something took; nothing unless it has begun and ended."""
    return period(ended_at - started_at) if started_at and ended_at else ""


def moment(time: datetime) -> str:
    """Format a time with its zone, which is UTC wherever the page is read."""
    at = time.astimezone(UTC)
    return f"{at.day} {at:%B %Y, %H:%M} UTC"


def title(instruction: str, most: int = 72) -> str:
    """Name a subtask by the first sentence of its instruction, cut between words."""
    text = instruction[:_LONGEST_SENTENCE].strip()
    end = _SENTENCE_END.search(text, 12)
    line = one_safe_line(text[: end.start()] if end else text, _LONGEST_SENTENCE).rstrip(" .:;,")
    if len(line) <= most:
        return line
    cut = line[:most].rpartition(" ")[0]
    return f"{cut if len(cut) > most // 2 else line[: most - 1]}…"


def in_lines(text: str, width: int, most: int) -> list[str]:
    """Break a title into lines for a drawing, which has no line breaks of its own."""
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            if len(lines) == most:
                lines[-1] = one_safe_line(f"{lines[-1]} {word}", width)
                break
            lines.append("")
        lines[-1] = one_safe_line(f"{lines[-1]} {word}", width)
    return lines
