"""How tables as people write them become tables that SQL can query."""

import csv
import io
from pathlib import Path

import duckdb

from activities.documents.artifacts import ArtifactStore
from activities.documents.catalog import Table
from activities.documents.library import DocumentLibrary, OpenLibrary
from activities.documents.sql_names import sql_name


async def _open(tmp_path: Path, *contents: str | bytes) -> OpenLibrary:
    """Open a table for each of these contents; one process reads them all."""
    for number, content in enumerate(contents):
        (tmp_path / f"t{number}.csv").write_bytes(content.encode() if isinstance(content, str) else content)
    library = DocumentLibrary(ArtifactStore(tmp_path / "artifacts"), tmp_path / "index", (tmp_path,))
    return await library.open(tuple(f"file:{tmp_path}/t{number}.csv" for number in range(len(contents))))


def _types(table: Table) -> dict[str, str]:
    return {column.name: column.type for column in table.columns}


def _rows(opened: OpenLibrary) -> list[list[tuple[object, ...]]]:
    """Read the rows of each table."""
    assert opened.database is not None
    with duckdb.connect(opened.database, read_only=True) as connection:
        return [connection.execute(f"SELECT * FROM {table.name}").fetchall() for table in opened.catalog.tables]


async def test_comma_semicolon_tab_and_pipe_delimiters_are_detected(tmp_path: Path) -> None:
    """The delimiter that a spreadsheet writes depends on the user's country."""
    delimiters, texts = (",", ";", "\t", "|"), list[str]()
    for delimiter in delimiters:
        rows = [["name", "count", "note"], ["Ann", "3", f"with{delimiter}inside"], ["Bob", "4", 'a "quoted" word']]
        csv.writer(text := io.StringIO(), delimiter=delimiter, lineterminator="\n").writerows(rows)
        texts.append(text.getvalue())

    opened = await _open(tmp_path, *texts)

    types = {"name": "VARCHAR", "count": "BIGINT", "note": "VARCHAR"}
    assert [_types(table) for table in opened.catalog.tables] == [types] * len(texts)
    assert _rows(opened) == [
        [("Ann", 3, f"with{delimiter}inside"), ("Bob", 4, 'a "quoted" word')] for delimiter in delimiters
    ]


async def test_amounts_become_numbers_and_codes_stay_text(tmp_path: Path) -> None:
    """The first line names the columns, unless it is a row of numbers."""
    tables: list[tuple[str | bytes, dict[str, str], list[tuple[object, ...]]]] = [
        (
            'a,b,c\n"€1,200.50",$3,(40)\n"€2",$-5,"1,000"\n',
            {"a": "DOUBLE", "b": "DOUBLE", "c": "DOUBLE"},
            [(1200.5, 3.0, -40.0), (2.0, -5.0, 1000.0)],
        ),
        (
            "zip,phone,share\n01067,+49 30 1,5%\n10115,030-22,7%\n",
            {"zip": "VARCHAR", "phone": "VARCHAR", "share": "VARCHAR"},
            [("01067", "+49 30 1", "5%"), ("10115", "030-22", "7%")],
        ),
        ("name,city\nAnn,Oslo\n", {"name": "VARCHAR", "city": "VARCHAR"}, [("Ann", "Oslo")]),
        ("1.5,2.5\n3.5,4.5\n", {"column0": "DOUBLE", "column1": "DOUBLE"}, [(1.5, 2.5), (3.5, 4.5)]),
        (
            "stadt,größe\nMünchen,1\nKöln,2\n".encode("cp1252"),
            {"stadt": "VARCHAR", "grosse": "BIGINT"},
            [("München", 1), ("Köln", 2)],
        ),
        (
            "club;members;fee\nA;1'240;CHF 1’250.50\nB;86;CHF 60.00\n",
            {"club": "VARCHAR", "members": "DOUBLE", "fee": "DOUBLE"},
            [("A", 1240.0, 1250.5), ("B", 86.0, 60.0)],
        ),
    ]
    opened = await _open(tmp_path, *(content for content, _, _ in tables))

    read = [*zip(map(_types, opened.catalog.tables), _rows(opened), strict=True)]
    assert read == [(types, rows) for _, types, rows in tables]


async def test_ragged_lines_are_kept(tmp_path: Path) -> None:
    """A missing cell becomes NULL, since a table without the row would give wrong sums."""
    opened = await _open(tmp_path, "a,b,c\n1,2,3\n4,5\n6,7,8\n")

    assert [tuple(map(str, row)) for row in _rows(opened)[0]] == [("1", "2", "3"), ("4", "5", "None"), ("6", "7", "8")]


async def test_column_examples_are_ordered_by_frequency(tmp_path: Path) -> None:
    """At most twenty examples are listed, with the number of distinct values."""
    values = ["often"] * 5 + ["twice"] * 2 + [f"v{number:02}" for number in range(30)]

    opened = await _open(tmp_path, "a,b\n" + "".join(f"{value},1\n" for value in values))

    column = opened.catalog.tables[0].columns[0]
    assert (column.examples[:3], len(column.examples), column.distinct) == (("often", "twice", "v00"), 20, 32)


def test_table_and_column_names_need_no_quotes() -> None:
    """No keyword or syntax of DuckDB is used as a name."""
    with duckdb.connect() as connection:
        reserved = "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category <> 'unreserved'"
        keywords = [keyword for (keyword,) in connection.execute(reserved).fetchall()]
        for keyword in [*keywords, "2024", "", "Größe (m²)", "a" * 100, "数量", "__x__", "a.b"]:
            name = sql_name(keyword, set(), "column")
            connection.execute(f"CREATE OR REPLACE TABLE {name} ({name} INTEGER)")
            connection.execute(f"SELECT {name}, {name}.{name} FROM {name} GROUP BY {name}")


def test_names_are_unique() -> None:
    """Columns with the same title are numbered."""
    taken: set[str] = set()

    assert [sql_name(title, taken, "column") for title in ("A b", "a-b", "a_b_2")] == ["a_b", "a_b_2", "a_b_2_2"]


async def test_currency_of_amounts_is_added_to_the_column_title(tmp_path: Path) -> None:
    """It is omitted if the title has it already; mixed currencies get their own column."""
    opened = await _open(tmp_path, "fee;cost chf;price\n9,50 €;CHF 2;3 €\n8,25 €;CHF 3;4 $\n")

    titles = [column.title for column in opened.catalog.tables[0].columns]
    assert titles == ["fee (€)", "cost chf", "price", "price currency"]
