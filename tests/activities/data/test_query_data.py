"""What agents get from SQL over a session's tables, and what they cannot get."""

import asyncio
import hashlib
import resource
import time
from pathlib import Path

import pytest
from pydantic import JsonValue
from sales_harness import Harness

from activities.contracts.tool import OUTPUT_CAP_CHARACTERS, ToolAnswer
from chargehand.contracts import Source
from tests.child_processes import children
from tests.parameters import first_fast


@pytest.fixture(scope="module")
async def harness(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    made = Harness(tmp_path_factory.mktemp("harness"))
    secret = made.folder / "secret.txt"
    secret.write_text("canary\n")
    (made.folder / "link.csv").symlink_to(secret)
    await made.ask("SELECT 1")  # the library has now written everything that it ever writes
    return made


async def test_a_query_returns_its_rows_as_a_quotation(harness: Harness) -> None:
    """The rows appear once, as text, under a name that depends only on the statement."""
    sql = "SELECT region, sum(revenue) AS total FROM sales GROUP BY region ORDER BY total DESC"

    answer = await harness.ask(sql)

    ref, quote = f"sql:{hashlib.sha256(sql.encode()).hexdigest()[:8]}", "region | total\nNorth | 4200.1\nSouth | 2000.2"
    source = Source(ref=ref, title=sql, quote=quote, about="sales.csv: sum of revenue by region")
    assert answer == ToolAnswer(output={"row_count": 2}, sources=(source,))


_LONG = """SELECT count(*) FROM Sales s JOIN sales t USING (region) WHERE lower(s.region) IN ('north')
    AND s.day BETWEEN DATE '2026-01-01' AND DATE '2026-12-31' AND (s.revenue > 5 OR s.revenue IS NULL)"""


@pytest.mark.parametrize(
    ("sql", "about"),
    [
        ("SELECT region, sum(revenue) AS total FROM sales GROUP BY region", "sum of revenue by region"),
        (_LONG, "number of rows, region = north, 2026, revenue > 5 or revenue is empty"),
        ("SELECT region FROM sales WHERE region IN ('a', 'b', 'c', 'd')", "region, region = a, b, c or 1 more"),
        ("SELECT region, sum(revenue) FROM sales GROUP BY 1 ORDER BY 2", "sum of revenue by region"),
        ("SELECT lower(region) AS r, count(*) FROM sales GROUP BY r", "number of rows by region"),
        ("SELECT max(day) FROM sales WHERE units >= 3 OR day < '2026'", "largest day, units ≥ 3 or day < 2026"),
        ("SELECT region, any_value(units), count(*) AS n FROM sales WHERE true GROUP BY region", "units by region"),
        ("SELECT stddev(units), count(*) FROM sales", "stddev(units)"),
        ("SELECT region || '!', 1, arg_max(day, units) FROM sales GROUP BY region", "arg_max(day, units) by region"),
        ("SELECT 1250 * 1.19", ""),
        ("WITH t AS (SELECT 1) SELECT * FROM t UNION SELECT 2", ""),
    ],
)
async def test_a_query_is_described_in_words(harness: Harness, sql: str, about: str) -> None:
    """The description comes from the parsed statement; unsupported statements have none."""
    assert (await harness.ask(sql)).sources[0].about == (about and f"sales.csv: {about}")


_PERIOD = "SELECT sum(units) FROM sales WHERE strftime(day, '%Y-%m') IN ({})"


@pytest.mark.parametrize(
    ("sql", "named"),
    first_fast(
        [
            ("SELECT region, sum(units) FROM sales GROUP BY region{}", " HAVING sum(units) > 10"),
            ("SELECT sum(units) FROM sales{}", " WHERE units NOT IN (1, 2)"),
            ("SELECT sum(units) FROM sales GROUP BY {}", "GROUPING SETS ((region), (day))"),
            (_PERIOD.format("'2025-11', '2025-12', '2026-01'{}"), ", '2026-03'"),
            ("SELECT sum(units){} FROM sales", " FILTER (WHERE region = 'north')"),
            ("SELECT count({} region) FROM sales", "DISTINCT"),
            ("SELECT {} region FROM sales", "DISTINCT"),
            ("SELECT region FROM sales ORDER BY units{}", " LIMIT 1"),
            ("SELECT region FROM sales ORDER BY units{}", " OFFSET 1"),
            ("SELECT sum(units) FROM sales{}", " USING SAMPLE 10%"),
            ("SELECT sum(units) FROM sales{}", " QUALIFY row_number() OVER () = 1"),
            ("SELECT sum(units) FROM {}", "(SELECT * FROM sales WHERE units > 3)"),
            (_PERIOD.format("'2026-01', '2026-02'{}, '2026-04'"), ", '2026-03'"),
        ],
        4,
    ),
)
async def test_every_clause_that_changes_the_result_changes_the_description(
    harness: Harness, sql: str, named: str
) -> None:
    """With the clause, the description differs from the one without it, or is empty."""
    plain = "sales" if sql.endswith("FROM {}") else "region" if sql.endswith("BY {}") else ""
    without, with_it = [(await harness.ask(sql.format(part))).sources[0].about for part in (plain, named)]

    assert without
    assert with_it != without


async def test_values_are_formatted_plainly(harness: Harness) -> None:
    """Dates are ISO, decimals plain numbers, missing values NULL, and sums have no floating-point noise."""
    answer = await harness.ask(
        "SELECT day, 1.50::DECIMAL(5, 2), TIMESTAMP '2026-01-02 03:04:05', NULL, TRUE, 0.1::DOUBLE + 0.2::DOUBLE,"
        " 'NaN'::DOUBLE, [1, 2], 'ab'::BLOB, 7::HUGEINT FROM sales LIMIT 1"
    )

    row = "2026-01-01 | 1.5 | 2026-01-02 03:04:05 | NULL | True | 0.3 | nan | [1, 2] | 6162 | 7"
    assert answer.sources[0].quote.split("\n")[1:] == [row]


async def test_rows_are_capped_and_counted(harness: Harness) -> None:
    """Fifty rows are returned at most, with the total number of rows."""
    answer = await harness.ask("SELECT range FROM range(12345)")

    assert answer.sources[0].quote.split("\n") == ["range", *map(str, range(50))]
    assert answer.output == {
        "row_count": 12345,
        "note": "These are the first 50 of 12,345 rows. Aggregate, filter, or use OFFSET.",
    }


async def test_wide_rows_keep_within_the_cap(harness: Harness) -> None:
    """The quotation has fewer rows, so that the answer fits the cap of a tool call."""
    answer = await harness.ask("SELECT repeat('wide ', 80) AS a, repeat('\"', 100) AS b FROM range(50)")

    assert 3 < answer.sources[0].quote.count("\n") < 50
    assert len(answer.sources[0].quote) + len(str(answer.output)) <= OUTPUT_CAP_CHARACTERS


FORBIDDEN = [
    "SELECT * FROM read_text('{secret}')", "SELECT * FROM read_csv('{secret}')", "SELECT * FROM '{secret}'",
    "SELECT * FROM glob('{folder}/*')", "SELECT * FROM read_blob('{folder}/*')", "COPY sales TO '{folder}/out.csv'",
    "COPY (SELECT 1) TO '{folder}/out.csv'", "EXPORT DATABASE '{folder}/out'", "ATTACH '{folder}/out.duckdb'",
    "INSTALL httpfs", "LOAD httpfs", "SET enable_external_access = true", "SET memory_limit = '100GB'",
    "RESET lock_configuration", "PRAGMA version", "CALL pragma_version()", "CREATE TABLE x AS SELECT 1",
    "DROP TABLE sales", "INSERT INTO sales VALUES (NULL, NULL, NULL, NULL)", "UPDATE sales SET units = 0",
    "DELETE FROM sales", "SELECT 1; DROP TABLE sales", "SELECT 1; SELECT 2", "SELECT * FROM _CONFIG",
    "SELECT * FROM question", "SELECT getenv('HOME')", "SELECT * FROM read_json('{secret}')",
    "SELECT * FROM read_parquet('{secret}')", "SELECT * FROM read_csv('{folder}/../{name}/secret.txt')",
    "SELECT * FROM read_csv('{folder}/link.csv')", "SELECT * FROM read_csv('/proc/self/environ')",
    "SELECT * FROM read_text('http://127.0.0.1:7233/')", "SELECT * FROM sniff_csv('{secret}')",
    "SELECT * FROM parquet_metadata('{secret}')", "SELECT * FROM duckdb_secrets() WHERE load_secret('{secret}')",
    "FROM '{secret}'", "FROM sales SELECT (SELECT content FROM read_text('{secret}'))",
    "WITH leak AS (SELECT * FROM read_text('{secret}')) SELECT * FROM leak",
    "CREATE TABLE x AS SELECT * FROM read_text('{secret}')",
    "CREATE MACRO leak() AS TABLE SELECT * FROM read_text('{secret}')", "PREPARE x AS SELECT 1", "EXECUTE x",
    "EXPLAIN ANALYZE SELECT * FROM read_text('{secret}')", "CHECKPOINT", "VACUUM", "BEGIN TRANSACTION",
    "DETACH sales", "USE memory", "CREATE SECRET (TYPE S3)", "FORCE INSTALL httpfs FROM '{folder}'",
    "LOAD '{folder}/evil.duckdb_extension'", "IMPORT DATABASE '{folder}'", "SET temp_directory = '{folder}'",
    "PRAGMA enable_profiling", "SELECT set_config('enable_external_access', 'true')",
    "MERGE INTO sales USING sales AS s ON TRUE WHEN MATCHED THEN DELETE", "ALTER TABLE sales ADD COLUMN x INT",
    "SELECT 1;\n;SELECT 2", "SELEC units FROM sales", "-- nothing",
]  # fmt: skip


@pytest.mark.parametrize(
    "statements", first_fast([FORBIDDEN[::6], FORBIDDEN], mark=pytest.mark.nightly), ids=["some", "all"]
)
async def test_only_one_select_over_the_tables_runs(harness: Harness, statements: list[str]) -> None:
    """Files, settings, changes and Python variables are refused, and the answer lists the tables."""
    before = _files(harness.folder)
    places = {"secret": harness.folder / "secret.txt", "folder": harness.folder, "name": harness.folder.name}

    # Two at a time, since each runs in its own process.
    pool = asyncio.Semaphore(2)

    async def ask(sql: str) -> ToolAnswer:
        async with pool:
            return await harness.ask(sql.format(**places))

    answers = await asyncio.gather(*map(ask, statements))

    tables = "The tables are: sales(day DATE, region VARCHAR, units BIGINT, revenue DOUBLE)"
    told = [
        (each.ok, "canary" in each.model_dump_json(), str(each.output["error"]).endswith(tables)) for each in answers
    ]
    assert [sql for sql, each in zip(statements, told, strict=True) if each != (False, False, True)] == []
    assert _files(harness.folder) == before


async def test_values_that_differ_only_in_case_or_accents_are_suggested(harness: Harness) -> None:
    """Suggestions appear when no rows are found, or a sum over none, and never when rows are found."""
    hints: dict[str, JsonValue] = {
        "SELECT * FROM sales WHERE region = 'NORTH'": ["region 'North' instead of 'NORTH'"],
        "SELECT sum(units), count(*) FROM sales WHERE region = ' nörth'": ["region 'North' instead of ' nörth'"],
        "SELECT day FROM sales WHERE region LIKE 'nor%'": ["region 'North' instead of 'nor%'"],
        "SELECT day FROM sales WHERE region = 'West'": None,
        "SELECT day FROM sales WHERE region = 'North' AND units = 99": None,
        "SELECT units FROM sales WHERE region = 'North' AND 'SOUTH' <> 'south'": None,
    }

    assert {sql: (await harness.ask(sql)).output.get("did_you_mean") for sql in hints} == hints


async def test_invalid_queries_are_explained(harness: Harness) -> None:
    """The answer names the wrong argument, quotes DuckDB's message, or says that there are no tables."""
    for sql in ("", "  ", None, 3, "SELECT 1 -- " + "x" * 10_000):
        answer = await harness.ask(sql)
        assert (answer.ok, "`sql`" in str(answer.output["error"])) == (False, True)
    wrong = str((await harness.ask("SELECT unit FROM sales")).output["error"])
    assert ("unit" in wrong, "LINE 1" in wrong) == (True, False)
    assert "no tables" in str((await harness.ask("SELECT 1", documents=False)).output["error"])


async def test_a_query_that_exceeds_its_memory_is_stopped(harness: Harness) -> None:
    """Its process ends or is denied memory below the limit, and the worker is not affected."""
    for sql in (
        "SELECT repeat('x', 2000000000)",
        "SELECT length(repeat('x', 2000000000)) + length(repeat('y', 2000000000))",
        "SELECT list(range) FROM range(100000000)",
        "SELECT string_agg(repeat('x', 10000), '') FROM range(1000000)",
    ):
        answer = await harness.ask(sql)
        assert "more memory than it may use" in str(answer.output["error"]), sql

    # The maximum over all children so far, including the table loader with its 2 GB.
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 2 << 20


@pytest.mark.slow
async def test_an_endless_query_is_killed(harness: Harness) -> None:
    """It ends at its time limit, whatever it is doing, and its process is gone afterwards."""
    for sql in (
        "SELECT count(*) FROM range(1000000000000) a",
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t",
        "SELECT count(*) FROM range(100000000) WHERE regexp_matches(repeat('a', 1000) || range, '(a|aa)*b')",
    ):
        begun = time.monotonic()
        answer = await harness.ask(sql, timeout_seconds=0.5)
        assert time.monotonic() - begun <= 10
        assert "took longer than 0.5 s" in str(answer.output["error"])
        assert children("query_process") == set()


async def test_a_cancelled_query_is_killed(harness: Harness) -> None:
    """A session that stops does not leave its query running."""
    asking = asyncio.ensure_future(harness.ask("SELECT count(*) FROM range(1000000000000) a"))
    while not asking.done() and not await asyncio.to_thread(children, "query_process"):
        pass

    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking

    assert children("query_process") == set()


async def test_queries_run_side_by_side(harness: Harness) -> None:
    """Agents that ask the same tables at once do not lock each other out."""
    answers = await asyncio.gather(*(harness.ask(f"SELECT count(*) + {number} FROM sales") for number in range(4)))

    assert [answer.sources[0].quote.split("\n")[1] for answer in answers] == ["3", "4", "5", "6"]


def _files(folder: Path) -> dict[str, bytes]:
    """Everything in a folder and below it."""
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
