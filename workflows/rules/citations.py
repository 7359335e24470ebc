"""Citations and links in a text.

`[S1]` stands for the first of a report's sources, `[S1.2]` for its second quotation, `[ref]` for a source by its name.

A citation without a source is removed together with its separator. Citations are never added. A link or a
picture to an address that was not read becomes plain text that shows the whole address: Markdown viewers
fetch pictures automatically, and hide the address of a link behind other words.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

from chargehand.contracts import Source
from chargehand.inert_text import inert_programs

CITATION: Final = re.compile(r"\[S[0-9]+(?:\.[0-9]+)?\]")
_CITATION: Final = re.compile(r"\[S([0-9]+)(?:\.([0-9]+))?\]")
CITES_NOTHING: Final = "[S0]"
"""Placeholder, until the report is finished, for a citation of something that no tool returned."""
_BY_NAME: Final = re.compile(r"\[(?:p[1-9][0-9]{0,3}|(?:sql|code):\w+|[^\[\]\s#]+#L[0-9]+(?:-L[0-9]+)?)\](?!\()")
"""A citation by an unknown ref; known refs have become numbers by then."""
_JOINED: Final = re.compile(r"\[(S[0-9]+(?:\.[0-9]+)?(?:[,;] ?S[0-9]+(?:\.[0-9]+)?)+)\]")
"""Several citations in one pair of brackets."""
_LONGEST_NUMBER: Final = 6
"""Maximum digits; a longer number cites nothing, and is too long to be parsed."""
_SEPARATOR: Final = re.compile(r"[ \t]{0,3}(?:[,;/&]|,?[ \t]{1,3}(?:and|or|und|oder|et|ou|y|o|e)[ \t])?[ \t]{0,3}")
"""Separators between citations of one list."""
_NEEDS_NOUN: Final = re.compile(
    r"\b(?:according to|and|by|cf\.|from|in|of|or|per|see|to|with)[ \t]{1,3}$", re.IGNORECASE
)
"""Words before a citation that is part of the sentence."""
_STARTS: Final = ".!?:\n"
_UNNAMED: Final = "an unnamed source"
_DESTINATION: Final = re.compile(r"(?<=\])\((\s*<?)")
_DEFINITION: Final = re.compile(r"(?<=\]):(?=[\s<>]*[^\s<>:/\\&]*[:/\\&])")
"""The colon after a link's label, before a possible address; any of its characters can be an entity or escaped."""
_TAG: Final = re.compile(r"<(?=[A-Za-z][A-Za-z0-9-]*[\s/]|(?:style|script)\b)", re.IGNORECASE)
"""The start of an HTML tag that can have attributes, or that contains no text."""
_LOCAL: Final = re.compile(r"#[\w-]+(?=[\s)>])|[\w-][\w.-]*(?=[\s)>])")
"""An anchor in the text, or a file name."""
_ADDRESS: Final = re.compile(r"(?:[^\s()<>]|\([^\s()<>]*\))+(?=[)> \n])")
"""The address of a link, bounded because many links can be looked up among many sources."""


def replace_citations(text: str, replacement: Callable[[int], str]) -> str:
    """Replace every `[S<number>]`; an empty replacement or an impossible number removes the citation."""

    def replaced(match: re.Match[str]) -> str:
        number = _number(match[1])
        return replacement(number) if number else ""

    return _rewrite(text, _CITATION, replaced)


def cited_numbers(text: str) -> list[int]:
    """List the numbers that a text cites, each once, in order of first appearance."""
    numbers = (_number(match[1]) for match in _CITATION.finditer(text))
    return list(dict.fromkeys(number for number in numbers if number))


def cited_quotations(text: str) -> list[tuple[int, int]]:
    """List the quotations that a text cites, as pairs of source and quotation number."""
    pairs = ((_number(match[1]), _number(match[2] or "")) for match in _CITATION.finditer(text))
    return list(dict.fromkeys((number, quotation) for number, quotation in pairs if number and quotation))


def without_citations(text: str) -> str:
    """Remove every `[S<number>]` and nothing else."""
    return _CITATION.sub("", text)


def name_refs(text: str, refs: Sequence[str]) -> str:
    """Replace every `[S<number>]` with `[ref]`; a number without a source is removed."""
    return replace_citations(text, lambda number: f"[{refs[number - 1]}]" if number <= len(refs) else "")


def is_cited(text: str) -> bool:
    """Return whether a text has a citation, even one that no tool returned."""
    return bool(CITATION.search(text) or _BY_NAME.search(text))


def number_refs(text: str, numbers: Mapping[str, int], unknown: str = "") -> str:
    """Replace every `[ref]` with `[S<number>]`; numbers already in the text are invalid and removed."""
    return _number_refs(text, numbers, lambda _: unknown)


def number_more_refs(text: str, numbers: Mapping[str, int], unknown: str = "") -> str:
    """Replace every `[ref]` with `[S<number>]` in a text that already cites by these numbers."""
    known = set(numbers.values())

    def kept(match: re.Match[str]) -> str:
        number, quotation = _number(match[2]), _number(match[3] or "")
        return f"[S{number}{f'.{quotation}' if quotation else ''}]" if number in known else unknown

    apart = _JOINED.sub(lambda match: re.sub("[,;] ?", "][", match[0]), text)
    return _number_refs(apart, numbers, kept)


def _number_refs(text: str, numbers: Mapping[str, int], kept: Callable[[re.Match[str]], str]) -> str:
    return _rewrite(
        text, _pattern_of(tuple(numbers)), lambda match: f"[S{numbers[match[1]]}]" if match[1] else kept(match)
    )


@lru_cache(maxsize=4)
def _pattern_of(refs: tuple[str, ...]) -> re.Pattern[str]:
    """Match a citation by ref or number; cached, since a report has many texts and up to a thousand refs."""
    names = "|".join(re.escape(ref) for ref in sorted(refs, key=len, reverse=True)) or "(?!)"
    return re.compile(rf"\[({names})\]|{_CITATION.pattern}")


def _number(digits: str) -> int:
    """Parse a citation's number; 0 if no source can have it."""
    significant = digits.lstrip("0")
    return int(significant) if 0 < len(significant) <= _LONGEST_NUMBER else 0


def _rewrite(text: str, citation: re.Pattern[str], replacement: Callable[[re.Match[str]], str]) -> str:
    pieces: list[str] = []
    end = 0
    for citations in _lists(text, citation):
        before, end = text[end : citations[0].start()], citations[-1].end()
        rewritten = ""
        for previous, match in zip([None, *citations], citations, strict=False):
            if new := replacement(match):
                rewritten += f"{text[previous.end() : match.start()]}{new}" if rewritten and previous else new
        if not rewritten:
            before, rewritten, end = _without_citation(text, before, end)
        pieces += [before, rewritten]
    return "".join([*pieces, text[end:]])


def _lists(text: str, citation: re.Pattern[str]) -> Iterator[list[re.Match[str]]]:
    """Group adjacent citations, such as `[S1], [S2] and [S3]`."""
    group: list[re.Match[str]] = []
    for match in citation.finditer(text):
        if group and not _SEPARATOR.fullmatch(text, group[-1].end(), match.start()):
            yield group
            group = []
        group.append(match)
    if group:
        yield group


def _without_citation(text: str, before: str, end: int) -> tuple[str, str, int]:
    """Close the gap of a removed list; return the text before it, its replacement, and where the text continues."""
    if before.endswith("(") and text[end : end + 1] == ")":
        before, end = before[:-1], end + 1
    bare = before.rstrip(" \t")
    starts = not bare or bare[-1] in _STARTS
    following = text[end : end + 2]
    if _NEEDS_NOUN.search(before[-20:]):
        return before, _UNNAMED, end
    if starts and following[:1] == " " and following[1:].islower():
        return before, _UNNAMED.capitalize(), end
    if starts and following[:1] == " ":
        return before, "", end + 1
    return (before if following[:1].isalnum() else bare), "", end


def inert_links(text: str, sources: Collection[Source]) -> str:
    """Turn links and pictures into text unless they lead to a source or a file of the report, and draw no diagrams."""
    known = {each.url for each in sources}

    def is_known(at: int) -> bool:
        address = _ADDRESS.match(text, at)
        return _LOCAL.match(text, at) is not None or (address is not None and address[0] in known)

    broken = _DESTINATION.sub(lambda found: found[0] if is_known(found.end()) else f" {found[0]}", text)
    return inert_programs(_TAG.sub("< ", _DEFINITION.sub(" :", broken)))
