"""Read a DOCX: headings, paragraphs and tables in reading order."""

from collections.abc import Iterator

from activities.documents.formats.paragraphs import Paragraphs
from activities.documents.parsed import Parsed, Source, UnreadableError
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
    read = Paragraphs()
    for item in allowance.over(document.iter_inner_content(), _PARAGRAPHS_A_PIECE):
        if isinstance(item, Table):
            for row in _rows(item, allowance):
                read.add(row, "table")
            continue
        text = item.text.strip()
        if not text:
            continue
        # The public way looks through all styles for each paragraph, which takes a hundred times as long as the rest.
        style = styles.get(item._p.style or "", "")  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # as just said
        if style == "Title" or style.startswith("Heading "):
            level = style.removeprefix("Heading ")
            read.add_title(1 + int(level) if level.isdigit() else 1, text)
        else:
            read.add(f"- {text}" if style.startswith("List") else text)
    return read.parsed()


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
