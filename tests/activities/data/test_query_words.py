"""What a query computes, in words for people."""

import duckdb
import pytest

from activities.tools.data.query_words import query_words

_SUMS = (
    "SELECT vessel, sum(minutes) AS lost FROM outages "
    "WHERE cause = 'fault' AND day BETWEEN '2025-01-01' AND '2025-12-31'"
)
_SUMMED = "sum of minutes by vessel, cause = fault, 2025"


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        *((f"{_SUMS} GROUP BY {by} ORDER BY 2 DESC", _SUMMED) for by in ("vessel", "1", "outages.vessel")),
        ("SELECT lower(vessel) AS v, count(*) FROM outages GROUP BY v", "number of rows by vessel"),
        ("SELECT max(day) FROM outages WHERE minutes >= 30 OR vessel IN ('a', 'b')",
         "largest day, minutes ≥ 30 or vessel = a or b"),
        ("SELECT vessel, day FROM outages", "vessel, day"),
        ("WITH x AS (SELECT 1) SELECT * FROM x", ""),
    ],
)  # fmt: skip
def test_a_query_is_named_by_what_it_computes(sql: str, words: str) -> None:
    """However its groups are written, by name or by position; what has no short words has none."""
    with duckdb.connect() as connection:
        assert query_words(connection, sql)[1] == words
