"""Marks around untrusted text, so that a model reads it as data and nothing in it can end the block."""

import re
from typing import Final

_OPENING: Final = r"(?:[<\uff1c\ufe64\u2039\u3008\u27e8\u2329\u276e]|&lt;?|&#0*60;?|&#x0*3c;?|%3c|\\u003c|\\x3c)"
# White space, slashes, punctuation, and what cannot be seen: controls, joiners, direction marks, accents, tags.
_BETWEEN: Final = (
    r"[\s/\\|\-_.:;,'\"!?*\x00-\x1f\x7f-\xa0\u2044\u2215\u2571\u29f8\uff0f\uff3c\u00ad\u034f\u061c\u115f\u1160\u17b4"
    r"\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\u0300-\u036f"
    r"\U000e0000-\U000e0fff]*+"
)
# Look-alikes of the letters: other alphabets, small capitals, full width, circles, mathematics.
_ALIKE: Final = r"\u24b6-\u24e9\U0001d400-\U0001d6d3\U0001f130-\U0001f189"
_D: Final = (
    rf"[d\u00d0\u0111\u0256\u0257\u0500\u0501\u056a\u1d05\u1d30\u1d48\u2145\u2146\u216e\u217e\uff24\uff44{_ALIKE}]"
)
_A: Final = (
    rf"[a\u00aa\u00c0-\u00c5\u00e0-\u00e5\u0251\u0391\u03b1\u0410\u0430\u1d00\u1d2c\u1d43\u2090\uff21\uff41{_ALIKE}]"
)
_T: Final = rf"[t\u03a4\u03c4\u0422\u0442\u1d1b\u1d40\u1d57\u209c\uff34\uff54{_ALIKE}]"
_MARK: Final = re.compile(
    f"{_OPENING}(?={_BETWEEN}{_D}{_BETWEEN}{_A}{_BETWEEN}{_T}{_BETWEEN}{_A}(?![0-9A-Za-z]))", re.IGNORECASE
)


def data_block(text: str) -> str:
    """Put text between the marks of a data block."""
    return f"<data>\n{escape_marks(text)}\n</data>"


def escape_marks(text: str) -> str:
    """Replace the first character of everything that a lenient reader could take for a mark with a square bracket.

    The text does not become longer.
    """
    return _MARK.sub("[", text)
