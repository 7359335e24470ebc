"""The example documents are right about each other, and the types of the TypeScript example about the contracts."""

import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pypdfium2
import pytest
from python_calamine import CalamineWorkbook

from chargehand import contracts
from chargehand.contracts import Contract, TypedByPeople

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


def test_the_readme_answers_match_the_example_tables(tables: duckdb.DuckDBPyConnection) -> None:
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    pairs = re.findall(r"```sql\n(.*?)\n```\n\n\|[^\n]*\n\|[-|]*\n((?:\|[^\n]*\n)+)", readme, re.DOTALL)
    answers = [[tuple(str(value) for value in row) for row in tables.execute(sql).fetchall()] for sql, _ in pairs]

    printed = [[tuple(c.strip() for c in line.strip("|").split("|")) for line in t.splitlines()] for _, t in pairs]
    assert len(pairs) == 2
    assert answers == printed


def test_the_readme_quotations_are_in_the_example_manual() -> None:
    readme = " ".join((EXAMPLES / "README.md").read_text(encoding="utf-8").replace("\n> ", " ").split())
    quotation = re.search(r"(To prevent engine faults.*?alarm\.)", readme)
    shorter = re.search(r'lost vane "(.*?)"', readme)
    with pypdfium2.PdfDocument(FOLDER / "engine-maintenance-manual.pdf") as document:
        page = " ".join(document[1].get_textpage().get_text_range().split())

    assert quotation is not None
    assert shorter is not None
    assert quotation[1] in page
    assert shorter[1] in page


def test_the_typescript_types_match_the_contracts() -> None:
    """Each field exists in the contract; in what is sent, exactly the fields with defaults are optional."""
    text = (EXAMPLES / "typescript" / "src" / "messages.mts").read_text(encoding="utf-8")
    interfaces: dict[str, str] = dict(re.findall(r"export interface (\w+) \{\n(.*?)\n\}", text, re.DOTALL))
    for name in sorted(interfaces.keys() - {"Updates"}):  # the table of messages, not a contract
        fields: dict[str, str] = dict(re.findall(r"^  (\w+)(\??): ", interfaces[name], re.MULTILINE))
        message = getattr(contracts, name)
        assert issubclass(message, Contract)
        assert fields.keys() <= message.model_fields.keys()
        if issubclass(message, TypedByPeople):
            optional = {field for field in fields if not message.model_fields[field].is_required()}
            assert {field for field, mark in fields.items() if mark} == optional
