"""Marks around the user's request and untrusted text, which no content of a block can end or imitate."""

import re
from typing import Final

_OPENING: Final = r"(?:[<\uff1c\ufe64\u2039\u3008\u27e8\u2329\u276e]|&lt;?|&#0*60;?|&#x0*3c;?|%3c|\\u003c|\\x3c)"
# White space, slashes, punctuation, and invisible characters: controls, joiners, direction marks, accents, tags.
_BETWEEN: Final = (
    r"[\s/\\|\-_.:;,'\"!?*\x00-\x1f\x7f-\xa0\u2044\u2215\u2571\u29f8\uff0f\uff3c\u00ad\u034f\u061c\u115f\u1160\u17b4"
    r"\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\u0300-\u036f"
    r"\U000e0000-\U000e0fff]*+"
)
# Circled and mathematical letters.
_ALIKE: Final = r"\u24b6-\u24e9\U0001d400-\U0001d6d3\U0001f130-\U0001f189"
# Each letter of a mark with its lookalikes in other alphabets, small capitals and full width.
_A: Final = (
    rf"[a\u00aa\u00c0-\u00c5\u00e0-\u00e5\u0251\u0391\u03b1\u0410\u0430\u1d00\u1d2c\u1d43\u2090\uff21\uff41{_ALIKE}]"
)
_D: Final = (
    rf"[d\u00d0\u0111\u0256\u0257\u0500\u0501\u056a\u1d05\u1d30\u1d48\u2145\u2146\u216e\u217e\uff24\uff44{_ALIKE}]"
)
_E: Final = (
    r"[e\uff25\uff45\u00c8-\u00cb\u00e8-\u00eb\u0112-\u011b\u0395\u03b5\u0415\u0435\u0451\u1d07\u1d31\u1d49\u2091"
    rf"\u212f\u2130\u2147{_ALIKE}]"
)
_Q: Final = rf"[q\u051a\u051b\u0566\ua757\uff31\uff51{_ALIKE}]"
_R: Final = rf"[r\u0154-\u0159\u0280\u0433\u1d26\u1d3f\u02b3\u1d63\u211b-\u211d\uff32\uff52{_ALIKE}]"
_S: Final = rf"[s\u015a-\u0161\u017f\u0405\u0455\ua731\u02e2\u209b\uff33\uff53{_ALIKE}]"
_T: Final = rf"[t\u03a4\u03c4\u0422\u0442\u1d1b\u1d40\u1d57\u209c\uff34\uff54{_ALIKE}]"
_U: Final = rf"[u\u00d9-\u00dc\u00f9-\u00fc\u0168-\u0173\u03c5\u0446\u1d1c\u1d41\u1d58\u1d64\uff35\uff55{_ALIKE}]"
_DATA: Final = _BETWEEN.join([_D, _A, _T, _A])
_REQUEST: Final = _BETWEEN.join([_R, _E, _Q, _U, _E, _S, _T])
_MARK: Final = re.compile(f"{_OPENING}(?={_BETWEEN}(?:{_DATA}|{_REQUEST})(?![0-9A-Za-z]))", re.IGNORECASE)


def data_block(text: str) -> str:
    return f"<data>\n{escape_marks(text)}\n</data>"


def request_block(text: str) -> str:
    return f"<request>\n{escape_marks(text)}\n</request>"


def escape_marks(text: str) -> str:
    """Replace the first character of anything that could be read as a mark by a square bracket.

    The text does not become longer.
    """
    return _MARK.sub("[", text)
