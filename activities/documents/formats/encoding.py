"""Detects the encoding of a text that is not UTF-8 by its lines with non-ASCII letters, and how sure that is."""

import codecs
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from math import prod
from typing import Final, NamedTuple

_SAMPLE_BYTES: Final = 16_384
_STATED: Final = re.compile(rb"""(?:charset|encoding)\s*=\s*["']?([\w-]+)""", re.IGNORECASE)
"""The encoding stated at the beginning of a page or an XML file."""
_CENTRAL: Final = "íáěéřžýčšůúťďňó áíéýčžšúľťôňäďó łęąóżśćńź áéöóőíüúű ăâşţî čšžćđ"
_ALPHABETS: Final = {
    "cp1252": "éèàêçôîûùâëïœæ üäöß óíáéñúüºª ãçáéóíêâõúàôºª èàùòìé äåöé øåæé áíðéöóýúæþ ëéïöüç",
    "cp1250": _CENTRAL,
    "iso8859_2": _CENTRAL,
    "cp1254": "ıüşğçöİâ",
    "cp1257": "ėųįšžūąčę āīēšūņļģžčķ äõüöšž",
}
"""The letters of each language, most frequent first, by the encoding used in its region.

charset-normalizer does not distinguish these encodings.
"""
_OTHERS: Final = "cp1251 koi8_r cp866 cp1253 cp1255 cp1256 cp874 cp932 euc_jp gb18030 big5 cp949".split()  # noqa: SIM905 - a list of words reads best as text
_CONTROL: Final = re.compile(r"[\x80-\x9f]")
_NEAR: Final = 0.1
"""Maximum difference in disorder at which both of two readings are possible."""
_MOST: Final = 0.95
"""Minimum share of letters that belong to one language."""
_BETTER: Final = 1.5
"""How many times better the letters must fit a language than those of any other reading."""
_LEAST_LETTERS: Final = 4


class Encoding(NamedTuple):
    """Python's name of an encoding, and a message for the user about what may be wrong with it."""

    name: str
    doubt: str = ""


def unicode_of(beginning: bytes) -> Encoding:
    """Return the encoding of a text with a byte order mark, and UTF-8 for any other text."""
    return Encoding("utf-16" if beginning.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig")


def encoding_of(beginning: bytes, lines: Iterable[bytes]) -> Encoding:
    """Return the encoding that a text states or, failing that, its lines suggest; UTF-8 if few lines are broken."""
    stated = _STATED.search(beginning[:2_000])
    with suppress(LookupError, ValueError):
        if stated and stated[1].lower() not in {b"utf-8", b"utf8"} and beginning.decode(name := stated[1].decode()):
            return Encoding(name)
    sample, broken, size = list[bytes](), list[bytes](), 0
    for line in (each for each in lines if not each.isascii()):
        sample.append(line)
        broken += [line] if "\ufffd" in line.decode(errors="replace") else []
        size += len(line)
        if size > _SAMPLE_BYTES:
            break
    if 2 * len(broken) < len(sample):
        return Encoding("utf-8", "some characters are broken, and left out. Save it as UTF-8.")
    name, is_sure = _detect(b"\n".join(broken)[:_SAMPLE_BYTES])
    doubt = f"its letters may be wrong, since it states no encoding and was read as {name}. Save it as UTF-8."
    return Encoding(name, "" if is_sure else doubt)


def _detect(sample: bytes) -> tuple[str, bool]:
    from charset_normalizer import from_bytes

    every = from_bytes(sample, cp_isolation=[*_ALPHABETS, *_OTHERS], threshold=0.25)
    texts = [each for each in every if not _CONTROL.search(str(each))]
    western = sample.decode("cp1252", errors="replace")
    if not texts or not _letters(western):
        return "cp1252", bool(texts)
    near = {
        name: str(each) for each in texts if each.chaos <= texts[0].chaos + _NEAR for name in each.could_be_from_charset
    }
    best = next(iter(near))
    if best in _ALPHABETS:
        return _choose(near)
    return best, len({*near.values()}) == 1 and len(_letters(near[best])) >= 2 * _LEAST_LETTERS


def _choose(near: Mapping[str, str]) -> tuple[str, bool]:
    """Choose the reading whose letters fit a language best; on a tie, the Western one."""
    fits = {name: _fit(name, text) for name, text in near.items()}
    best = max(near, key=lambda name: (prod(fits[name]), name == "cp1252"))
    rivals = [prod(fits[name]) for name, text in near.items() if text != near[best]]
    is_distinct = prod(fits[best]) >= _BETTER * max(rivals, default=0) and len(_letters(near[best])) >= _LEAST_LETTERS
    return best, fits[best][0] >= _MOST and (is_distinct or not rivals)


def _fit(encoding: str, text: str) -> tuple[float, float]:
    """Return the share of a text's letters that belong to one language, and how frequent they are in it."""
    letters, alphabets = _letters(text), _ALPHABETS.get(encoding, "").split()
    ranks = [[alphabet.index(each) for each in letters if each in alphabet] for alphabet in alphabets]
    count = len(letters) or 1
    scores = [(len(each) / count, sum(1 / (2 + rank) for rank in each) / count) for each in ranks]
    return max(scores, key=prod, default=(0, 0))


def _letters(text: str) -> list[str]:
    return [each for each in text.lower() if each.isalpha() and not each.isascii()]
