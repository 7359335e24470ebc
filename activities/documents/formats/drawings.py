"""Reads drawings in Office files: text and figures of charts and diagrams (SmartArt), and descriptions."""

from collections.abc import Iterator, Mapping
from typing import Any, Final
from xml.etree import ElementTree

from activities.documents.formats.grid import row_text

_OFFICE: Final = "{http://schemas.openxmlformats.org/"
_RELATION, _DRAWING, _CHARTS, _DIAGRAMS = (
    f"{_OFFICE}{name}}}"
    for name in (
        "officeDocument/2006/relationships",
        "drawingml/2006/main",
        "drawingml/2006/chart",
        "drawingml/2006/diagram",
    )
)
_REFERENCES: Final = {_CHARTS + "chart": _RELATION + "id", _DIAGRAMS + "relIds": _RELATION + "dm"}
"""Tags of references to charts and diagrams, and the attribute that holds the id of the file."""


def drawn_lines(element: Any, parts: Mapping[str, Any]) -> Iterator[str]:  # XML without types
    """Yield the texts drawn in an element, and each series of a chart as a row below its categories.

    A description, such as a picture's alternative text, comes first, and only once.
    """
    described = (" ".join(each.get("descr", "").split()) for each in element.iter("{*}docPr", "{*}cNvPr"))
    yield from (f"Described: {text}" for text in dict.fromkeys(filter(None, described)))
    for reference in element.iter(*_REFERENCES):
        part = parts.get(reference.get(_REFERENCES[reference.tag], ""))
        if part is not None:
            # The parser refuses expanding entities, and the process that runs it is limited.
            drawing = ElementTree.fromstring(part.blob)  # noqa: S314  # see above
            paragraphs = drawing.iter(_DRAWING + "p")
            texts = ("".join(text.text or "" for text in each.iter(_DRAWING + "t")) for each in paragraphs)
            yield from filter(None, (" ".join(text.split()) for text in texts))
            yield from filter(None, _rows(drawing))


def _rows(chart: ElementTree.Element) -> Iterator[str]:
    above = dict[int, str]()
    for series in chart.iter(_CHARTS + "ser"):
        name, categories, values = (_points(series, *tags) for tags in (("tx",), ("cat", "xVal"), ("val", "yVal")))
        columns = sorted(categories | values)
        if categories != above:
            yield row_text(["", *(categories.get(column, "") for column in columns)])
            above = categories
        yield row_text([name.get(0, ""), *(values.get(column, "") for column in columns)])


def _points(series: ElementTree.Element, *tags: str) -> dict[int, str]:
    """Return the points by number; files omit points without a value."""
    points = (point for tag in tags for each in series.iterfind(_CHARTS + tag) for point in each.iter(_CHARTS + "pt"))
    return {int(point.get("idx", "0")): point.findtext(_CHARTS + "v") or "" for point in points}
