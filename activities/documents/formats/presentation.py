"""Reads a PPTX file: one page per slide, with its texts, tables, charts, diagrams and notes."""

from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from activities.documents.formats.drawings import drawn_lines
from activities.documents.formats.grid import Cell, Grid
from activities.documents.parsed import Block, HeadingPath, Parsed, Part, Source, UnreadableError
from activities.processes.limits import Allowance

if TYPE_CHECKING:
    from pptx.slide import Slide


def parse(source: Source, allowance: Allowance) -> Parsed:
    if find_spec("pptx") is None:
        raise UnreadableError("It is a presentation, which a worker reads with the extra `office`: or save it as PDF.")
    import pptx
    from pptx.exc import PackageNotFoundError

    try:
        slides = pptx.Presentation(str(source.path)).slides
    except (PackageNotFoundError, KeyError, ValueError) as error:
        problem = "It is not a readable PPTX: broken, protected by a password, or in an older format."
        raise UnreadableError(problem) from error
    return pages_of(((_title(slide), [*_lines(slide)]) for slide in slides), allowance)


def pages_of(slides: Iterable[tuple[str, list[str]]], allowance: Allowance) -> Parsed:
    """Number slides, each with its title and lines. Raises `UnreadableError` if none has text."""
    parsed = Parsed("page", 0)
    for number, (title, lines) in enumerate(allowance.over(slides), start=1):
        headings = HeadingPath()
        headings.enter(1, title)
        parsed.headings += headings.all
        parsed.blocks += [Block(line, number, number, str(headings)) for line in lines]
        parsed.parts.append(Part(number, number, "\n".join([*([title] if title else []), *lines])))
        parsed.units = number
    if not parsed.blocks and not parsed.headings:
        raise UnreadableError("Its slides have no text.")
    return parsed


def _title(slide: "Slide") -> str:
    title = slide.shapes.title
    text = " ".join(title.text_frame.text.split()) if title is not None else ""
    shown: Any = slide.element  # the library's XML has no types
    return f"{text} (hidden slide)".strip() if shown.get("show") in {"0", "false"} else text


def _lines(slide: "Slide") -> Iterator[str]:
    title = slide.shapes.title
    yield from _texts(shape for shape in slide.shapes if title is None or shape.shape_id != title.shape_id)
    parts = {key: each.target_part for key, each in slide.part.rels.items() if not each.is_external}
    yield from drawn_lines(slide.element, parts)
    if slide.has_notes_slide and (notes := slide.notes_slide.notes_text_frame) is not None:
        yield from (f"Notes: {text}" for text in _paragraphs(notes.text))


def _texts(shapes: Iterable[Any]) -> Iterator[str]:  # one of many classes without a common base
    for shape in shapes:
        if hasattr(shape, "shapes"):  # a group
            yield from _texts(shape.shapes)
        elif shape.has_text_frame:
            yield from _paragraphs(shape.text_frame.text)
        elif getattr(shape, "has_table", False):
            grid = Grid()
            rows = ((cell for cell in row.cells if not cell.is_spanned) for row in shape.table.rows)
            yield from filter(None, (grid.row(Cell(c.text, c.span_width, c.span_height) for c in row) for row in rows))


def _paragraphs(text: str) -> Iterator[str]:
    return filter(None, (" ".join(line.split()) for line in text.splitlines()))
