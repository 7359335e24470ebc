"""Make text that models and documents wrote harmless to a terminal and to a log."""

import re
from typing import Final

_CONTROL_PICTURES: Final = 0x2400
_DANGEROUS: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # terminal control, tab and line feed excepted
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # text that runs backwards
    "\u2028\u2029\ud800-\udfff\ufeff]"
)


def safe_text(text: str) -> str:
    """Replace what could move the cursor, set colours, make links or turn the direction, by something that is seen."""
    return _DANGEROUS.sub(_visible, text.replace("\r\n", "\n"))


def one_safe_line(text: str, most: int = 200) -> str:
    """Fold text into one harmless line of at most `most` characters."""
    line = " ".join(safe_text(text).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(_CONTROL_PICTURES + code)
    return "\N{SYMBOL FOR DELETE}" if code == 0x7F else f"<U+{code:04X}>"
