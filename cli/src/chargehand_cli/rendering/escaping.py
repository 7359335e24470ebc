"""Make text from models and documents harmless to a terminal, a log and a Markdown viewer."""

import re
from collections.abc import Collection
from typing import Final

from chargehand.inert_text import inert_programs

_CONTROL_PICTURES: Final = 0x2400
_DANGEROUS: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters except tab and line feed
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # text direction
    "\u2028\u2029\ud800-\udfff\ufeff]"
)
_MARK: Final = r"<(?=[A-Za-z/!?])|(?<=\])[(:]"


def safe_text(text: str) -> str:
    """Replace characters that could move the cursor, set colours, create links or reverse the text direction."""
    return _DANGEROUS.sub(_visible, text.replace("\r\n", "\n"))


def exact_text(text: str) -> str:
    """Make every character visible, for people who approve the sending of a text."""
    from chargehand.contracts.problems import UNSEEN

    return UNSEEN.sub(_visible, safe_text(text))


def json_text(text: str) -> str:
    """Escape the same characters in JSON without changing its values."""
    return _DANGEROUS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def error_text(error: Exception) -> str:
    """Return the message of an error, with contracts named in plain words: `The plan decision is invalid: …`."""
    name, _, problems = str(error).partition(": ")
    if not name.startswith("Invalid "):
        return str(error)
    words = re.sub("(?<=[a-z])(?=[A-Z])", " ", name.removeprefix("Invalid ")).lower().removeprefix("session ")
    return f"The {words} is invalid: {problems}"


def one_safe_line(text: str, most: int = 200) -> str:
    """Fold text into one harmless line of at most `most` characters."""
    return cut(" ".join(safe_text(text).split()), most)


def cut(text: str, most: int) -> str:
    """Truncate a text to at most `most` characters, ending in an ellipsis."""
    return text if len(text) <= most else text[: most - 1] + "…"


def without_links(markdown: str, known: Collection[str] = ()) -> str:
    """Escape links, images, their definitions, diagrams and HTML in Markdown, so that viewers show their source text.

    Only plain links to known addresses remain, and nothing that a viewer would load.
    """
    targets = "|".join(re.escape(address) for address in sorted(known, key=len, reverse=True) if address)
    known_link = rf"((?<!!)\[[^\[\]\n<!]*\]\((?:{targets or '(?!)'})\))"
    return inert_programs(re.sub(f"{known_link}|{_MARK}", _escape, markdown))


def is_web_address(url: str) -> bool:
    """Return whether a URL is a web address without characters that could end a link early."""
    return re.fullmatch(r"https?://[^\s<>()\[\]\"\\]+", url) is not None


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(_CONTROL_PICTURES + code)
    return "\N{SYMBOL FOR DELETE}" if code == 0x7F else f"<U+{code:04X}>"


def _escape(match: re.Match[str]) -> str:
    return match[1] or ("&lt;" if match[0] == "<" else f"\\{match[0]}")
