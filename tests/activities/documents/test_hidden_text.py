"""Text that a document's reader does not see is not read as if visible, and drawn text is read."""

import copy
import io
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pptx
import pytest
from made_documents import ebook, open_document
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.opc.package import Part
from pptx.opc.packuri import PackURI
from pptx.oxml import parse_xml
from test_whole_documents import document_with, texts_of

_STYLES = (
    "<w:style w:type='character' w:styleId='Base'><w:rPr><w:vanish/></w:rPr></w:style>"
    "<w:style w:type='character' w:styleId='Heir'><w:basedOn w:val='Base'/></w:style>"
    "<w:style w:type='paragraph' w:styleId='Whole'><w:rPr><w:vanish/></w:rPr></w:style>"
)
_RUN = "<w:r><w:rPr>{}</w:rPr><w:t>{}</w:t></w:r>"
_SHOWN_AGAIN = _RUN.format("<w:rStyle w:val='Base'/><w:vanish w:val='0'/>", "shut")
_WHOLE = "<w:p><w:pPr><w:pStyle w:val='Whole'/></w:pPr><w:r><w:t>SECRET</w:t></w:r></w:p>"
_ODF_STYLE = (
    '<s:style xmlns:s="urn:oasis:names:tc:opendocument:xmlns:style:1.0" s:name="H">'
    '<s:text-properties text:display="none"/></s:style>'
)
_HIDING = {
    "rtf": [
        r"{\v SECRET {\b SECRET} \'e9\u8364? SECRET}shut\par ",
        r"\v SECRET\v0  shut\par ",
        r"{\v1 SECRET \plain shut}\par ",
        r"{\deleted SECRET {\i SECRET}}shut\par ",
        r"\deleted SECRET\deleted0  shut\par ",
        r"{\v SECRET{\footnote SECRET}}shut\par ",
    ],
    "docx": [
        f"<w:p>{_RUN.format(way, 'SECRET')}{_SHOWN_AGAIN}</w:p>{_WHOLE}"
        for way in ("<w:vanish/>", "<w:vanish w:val='true'/>", "<w:rStyle w:val='Base'/>", "<w:rStyle w:val='Heir'/>")
    ],
    "odt": [
        '<text:p><text:span text:style-name="H">SECRET<text:span>SECRET</text:span></text:span>shut</text:p>',
        '<text:p><text:hidden-text text:is-hidden="true">SECRET</text:hidden-text>shut</text:p>',
        '<text:p>shut</text:p><text:section text:display="none"><text:p>SECRET</text:p></text:section>',
        '<text:p>SECRET<text:hidden-paragraph text:is-hidden="true"/></text:p><text:p>shut</text:p>',
        '<text:p>shut</text:p><text:p text:style-name="H">SECRET</text:p>',
    ],
    "html": [
        f"<p>shut</p>{element.replace('@', hiding)}"
        for hiding, element in product(
            ("hidden", 'style="color: red; display:none"', 'style="VISIBILITY : hidden"'),
            (
                "<p @>SECRET",
                "<p @>SECRET</p>",
                "<div @><div>SECRET</div>SECRET<br><img src=a></div>",
                "<ul><li @>SECRET<ul><li>SECRET</li></ul></li></ul>",
                "<ul><li @>SECRET</ul>",
                "<table><tr><td @>SECRET</table>",
                "<br @><input @>",
            ),
        )
    ],
}
_FILES: Mapping[str, Callable[[str], str | bytes]] = {
    "rtf": lambda text: rf"{{\rtf1\ansi Open {text}end\par}}",
    "docx": lambda text: document_with(
        f"<w:p>{_RUN.format('', 'Open')}</w:p>{text}<w:p>{_RUN.format('', 'end')}</w:p>", styles=_STYLES
    ),
    "odt": lambda text: open_document("text", f"{_ODF_STYLE}<text:p>Open</text:p>{text}<text:p>end</text:p>"),
    "html": lambda text: f"<html><body><p>Open</p>{text}<p>end</p></body></html>",
    "epub": lambda text: ebook(f"<html><body><p>Open</p>{text}<p>end</p></body></html>", second=""),
}


@pytest.mark.parametrize("suffix", _FILES)
async def test_hidden_text_is_left_out(tmp_path: Path, suffix: str) -> None:
    """It may be hidden directly, by its style or by its parent; no visible text is lost with it."""
    ways = enumerate(_HIDING.get(suffix, _HIDING["html"]))
    read = await texts_of(tmp_path, **{f"{number:02}__{suffix}": _FILES[suffix](way) for number, way in ways})

    assert {" ".join(text.split()) for text in read} == {"Open shut end"}


def _slides() -> bytes:
    """Write a hidden slide with a diagram and a chart, one of whose figures is missing."""
    presentation: Any = pptx.Presentation()  # shapes of many classes
    slide = presentation.slides.add_slide(presentation.slide_layouts[6])
    slide.element.set("show", "0")
    data: Any = CategoryChartData()
    data.categories = ["May", "June", "July"]
    data.add_series("Berths", (12, None, 34.5))
    shape = slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, 0, 0, 900, 900, data)
    shape.chart.has_title, shape.chart.chart_title.text_frame.text = True, "Occupied"
    office = "http://schemas.openxmlformats.org/"
    points = f'<a:p xmlns:a="{office}drawingml/2006/main"><a:r><a:t>Ask first</a:t></a:r></a:p>'
    part = Part(PackURI("/ppt/diagrams/data1.xml"), "application/xml", presentation.part.package, points.encode())
    relation = slide.part.relate_to(part, f"{office}officeDocument/2006/relationships/diagramData")
    frame = copy.deepcopy(shape._element)
    names = f'xmlns="{office}drawingml/2006/diagram" xmlns:r="{office}officeDocument/2006/relationships"'
    frame.graphic.graphicData[:] = [parse_xml(f'<relIds {names} r:dm="{relation}"/>')]
    slide.shapes._spTree.append(frame)
    for each in (frame, shape._element):
        each.nvGraphicFramePr.cNvPr.set("descr", "A way  to ask")
    file = io.BytesIO()
    presentation.save(file)
    return file.getvalue()


async def test_charts_and_diagrams_on_a_slide_are_read(tmp_path: Path) -> None:
    """Figures are placed below their categories, missing ones stay empty, and hidden slides are marked."""
    [read] = await texts_of(tmp_path, a__pptx=_slides())

    chart = "Occupied\n | May | June | July\nBerths | 12 |  | 34.5"
    assert read == f"(hidden slide)\nDescribed: A way to ask\n{chart}\nAsk first"
