"""Distinguish SVG that only draws from SVG that could run code, load resources, or expand without bounds.

Browsers neither run nor load anything from an SVG in an `img`; PDF renderers do not guarantee that.
"""

import re
from collections import Counter, defaultdict
from typing import Final
from xml.parsers.expat import ExpatError, ParserCreate

_SVG: Final = "http://www.w3.org/2000/svg "
_LINK: Final = "http://www.w3.org/1999/xlink href"
_DESCRIPTIONS: Final = (
    "http://www.w3.org/1999/02/22-rdf-syntax-ns# ",
    "http://creativecommons.org/ns# ",
    "http://purl.org/dc/elements/1.1/ ",
)
# fmt: off
_ELEMENTS: Final = frozenset({
    "svg", "g", "defs", "symbol", "use", "title", "desc", "metadata", "style", "path", "rect", "circle", "ellipse",
    "line", "polyline", "polygon", "text", "tspan", "image", "clipPath", "marker", "linearGradient", "radialGradient",
    "stop",
})
# fmt: on
_LINES: Final = frozenset(f"{_SVG}{name}" for name in ("path", "line", "polyline", "polygon"))
_ATTRIBUTE: Final = re.compile(
    r"(?!on|marker$|marker-mid$)[a-z][a-z0-9-]*|http://www\.w3\.org/XML/1998/namespace (?:lang|space)", re.IGNORECASE
)
_WITHIN: Final = re.compile(r"#[^\s\"'()<>]+")
_RASTER: Final = re.compile(r"data:image/(?:png|jpeg);base64,[A-Za-z0-9+/=\s]*")
_LOADING: Final = re.compile(r"\\|@|(?:url|src|image|image-set)\(\s*(?![\"']?#)|script:", re.IGNORECASE)
_REFERENCE: Final = re.compile(r"url\(\s*[\"']?(#[^\s\"'()]+)", re.IGNORECASE)
_MARKER_STYLE: Final = re.compile(r"/\*|marker[^;]*url", re.IGNORECASE)
"""Markers in a style, whose number is unknown here, as it is of those of a group or at every point of a line."""
_MOST_DRAWN: Final = 20_000
"""Maximum elements, counting each referenced one as often as it is referenced, and large ones as several."""
_ATTRIBUTE_LETTERS: Final = 400
"""So many letters of attributes count as an element."""
_TEXT_LETTERS: Final = 2
_STOP: Final = 50
"""A gradient's stop counts as so many, since a group's gradient paints all that is in it."""
_MOST_DEPTH: Final = 50
_LONGEST_STYLE: Final = 5_000
"""Maximum length, since its rules are matched against each element."""


def is_drawing(content: bytes) -> bool:
    """Return whether these bytes are an SVG with only shapes, text, and embedded raster pictures."""
    try:
        return _Check().passes(content)
    except (ExpatError, _RefusedError, ValueError, LookupError):
        return False


class _RefusedError(Exception):
    """The drawing contains something that plain drawings do not need."""


class _Check:
    """Parses a drawing once without building a tree."""

    def __init__(self) -> None:
        self._open: list[tuple[str, str]] = []
        """Name and id of each open element."""
        self._sizes: defaultdict[str, float] = defaultdict(float)
        """Number of elements within each element with an id."""
        self._targets: Counter[str] = Counter()
        self._refer: set[str] = set()
        """Ids of elements that contain references; referencing these could multiply elements without bounds."""
        self._elements = 0.0
        self._style = ""

    def passes(self, content: bytes) -> bool:
        parser = ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartElementHandler = self._begin
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.EntityDeclHandler = parser.ProcessingInstructionHandler = _refuse
        parser.Parse(content, True)  # it takes no keywords
        if len(self._style) > _LONGEST_STYLE or "url(" in self._style.lower():
            return False
        if _LOADING.search(self._style) or self._refer & set(self._targets):
            return False
        drawn = sum(times * self._sizes[target] for target, times in self._targets.items())
        return self._elements + drawn <= _MOST_DRAWN

    def _begin(self, name: str, attributes: dict[str, str]) -> None:
        if not self._open and name != f"{_SVG}svg":
            raise _RefusedError
        self._open.append((name, attributes.get("id", "")))
        if len(self._open) > _MOST_DEPTH:
            raise _RefusedError
        own = _STOP if name == f"{_SVG}stop" else 1
        around = self._count(own + sum(map(len, attributes.values())) / _ATTRIBUTE_LETTERS)
        if name.startswith(_DESCRIPTIONS):
            return
        if not name.startswith(_SVG) or name.removeprefix(_SVG) not in _ELEMENTS:
            raise _RefusedError
        targets = [target for each, value in attributes.items() for target in _targets(name, each, value)]
        if targets:
            self._targets.update(targets)
            self._refer |= around

    def _count(self, elements: float) -> set[str]:
        """Count something in all open elements that have ids, which are returned."""
        self._elements += elements
        if self._elements > _MOST_DRAWN:
            raise _RefusedError
        around = {each for _, each in self._open if each}
        for each in around:
            self._sizes[each] += elements
        return around

    def _end(self, _: str) -> None:
        self._open.pop()

    def _text(self, text: str) -> None:
        name = self._open[-1][0].removeprefix(_SVG)
        if name == "style":
            self._style += text
        elif name in ("text", "tspan"):
            self._count(len(text) / _TEXT_LETTERS)


def _targets(element: str, attribute: str, value: str) -> list[str]:
    """Return the ids referenced by an attribute.

    Raises:
        _RefusedError: it references something else, or is not an allowed attribute.
    """
    if attribute in ("href", _LINK):
        if element == f"{_SVG}image" and _RASTER.fullmatch(value):
            return []
        if not _WITHIN.fullmatch(value):
            raise _RefusedError
        return [value[1:]]
    if not _ATTRIBUTE.fullmatch(attribute) or _LOADING.search(value):
        raise _RefusedError
    if (attribute.startswith("marker-") and element not in _LINES) or _MARKER_STYLE.search(value):
        raise _RefusedError
    return [reference[1:] for reference in _REFERENCE.findall(value)]


def _refuse(*_: object) -> None:
    raise _RefusedError
