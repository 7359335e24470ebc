"""Read a DOCX: headings, paragraphs and tables in reading order."""

from collections.abc import Iterator

from activities.documents.formats.plain_text import line_parts
from activities.documents.parsed import Block, BlockKind, HeadingPath, Parsed, Source, UnreadableError
from activities.processes.limits import Allowance

_PARAGRAPHS_A_PIECE = 100
_ROWS_A_PIECE = 10


def parse(source: Source, allowance: Allowance) -> Parsed:
    """Number every paragraph that has text and every table row, from 1."""
    import docx
    from docx.opc.exceptions import PackageNotFoundError
    from docx.table import Table

    try:
        document = docx.Document(str(source.path))
    except (PackageNotFoundError, KeyError, ValueError) as error:
        problem = "It is not a readable DOCX: broken, protected by a password, or in an older format."
        raise UnreadableError(problem) from error
    styles = {style.style_id: style.name or "" for style in document.styles}
    headings = HeadingPath()
    blocks: list[Block] = []
    lines: list[str] = []

    def add(text: str, kind: BlockKind) -> None:
        lines.append(text)
        blocks.append(Block(text, len(lines), len(lines), str(headings), kind))

    for item in allowance.over(document.iter_inner_content(), _PARAGRAPHS_A_PIECE):
        if isinstance(item, Table):
            for row in _rows(item, allowance):
                add(row, "table")
            continue
        text = item.text.strip()
        if not text:
            continue
        # The public way looks through all styles for each paragraph, which takes a hundred times as long as the rest.
        style = styles.get(item._p.style or "", "")  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # as just said
        if style == "Title" or style.startswith("Heading "):
            lines.append(text)
            level = style.removeprefix("Heading ")
            headings.enter(1 + int(level) if level.isdigit() else 1, text)
        else:
            add(f"- {text}" if style.startswith("List") else text, "text")
    if not lines:
        raise UnreadableError("It has no text.")
    return Parsed(unit="paragraph", units=len(lines), blocks=blocks, parts=line_parts(lines), headings=headings.all)


def _rows(table: object, allowance: Allowance) -> Iterator[str]:
    from docx.table import Table

    assert isinstance(table, Table)
    for row in allowance.over(table.rows, _ROWS_A_PIECE):
        cells: list[str] = []
        for cell in row.cells:
            text = " ".join(cell.text.split())
            # A merged cell is repeated for every column it spans.
            if not cells or text != cells[-1]:
                cells.append(text)
        if any(cells):
            yield " | ".join(cells)
