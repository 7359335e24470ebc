"""How tables as people write them become tables that SQL can ask."""

import csv
import io
from pathlib import Path

import duckdb
import pytest

from activities.documents.artifacts import ArtifactStore
from activities.documents.catalog import Table
from activities.documents.library import DocumentLibrary, OpenLibrary
from activities.documents.sql_names import sql_name


async def _open(tmp_path: Path, content: str | bytes, name: str = "t.csv") -> OpenLibrary:
    (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    library = DocumentLibrary(ArtifactStore(tmp_path / "artifacts"), tmp_path / "index", (tmp_path,))
    return await library.open((f"file:{tmp_path}/{name}",))


def _types(table: Table) -> dict[str, str]:
    return {column.name: column.type for column in table.columns}


def _rows(opened: OpenLibrary) -> list[tuple[object, ...]]:
    assert opened.database is not None
    with duckdb.connect(opened.database, read_only=True) as connection:
        return connection.execute(f"SELECT * FROM {opened.catalog.tables[0].name}").fetchall()


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
async def test_every_delimiter_is_understood(tmp_path: Path, delimiter: str) -> None:
    """What a spreadsheet writes depends on its country."""
    rows = [["name", "count", "note"], ["Ann", "3", f"with{delimiter}inside"], ["Bob", "4", 'a "quoted" word']]
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows(rows)

    opened = await _open(tmp_path, text.getvalue())

    assert _types(opened.catalog.tables[0]) == {"name": "VARCHAR", "count": "BIGINT", "note": "VARCHAR"}
    assert _rows(opened) == [("Ann", 3, f"with{delimiter}inside"), ("Bob", 4, 'a "quoted" word')]


async def test_amounts_become_numbers(tmp_path: Path) -> None:
    """Currency signs, thousands separators and accountants' brackets do not keep a sum from being summed."""
    opened = await _open(tmp_path, 'a,b,c\n"€1,200.50",$3,(40)\n"€2",$-5,"1,000"\n')

    assert _types(opened.catalog.tables[0]) == {"a": "DOUBLE", "b": "DOUBLE", "c": "DOUBLE"}
    assert _rows(opened) == [(1200.5, 3.0, -40.0), (2.0, -5.0, 1000.0)]


async def test_codes_stay_texts(tmp_path: Path) -> None:
    """Leading zeros, telephone numbers and percentages mean something as they are."""
    opened = await _open(tmp_path, "zip,phone,share\n01067,+49 30 1,5%\n10115,030-22,7%\n")

    assert set(_types(opened.catalog.tables[0]).values()) == {"VARCHAR"}


async def test_texts_alone_have_a_header_too(tmp_path: Path) -> None:
    """The first line names the columns even if all columns are words."""
    opened = await _open(tmp_path, "name,city\nAnn,Oslo\nBob,Rome\n")

    assert (_types(opened.catalog.tables[0]), opened.catalog.tables[0].rows) == (
        {"name": "VARCHAR", "city": "VARCHAR"},
        2,
    )


async def test_numbers_alone_have_no_header(tmp_path: Path) -> None:
    """No row of data is taken for names."""
    opened = await _open(tmp_path, "1.5,2.5\n3.5,4.5\n")

    assert _rows(opened) == [(1.5, 2.5), (3.5, 4.5)]


async def test_ragged_lines_cost_no_rows(tmp_path: Path) -> None:
    """A line with a missing cell is kept; half a table would give wrong sums."""
    opened = await _open(tmp_path, "a,b,c\n1,2,3\n4,5\n6,7,8\n")

    assert [tuple(map(str, row)) for row in _rows(opened)] == [("1", "2", "3"), ("4", "5", "None"), ("6", "7", "8")]


async def test_a_table_of_the_windows_code_page_is_read(tmp_path: Path) -> None:
    """Umlauts of an older spreadsheet arrive whole."""
    opened = await _open(tmp_path, "stadt,größe\nMünchen,1\nKöln,2\n".encode("cp1252"))

    assert _types(opened.catalog.tables[0]) == {"stadt": "VARCHAR", "grosse": "BIGINT"}
    assert [row[0] for row in _rows(opened)] == ["München", "Köln"]


async def test_frequent_values_come_first(tmp_path: Path) -> None:
    """Twenty at most, and how many there are."""
    values = ["often"] * 5 + ["twice"] * 2 + [f"v{number:02}" for number in range(30)]

    opened = await _open(tmp_path, "a,b\n" + "".join(f"{value},1\n" for value in values))

    column = opened.catalog.tables[0].columns[0]
    assert (column.examples[:3], len(column.examples), column.distinct) == (("often", "twice", "v00"), 20, 32)


def test_no_name_needs_quotes() -> None:
    """Whatever DuckDB takes for syntax is never the name of a table or column."""
    with duckdb.connect() as connection:
        keywords = [
            keyword
            for (keyword,) in connection.execute(
                "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category <> 'unreserved'"
            ).fetchall()
        ]
        for keyword in [*keywords, "2024", "", "Größe (m²)", "a" * 100, "数量", "__x__", "a.b"]:
            name = sql_name(keyword, set(), "column")
            connection.execute(f"CREATE OR REPLACE TABLE {name} ({name} INTEGER)")
            connection.execute(f"SELECT {name}, {name}.{name} FROM {name} GROUP BY {name}")


def test_names_are_unique() -> None:
    """Two columns of one title are told apart."""
    taken: set[str] = set()

    assert [sql_name(title, taken, "column") for title in ("A b", "a-b", "a_b_2")] == ["a_b", "a_b_2", "a_b_2_2"]
