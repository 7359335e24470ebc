"""Detects whether outgoing text would carry private text. Pure, and imports only the standard library."""

import base64
import binascii
import codecs
import html
import re
import unicodedata
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import product
from typing import Final
from urllib.parse import unquote, unquote_to_bytes

LEAST_CHARACTERS: Final = 8
"""Length of a run of letters and digits that identifies a text; shorter pieces match by chance."""
LEAST_IN_WORDS: Final = 12
"""The same across word boundaries in prose: two texts share single words by chance."""
_LAYERS: Final = 3
"""Maximum nested encodings that are decoded."""
MOST_CHARACTERS: Final = 1_000_000
"""Maximum decoded text; a text that decodes to more counts as hostile."""
_MOST_UNPACKED: Final = 100_000
_SEGMENTS: Final = range(3, 33)
"""Lengths into which encoded data may be split; longer segments identify a text by themselves."""
_ENCODED: Final = re.compile(r"[A-Za-z0-9+/_=-]{11,}")
_BASE32: Final = re.compile(r"[A-Za-z2-7]{13,}")
_HEXADECIMAL: Final = re.compile(r"[0-9A-Fa-f]{16,}")
_NUMBERS: Final = re.compile(r"(?:[0-9]{2,3}[^0-9A-Za-z]{1,3}){7,}[0-9]{2,3}")
_BITS: Final = re.compile(r"(?:[01]{8}[^0-9A-Za-z]{0,3}){8,}")
_ESCAPE: Final = re.compile(r"(?:\\u|%u|U\+)([0-9A-Fa-f]{4})\s?|(?:\\x|=|0x)([0-9A-Fa-f]{2})")
_SPLIT: Final = re.compile(r"[^A-Za-z0-9+/=]+")
_NO_LETTERS: Final = re.compile(r"[^a-z0-9]+")
_SCHEME: Final = re.compile(r"(?<![A-Za-z0-9+.-])[A-Za-z0-9+.-]++:/*+")
_PARTS: Final = re.compile(r"[/?#&;=@:.,~!$'()*|]+")
_LEGIBLE: Final = re.compile(r"[\w\s!-/:-@\[-`{-~\0]{8,}")


def carries(url: str, private: Collection[str], public: Collection[str] = ()) -> str | None:
    """Return the first private text of which a URL carries a piece; None if there is none.

    A piece is `LEAST_CHARACTERS` letters and digits in a row, regardless of case, accents and other characters between
    them. Pieces are found in user name, host, path, query and fragment, across labels, segments and parameters, and
    under up to three layers of the usual encodings: percent signs, character references and escapes, base64, base32,
    hexadecimal, decimal and binary digits, zlib and gzip below them, Punycode, rot13, and reversed letters. Text that
    is also in `public`, such as the user's own question or the address of a search result, is allowed. Text is not
    found if it is encrypted, written in a private alphabet or other words, or sent in shorter pieces.
    """
    bare = _SCHEME.sub("", url, count=1)
    plain: set[str] = set()
    for text in {bare, unquote(bare)}:
        plain |= {text, *_values(text)}
    return _find(_pieces_of(plain | readings(plain)), private, public)


def repeats(words: str, private: Collection[str], public: Collection[str] = ()) -> str | None:
    """Return the first private text of which a query, or any other prose, carries a piece; None if there is none.

    Like `carries`, but text that is readable without decoding counts only from `LEAST_IN_WORDS` letters on and across
    the end of a word, or in a word with digits that is longer than a date.
    """
    hidden = _hidden_pieces(words)
    return _find(None if hidden is None else hidden.union(_across_words(words)), private, public)


def hides(words: str, private: Collection[str], public: Collection[str] = ()) -> str | None:
    """Return the first private text of which a prose text carries an encoded piece; None if there is none."""
    return _find(_hidden_pieces(words), private, public)


def _hidden_pieces(words: str) -> set[str] | None:
    """Cut everything that a text can be decoded to into pieces, except those readable without decoding."""
    pieces = _pieces_of(readings({words}))
    return None if pieces is None else pieces.difference(_pieces(_letters(words), LEAST_CHARACTERS))


def _pieces_of(texts: Collection[str]) -> set[str] | None:
    """Cut texts into pieces; None if they are too long to check."""
    if sum(map(len, texts)) > MOST_CHARACTERS:
        return None
    return {piece for text in texts for piece in _pieces(_letters(text), LEAST_CHARACTERS)}


def _find(pieces: set[str] | None, private: Collection[str], public: Collection[str]) -> str | None:
    if pieces is None:
        return next(iter(private), None)
    for known, length in product(public, (LEAST_CHARACTERS, LEAST_IN_WORDS)):
        pieces.difference_update(_pieces(_letters(known), length))
    lengths = {len(piece) for piece in pieces}
    for text, length in product(private, lengths):
        if any(piece in pieces for piece in _pieces(_letters(text), length)):
            return text
    return None


def _letters(text: str) -> str:
    """Keep only letters and digits, ignoring case, accents and compatibility forms."""
    if text.isascii():
        return _NO_LETTERS.sub("", text.lower())
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return "".join(filter(str.isalnum, folded.casefold()))


def _pieces(letters: str, length: int) -> Iterator[str]:
    return (letters[at : at + length] for at in range(len(letters) - length + 1))


def _across_words(text: str) -> Iterator[str]:
    """Cut a text into pieces, omitting pieces within a single word unless it contains digits."""
    words = [_letters(word) for word in text.split()]
    letters = "".join(words)
    ends = [at for at, word in enumerate(words) for _ in word]
    for at, piece in enumerate(_pieces(letters, LEAST_IN_WORDS)):
        if ends[at] != ends[at + LEAST_IN_WORDS - 1]:
            yield piece
    for word in words:
        if len(word) > LEAST_CHARACTERS and any(map(str.isdigit, word)):
            yield from _pieces(word, LEAST_CHARACTERS)


def readings(plain: Collection[str]) -> set[str]:
    """Decode texts in all known ways; return all results that differ from the texts."""
    decoded_texts = set[str]()
    size = sum(map(len, plain))
    newest = set(plain)
    for _ in range(_LAYERS):
        unread, newest = newest, set[str]()
        for reading in (reading for text in unread for reading in _decodings(text)):
            if reading not in decoded_texts and reading not in plain:
                decoded_texts.add(reading)
                newest.add(reading)
                size += len(reading)
            if size > MOST_CHARACTERS:
                return decoded_texts
    return decoded_texts


def _values(bare: str) -> Iterator[str]:
    """Join what a sender may have split: the segments of a path, the values of a query."""
    yield "".join(_PARTS.split(bare))
    path, _, query = bare.partition("?")
    yield "".join(re.split(r"[/.]", path))
    yield "".join(parameter.partition("=")[2] for parameter in re.split(r"[&;]", query))


def _decodings(text: str) -> Iterator[str]:
    if len(text) < LEAST_CHARACTERS:
        return
    yield text[::-1]
    yield codecs.encode(text, "rot13")
    if "%" in text:
        for plain in _texts(unquote_to_bytes(text.encode(errors="surrogatepass"))):
            yield plain
            yield from _values(plain)
    if "&" in text:
        yield html.unescape(text)
    if _ESCAPE.search(text):
        yield _ESCAPE.sub(lambda escape: chr(int(escape[1] or escape[2], 16)), text)
    if "xn--" in text.lower():
        yield from _international(text)
    for digits in {text, _SPLIT.sub("", text)}:
        yield from _from_digits(digits)
    for run in _NUMBERS.findall(text):
        yield "".join(chr(int(number)) for number in re.findall("[0-9]+", run))
    for run in _BITS.findall(text):
        yield from _texts(bytes(int(byte, 2) for byte in re.findall("[01]{8}", run)))


def _from_digits(text: str) -> Iterator[str]:
    for run in _ENCODED.findall(text):
        digits = run.replace("-", "+").replace("_", "/")
        # A slash may be a digit of base64, or separate two segments of a path.
        for part in {digits, *digits.split("/"), digits.replace("/", ""), *_joins(digits.split("/"))}:
            yield from _shifts(part.replace("=", ""), base64.b64decode, 4, {1})
    for run in _BASE32.findall(text):
        yield from _shifts(run.upper(), base64.b32decode, 8, {1, 3, 6})
    for run in _HEXADECIMAL.findall(text):
        for start in (0, 1):
            yield from _texts(bytes.fromhex(run[start : start + (len(run) - start) // 2 * 2]))


def _joins(segments: Sequence[str]) -> Iterator[str]:
    """Join segments of equal length, some of which contain a slash and therefore look like several."""
    for length in _SEGMENTS if len(segments) > 2 and any(segments) else ():
        pieces = [segments[0]]
        for segment in segments[1:]:
            if len(pieces[-1]) + 1 + len(segment) <= length:
                pieces[-1] += f"/{segment}"
            else:
                pieces.append(segment)
        if len(pieces) > 2 and all(len(piece) == length for piece in pieces[1:-1]):
            yield "".join(pieces)


def _shifts(digits: str, decode: Callable[[str], bytes], group: int, partial: Collection[int]) -> Iterator[str]:
    """Decode from each offset within a group; `partial` lists remainders that do not form whole bytes."""
    for start in range(group):
        shifted = digits[start:]
        whole = shifted[: len(shifted) - (len(shifted) % group in partial)]
        try:
            yield from _texts(decode(whole + "=" * (-len(whole) % group)))
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
    """Read bytes as text, decompressing them if necessary; omit text that is not legible in any encoding."""
    data = data[max(data.find(b"\x1f\x8b\x08"), 0) :]
    if data[:2] == b"\x1f\x8b" or (data[:1] == b"\x78" and len(data) > 1 and int.from_bytes(data[:2]) % 31 == 0):
        try:
            data = zlib.decompressobj(wbits=47).decompress(data, _MOST_UNPACKED)
        except zlib.error:
            return ()
    texts = {data.decode("utf-8", "replace"), data.decode("latin-1")}
    return {legible for text in texts if (legible := " ".join(_LEGIBLE.findall(text)))}
