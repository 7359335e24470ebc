"""Whether a URL would carry private text to its server. Pure, and imports the standard library only."""

import base64
import binascii
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from typing import Final
from urllib.parse import unquote_to_bytes

LEAST_CHARACTERS: Final = 8
"""Letters and digits in a row that identify a text; shorter pieces match by chance."""
_LAYERS: Final = 3
"""Nested encodings that are decoded."""
_MOST_CHARACTERS: Final = 4_000_000
"""Most decoded text; a URL that decodes to more counts as hostile."""
_ENCODED: Final = re.compile(r"[A-Za-z0-9+/_=-]{11,}")
_BASE32: Final = re.compile(r"[A-Za-z2-7]{13,}")
_HEXADECIMAL: Final = re.compile(r"[0-9A-Fa-f]{16,}")
_SCHEME: Final = re.compile(r"(?<![A-Za-z0-9+.-])[A-Za-z0-9+.-]++:/*+")
_PARTS: Final = re.compile(r"[/?#&;=@:.,~!$'()*|]+")


def carries(url: str, private: Collection[str], public: Collection[str] = ()) -> str | None:
    """Return the first private text of which a URL carries a piece, or None.

    A piece is `LEAST_CHARACTERS` letters and digits in a row, whatever their case and accents and whatever stands
    between them. It is found in user name, host, path, query and fragment, across labels, segments and parameters,
    and under up to three layers of percent signs, base64, base32 and hexadecimal digits. What stands in `public` too,
    such as the user's own question or the address of a search result, is allowed. Not found: text that is encrypted,
    written in a private alphabet, or sent in shorter pieces.
    """
    readings = _readings(url)
    if sum(map(len, readings)) > _MOST_CHARACTERS:
        return next(iter(private), None)
    pieces: set[str] = set()
    for text in readings:
        pieces.update(_pieces(_letters(text)))
    for known in public:
        pieces.difference_update(_pieces(_letters(known)))
    if not pieces:
        return None
    return next((text for text in private if any(piece in pieces for piece in _pieces(_letters(text)))), None)


def _letters(text: str) -> str:
    """Keep letters and digits, without case, accents and compatibility forms."""
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return "".join(filter(str.isalnum, folded.casefold()))


def _pieces(letters: str) -> Iterator[str]:
    return (letters[at : at + LEAST_CHARACTERS] for at in range(len(letters) - LEAST_CHARACTERS + 1))


def _readings(url: str) -> set[str]:
    """All texts that a URL can be decoded to."""
    bare = _SCHEME.sub("", url, count=1)
    found = {bare, "".join(_PARTS.split(bare)), *_values(bare)}
    size = sum(map(len, found))
    newest = set(found)
    for _ in range(_LAYERS):
        unread, newest = newest, set[str]()
        for reading in (reading for text in unread for reading in _decoded(text)):
            if reading not in found:
                found.add(reading)
                newest.add(reading)
                size += len(reading)
            if size > _MOST_CHARACTERS:
                return found
    return found


def _values(bare: str) -> Iterator[str]:
    """Join what a sender may have split: the segments of a path, the values of a query."""
    path, _, query = bare.partition("?")
    yield "".join(re.split(r"[/.]", path))
    yield "".join(parameter.partition("=")[2] for parameter in re.split(r"[&;]", query))


def _decoded(text: str) -> Iterator[str]:
    if "%" in text:
        for plain in _texts(unquote_to_bytes(text)):
            yield plain
            yield from _values(plain)
    if "xn--" in text.lower():
        yield from _international(text)
    for run in _ENCODED.findall(text):
        digits = run.replace("-", "+").replace("_", "/")
        # A slash may be a digit of base64, or stand between two segments of a path.
        for part in {digits, *digits.split("/"), digits.replace("/", "")}:
            yield from _from_base64(part.replace("=", ""))
    for run in _BASE32.findall(text):
        yield from _from_base32(run.upper())
    for run in _HEXADECIMAL.findall(text):
        for start in (0, 1):
            yield from _texts(bytes.fromhex(run[start : start + (len(run) - start) // 2 * 2]))


def _from_base64(digits: str) -> Iterator[str]:
    for start in range(4):
        shifted = digits[start:]
        whole = shifted[: len(shifted) - (1 if len(shifted) % 4 == 1 else 0)]
        try:
            yield from _texts(base64.b64decode(whole + "=" * (-len(whole) % 4)))
        except binascii.Error:
            continue


def _from_base32(digits: str) -> Iterator[str]:
    for start in range(8):
        shifted = digits[start:]
        # Of eight digits, groups of 1, 3 and 6 are no whole number of bytes.
        whole = shifted[: len(shifted) - (1 if len(shifted) % 8 in {1, 3, 6} else 0)]
        try:
            yield from _texts(base64.b32decode(whole + "=" * (-len(whole) % 8)))
        except binascii.Error:
            continue


def _international(text: str) -> Iterator[str]:
    for label in re.split(r"[/?#.:@]", text):
        if label.lower().startswith("xn--"):
            try:
                yield label[4:].encode("ascii").decode("punycode")
            except (UnicodeError, OverflowError):
                continue


def _texts(data: bytes) -> Iterable[str]:
    """Read bytes as text in the two ways that keep all of their letters."""
    return {data.decode("utf-8", "ignore"), data.decode("latin-1")}
