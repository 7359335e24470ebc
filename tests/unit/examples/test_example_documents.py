"""The example documents are right about each other."""

import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pypdfium2
import pytest
from python_calamine import CalamineWorkbook

EXAMPLES = Path(__file__).parents[3] / "examples"
FOLDER = EXAMPLES / "harbour-ferries"


@pytest.fixture(scope="module")
def tables() -> Iterator[duckdb.DuckDBPyConnection]:
    connection = duckdb.connect()
    for name, file in (("outages", "outages-2025.csv"), ("vessels", "vessel-register.csv")):
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM read_csv('{FOLDER / file}')")
    # calamine types the path as a bare PathLike
    book = CalamineWorkbook.from_path(str(FOLDER / "costs-2025.xlsx"))  # pyright: ignore[reportUnknownMemberType]
    for name in book.sheet_names:
        heading, *rows = book.get_sheet_by_name(name).to_python()
        columns = [str(column) for column in heading]
        types = [
            f"{column} {'VARCHAR' if isinstance(value, str) else 'DOUBLE'}"
            for column, value in zip(columns, rows[0], strict=True)
        ]
        connection.execute(f"CREATE TABLE {name} ({', '.join(types)})")
        connection.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns))})", rows)
    yield connection
    connection.close()


def text_of(name: str) -> str:
    """Read a document as one line of single-spaced text."""
    if name.endswith(".pdf"):
        with pypdfium2.PdfDocument(FOLDER / name) as document:
            text = "\n".join(page.get_textpage().get_text_range() for page in document)
    else:
        text = (FOLDER / name).read_text(encoding="utf-8")
    return " ".join(text.split())


def test_the_published_answers_are_what_the_tables_say(tables: duckdb.DuckDBPyConnection) -> None:
    """Each SQL query of the examples' README gives exactly the table that is printed below it."""
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    pairs = re.findall(r"```sql\n(.*?)\n```\n\n\|[^\n]*\n\|[-|]*\n((?:\|[^\n]*\n)+)", readme, re.DOTALL)

    answers = [[tuple(str(value) for value in row) for row in tables.execute(sql).fetchall()] for sql, _ in pairs]

    printed = [[tuple(c.strip() for c in line.strip("|").split("|")) for line in t.splitlines()] for _, t in pairs]
    assert len(pairs) == 2
    assert answers == printed


def test_the_published_quotations_are_in_the_manual() -> None:
    """The words that the README says the manual has on page 2 are there."""
    readme = " ".join((EXAMPLES / "README.md").read_text(encoding="utf-8").replace("\n> ", " ").split())
    quotation = re.search(r"(To prevent engine faults.*?alarm\.)", readme)
    shorter = re.search(r'lost vane "(.*?)"', readme)

    with pypdfium2.PdfDocument(FOLDER / "engine-maintenance-manual.pdf") as document:
        page = " ".join(document[1].get_textpage().get_text_range().split())

    assert quotation is not None
    assert shorter is not None
    assert quotation[1] in page
    assert shorter[1] in page


_SUM = "SELECT sum(minutes_lost)::BIGINT FROM outages WHERE"
_TURNSTONE = "vessel = 'Turnstone' AND cause = 'engine fault'"


def test_documents_quote_the_tables(tables: duckdb.DuckDBPyConnection) -> None:
    """Every figure in the README, the minutes and the bulletin follows from the tables."""
    cases = [
        ("../README.md", "SELECT sum(passengers_affected)::BIGINT FROM outages WHERE cause = 'fog'", "| {:,} |"),
        (
            "../README.md",
            "SELECT sum(refunds_paid_eur) FILTER (route = 'Island'), sum(refunds_paid_eur) FROM refunds",
            "Island, €{:,.2f} of €{:,.2f}",
        ),
        ("../README.md", f"{_SUM} vessel = 'Guillemot'", "over all causes, {:,},"),
        (
            "minutes-board-2025-09.md",
            """SELECT count(*), sum(minutes_lost)::BIGINT, sum(sailings_cancelled)::BIGINT,
            sum(passengers_affected)::BIGINT FROM outages WHERE date < '2025-09-01'""",
            "{} losses of service by 31 August: {:,} minutes, {} sailings cancelled, {:,} passengers affected",
        ),
        (
            "minutes-board-2025-09.md",
            "SELECT sum(repair_cost_eur) FROM repairs WHERE month < '2025-09'",
            "repairs of €{:,.0f} by 31 August",
        ),
        (
            "minutes-board-2025-09.md",
            "SELECT sum(refunds_paid_eur) FROM refunds WHERE month < '2025-09'",
            "came to €{:,.2f}",
        ),
        (
            "minutes-board-2025-09.md",
            "SELECT sum(repair_cost_eur) FROM repairs WHERE month < '2025-09' AND vessel = 'Turnstone'",
            "its repairs had cost €{:,.0f}",
        ),
        (
            "minutes-board-2025-09.md",
            f"{_SUM} {_TURNSTONE} AND date < '2025-09-01' HAVING count(*) = 7",
            "lost {:,} minutes in seven engine faults",
        ),
        (
            "safety-bulletin-2025-04.md",
            f"{_SUM} {_TURNSTONE} AND date BETWEEN '2025-03-14' AND '2025-03-16'",
            "Turnstone lost {:,} minutes of service from 14 to 16 March",
        ),
    ]
    for document, sql, quoted in cases:
        figures = tables.execute(sql).fetchone()
        assert figures is not None
        assert quoted.format(*figures) in text_of(document)
