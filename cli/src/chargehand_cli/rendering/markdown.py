"""Models' Markdown as safe HTML: no raw HTML, no pictures, links only to the sources of the session."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Final
from urllib.parse import quote

import nh3
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup, escape

from chargehand import Source
from chargehand_cli.rendering.escaping import safe_text

_CITATION: Final = re.compile(r"\[(S\d{1,4}(?:,\s*S\d{1,4})*)\]")
_ANCHOR: Final = re.compile(r"#(?:S|file-)\d+")
_MARKS: Final = "*_`#>|•+-"
"""Markdown characters that quotations omit."""
_BETWEEN_WORDS: Final = rf"[\s{_MARKS}]+"
_MOST_QUOTES: Final = 100
_LONGEST_QUOTE: Final = 4_000
_TOP_LEVEL: Final = 3
"""Top heading level, below the page's title and section headings."""
# fmt: off
_TAGS: Final = frozenset({
    "p", "br", "hr", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "code",
    "em", "strong", "del", "a", "table", "thead", "tbody", "tr", "th", "td",
})
# fmt: on
_ATTRIBUTES: Final = {
    "a": {"href", "class"},
    "ol": {"start", "dir"},
    "ul": {"dir"},
    "th": {"scope", "class"},
    "td": {"class"},
}
_CLASSES: Final = {"a": "cite", "td": "number", "th": "number"}
_FIGURE: Final = (
    r"[-−+±~≈<>≤≥]{0,2}\s?(?:[A-Z]{0,3}[$£¥฿\u20a0-\u20cf]\s?|[A-Z]{3}\s)?[-−]?\d(?:[\d.,'\u2019٫٬\u00a0\u202f ]*\d)?"
)
_NUMBER: Final = re.compile(
    rf"(?!\d{{4}}-\d)\(?{_FIGURE}(?:\s?(?:[-–±/:×]|of|to)\s?{_FIGURE})?(?:[eE][-+]?\d+)?"
    r"(?:\s?(?:thousand|[mb]illion|Mi[ol]\.?|Mrd\.?|per|percentage))?(?:\s?[^\s\d()]{1,16})?\)?"
)
"""A figure or a range, with a currency before it or a unit after it; no date of the form 2026-11-02."""
_REMARK: Final = re.compile(rf"{_CITATION.pattern}|(?<=\S) ?\([^()]*\)")
"""Permitted text next to the number in a cell: citations, and words in parentheses."""
_NO_VALUE: Final = frozenset({"-", "–", "—", "n/a"})
"""Placeholders in tables for a missing number."""


def safe_html(text: str, sources: Collection[Source], files: Mapping[str, int] | None = None) -> Markup:
    """Render Markdown with links only to the addresses of `sources`, and citations linked to their list.

    `files` are the numbers of pictures by name; an embedded picture becomes a link to it.
    """
    markdown = _markdown()
    tokens = parse_markdown(text)
    known = source_addresses(sources)
    _nest_headings(tokens)
    numeric = numeric_columns(tokens)
    for token in tokens:
        if token.type in ("th_open", "td_open"):
            token.attrs = {"scope": "col"} if token.type == "th_open" else {}
            if next(numeric):
                token.attrs["class"] = "number"
        elif token.type in ("bullet_list_open", "ordered_list_open"):
            token.attrs["dir"] = "auto"  # its marks are at the start of its text
        elif token.type == "inline" and token.children:
            token.children = list(_link(token.children, len(sources), files or {}))
    rendered = markdown.renderer.render(tokens, markdown.options, {})

    def filtered(tag: str, name: str, value: str) -> str | None:
        if (tag, name) == ("a", "href") and value not in known and not _ANCHOR.fullmatch(value):
            return None
        return None if name == "class" and value != _CLASSES.get(tag) else value

    clean = nh3.clean(
        rendered,
        tags=set(_TAGS),
        attributes={tag: set(names) for tag, names in _ATTRIBUTES.items()},
        attribute_filter=filtered,
        url_schemes={"http", "https"},
        link_rel="noopener noreferrer",
    )
    scrolling = clean.replace("<table>", '<div class="scroll" tabindex="0" role="group" aria-label="Table"><table>')
    return Markup(scrolling.replace("</table>", "</table></div>"))  # noqa: S704  # nh3 has cleaned it


def source_addresses(sources: Iterable[Source]) -> set[str]:
    """Return the addresses of sources, as they are and as Markdown links state them."""
    normalised = _markdown().normalizeLink
    return {form for each in sources if each.url for form in (each.url, normalised(each.url))}


def numeric_columns(tokens: Iterable[Token]) -> Iterator[bool]:
    """Return for each table cell, in order, whether its column has numbers below the header, and hardly any words."""
    rows: list[list[str]] = []
    cells = ""
    for token in tokens:
        match token.type:
            case "tr_open":
                rows.append([])
            case "th_open" | "td_open":
                cells = token.type
            case "inline" if cells:
                text = _REMARK.sub("", "".join(each.content for each in token.children or ())).strip()
                rows[-1].append("" if text.casefold() in _NO_VALUE else text)
                cells = ""
            case "table_close":
                columns = list(zip(*rows, strict=False))
                are_numeric = [_is_numeric(column[1:]) for column in columns]
                for row in rows:
                    yield from are_numeric[: len(row)]
                rows = []
            case _:
                pass


def _is_numeric(cells: Sequence[str]) -> bool:
    numbers = sum(bool(_NUMBER.fullmatch(each)) for each in cells)
    words = sum(not any(map(str.isdigit, each)) for each in cells if each)
    return numbers > words and numbers + words == sum(map(bool, cells))


def parse_markdown(text: str) -> list[Token]:
    """Parse Markdown without raw HTML and reference definitions."""
    return _markdown().parse(safe_text(text))


def text_fragment(url: str, quoted: str) -> str:
    """Append a text fragment, which makes browsers scroll to quoted words and highlight them."""
    words = quoted.partition("\n")[0].split()
    if not words:
        return url
    first, last = " ".join(words[:6]), " ".join(words[-6:])
    ends = [first, last] if len(words) > 12 else [" ".join(words)]
    directive = ",".join(quote(each[:120], safe="", errors="replace").replace("-", "%2D") for each in ends)
    return f"{url}{'' if '#' in url else '#'}:~:text={directive}"


def cited(text: str, sources: int) -> Markup:
    """Escape text, and turn its citations of that many sources into links."""
    return _mark_up(_CITATION, safe_text(text), lambda match: _citation(match, sources))


def _citation(match: re.Match[str], sources: int) -> Markup:
    labels = [label.strip() for label in match[1].split(",")]
    if not all(1 <= int(label[1:]) <= sources for label in labels):
        return escape(match[0])
    return Markup().join(Markup('<a class="cite" href="#{0}">{0}</a>').format(label) for label in labels)


def _mark_up(pattern: re.Pattern[str], text: str, replace: Callable[[re.Match[str]], Markup]) -> Markup:
    parts: list[Markup] = []
    at = 0
    for match in pattern.finditer(text):
        parts += [escape(text[at : match.start()]), replace(match)]
        at = match.end()
    return Markup().join([*parts, escape(text[at:])])


def marked(text: str, quotes: Iterable[str]) -> Markup:
    """Escape text, and highlight quoted words, ignoring white space and Markdown marks between them."""
    shown = safe_text(text)
    patterns = [pattern for each in list(quotes)[:_MOST_QUOTES] if (pattern := _pattern(each))]
    if not patterns:
        return escape(shown)
    quoted = re.compile("|".join(sorted(patterns, key=len, reverse=True)))
    return _mark_up(quoted, shown, lambda match: Markup("<mark>{}</mark>").format(match[0]))


def _pattern(quotation: str) -> str:
    """Match words in order. No word begins or ends with a separator, so that matching is linear."""
    words = (word.strip(_MARKS) for word in safe_text(quotation[:_LONGEST_QUOTE]).split())
    return _BETWEEN_WORDS.join(re.escape(word) for word in words if word)


def with_commands(text: str) -> Markup:
    """Escape a message, and render the text in backticks as code."""
    parts = safe_text(text).split("`")
    return Markup().join(Markup("<code>{}</code>").format(part) if at % 2 else part for at, part in enumerate(parts))


@cache
def _markdown() -> MarkdownIt:
    # Without reference definitions, `[S1]` is always a citation.
    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("reference")


def _nest_headings(tokens: Iterable[Token]) -> None:
    """Shift heading levels below the page's own, without gaps."""
    above: list[int] = []
    for token in tokens:
        if token.type == "heading_open":
            level = int(token.tag[1])
            while above and above[-1] >= level:
                above.pop()
            above.append(level)
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, _TOP_LEVEL - 1 + len(above))}"


def _link(children: Iterable[Token], sources: int, files: Mapping[str, int]) -> Iterator[Token]:
    """Turn citations and pictures into links, outside other links."""
    within = 0
    for token in children:
        within += token.nesting if token.type.startswith("link_") else 0
        if token.type == "image":
            yield _html(_picture(token, files, linked=not within))
        elif token.type == "text" and not within:
            yield _html(cited(token.content, sources))
        else:
            yield token


def _html(content: str) -> Token:
    return Token("html_inline", "", 0, content=content)


def _picture(token: Token, files: Mapping[str, int], *, linked: bool) -> Markup:
    words = token.content or "picture"
    name = str(token.attrs.get("src", "")).rpartition("/")[2]
    number = files.get(name)
    return Markup('<a href="#file-{}">{}</a>').format(number, words) if number and linked else escape(words)
