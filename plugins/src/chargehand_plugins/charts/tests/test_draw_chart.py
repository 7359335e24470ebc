"""Charts that agents can have drawn from a session's tables."""

import base64
import io
import os
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from pydantic import JsonValue

from activities.contracts.tool import ToolAnswer
from chargehand.contracts import Artifact
from chargehand_plugins.charts import process
from chargehand_plugins.charts.tool import MOST_POINTS, DrawChart
from tests.activities.data.sales_harness import BY_REGION
from tests.activities.data.sales_harness import Harness as SalesHarness

_CHART: dict[str, JsonValue] = {
    "kind": "bar", "sql": BY_REGION, "x": "region", "y": ["revenue"], "title": "Revenue, $"
}  # fmt: skip


class Harness(SalesHarness):
    async def draw(
        self, *, timeout_seconds: float = 60.0, documents: bool = True, **arguments: JsonValue
    ) -> ToolAnswer:
        tool = DrawChart(self.library, self.store, timeout_seconds)
        return await tool.use(_CHART | arguments, self.context(documents=documents))


def content_of(harness: Harness, artifact: Artifact) -> bytes:
    digest = re.fullmatch(r"artifact:([0-9a-f]{64})/.+", artifact.uri)
    assert digest is not None
    return harness.store.read(digest[1])


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    return Harness(tmp_path_factory.mktemp("harness"))


async def test_a_chart_is_an_artifact_and_its_rows_are_a_source(harness: Harness) -> None:
    """The user gets the picture; the agent gets its name and the numbers, to cite like any query result."""
    answer = await harness.draw(title="Revenue by  region, $")

    (made,) = answer.artifacts
    assert (made.name, made.media_type, made.title) == ("revenue-by-region.png", "image/png", "Revenue by region, $")
    assert answer.output == {"row_count": 2, "kept_for_the_user": ["revenue-by-region.png"]}
    assert answer.sources[0].quote == "region | revenue | units\nNorth | 4200.1 | 8\nSouth | 2000.2 | 4"
    content = content_of(harness, made)
    assert (made.bytes, Image.open(io.BytesIO(content)).size) == (len(content), (960, 540))


@pytest.fixture
def draw(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Draw columns of a result in this process, as the child does after the statement."""
    monkeypatch.setattr(os, "environ", dict(os.environ))

    def drawn(columns: dict[str, Sequence[object]], **asked: object) -> dict[str, Any]:
        rows = [*zip(*columns.values(), strict=True)]
        selected = {"columns": [*columns], "rows": rows, "row_count": len(rows), "is_exact": True, "hints": []}
        monkeypatch.setattr(process, "select", lambda *_: selected)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
        x, *y = columns
        question = {"kind": "bar", "x": x, "y": y, "title": "", "form": "png", "folder": str(tmp_path)} | asked
        limits = {"most_rows": 50, "most_points": MOST_POINTS[str(question["kind"])]}
        return process.draw(question | limits | {"database": "", "sql": ""})

    return drawn


def test_bar_height_is_proportional_to_the_value(draw: Callable[..., dict[str, Any]]) -> None:
    """A bar for 300 has three times as many coloured pixels as one for 100."""
    image = draw({"n": ["a", "b"], "v": [300, 100]})["image"]

    picture = Image.open(io.BytesIO(base64.b64decode(image))).convert("RGB")
    width, height = picture.size
    halves = [range(width // 2), range(width // 2, width // 2 * 2)]
    blue = [sum(picture.getpixel((x, y)) == (0, 0x72, 0xB2) for x in half for y in range(height)) for half in halves]
    assert blue[0] / blue[1] == pytest.approx(3, rel=0.05)


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        ("bar", {"region": ["N", "S", "N"], "revenue": [1.5, 2, 3], "d": [Decimal("1.50")] * 3}),
        ("pie", {"region": ["N", "S"], "units": [8, 4]}),
        ("line", {"day": [date(2026, 1, day) for day in (1, 2, 3)], "u": [3, None, 5]}),
        ("line", {"t": [datetime(2026, 1, 1, hour, tzinfo=UTC) for hour in range(3)], "units": [3, 4, 5]}),
        ("scatter", {"a": range(5_000), "b": range(5_000)}),
    ],
)
def test_every_chart_kind_is_drawn(
    draw: Callable[..., dict[str, Any]], kind: str, columns: dict[str, Sequence[object]]
) -> None:
    """The axis takes names, dates, times or numbers, values may be missing, and at most 50 rows are returned."""
    first, again = (draw(columns, kind=kind, form="svg") for _ in range(2))

    assert b"</svg>" in base64.b64decode(first["image"])
    assert first == again  # a repeated attempt stores no second file
    assert (len(first["rows"]) <= 50, first["has_unknown_letters"]) == (True, False)


_ONE: Sequence[object] = ["a"]


@pytest.mark.parametrize(
    ("columns", "asked", "says"),
    [
        ({"region": _ONE, "v": [1]}, {"x": "country"}, "must give one column 'country'; it gives region, v"),
        ({"region": _ONE, "v": ["North"]}, {}, "'v' must be a column of numbers; it has 'North'"),
        ({"region": [], "v": []}, {}, "gives no rows"),
        ({"n": range(61), "v": range(61)}, {}, "shows 60 rows at most, and there are 61"),
        ({"region": _ONE, "v": [-1]}, {"kind": "pie"}, "no negative and no missing numbers"),
        ({"region": _ONE, "v": [0]}, {"kind": "pie"}, "All numbers are 0"),
    ],
)
def test_unusable_chart_data_is_explained(
    draw: Callable[..., dict[str, Any]], columns: dict[str, Sequence[object]], asked: dict[str, object], says: str
) -> None:
    """The error tells the agent what in its columns does not fit the chart."""
    assert says in draw(columns, **asked)["error"]


async def test_letters_missing_from_the_font_are_reported(harness: Harness) -> None:
    """The agent is told that they are shown as boxes, so it can tell the user."""
    answer = await harness.draw(title="売上")

    assert answer.output["letters"] == "Some letters have no form in the chart's font and are shown as boxes."


async def test_an_invalid_chart_argument_is_named(harness: Harness) -> None:
    """The error tells the agent which argument is wrong, and what it must be."""
    no_columns = "`x` must be the name of a column of the statement, and `y` a list of such names."
    no_numbers = "`y` must name at most 8 columns of numbers, and one for a pie."
    wrong: list[tuple[dict[str, JsonValue], str]] = [
        ({"kind": "radar"}, "`kind` must be one of bar, line, scatter, pie."),
        ({"form": "html"}, "`form` must be one of png, svg."),
        ({"x": ""}, no_columns),
        ({"y": []}, no_columns),
        ({"y": [7]}, no_columns),
        ({"kind": "pie", "y": ["revenue", "units"]}, no_numbers),
        ({"y": [f"c{number}" for number in range(9)]}, no_numbers),
        ({"title": 7}, "`title` must be a text."),
        ({"sql": ""}, "`sql` must be one SELECT statement of at most 10,000 characters."),
        ({"documents": False}, "This session has no tables: none of its documents is a CSV file or a workbook."),
    ]
    for arguments, says in wrong:
        answer = await harness.draw(**arguments)  # pyright: ignore[reportArgumentType]  # one of them is a flag of the harness
        assert answer == ToolAnswer(ok=False, output={"error": says})


async def test_chart_sql_is_restricted_like_any_query(harness: Harness) -> None:
    """It is read-only and memory-limited, and the error lists the available tables."""
    for sql, says in (
        ("DROP TABLE sales", "Only SELECT is allowed, not DROP"),
        ("SELECT region, repeat('x', 2000000000) AS revenue FROM sales", "more memory than it may use"),
    ):
        answer = await harness.draw(sql=sql)
        error = str(answer.output["error"])
        assert says in error
        assert error.endswith("The tables are: sales(day DATE, region VARCHAR, units BIGINT, revenue DOUBLE)")
        assert answer.artifacts == ()


@pytest.mark.slow
async def test_a_chart_over_its_time_limit_is_stopped(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Nothing of it remains, not even its temporary folder."""
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    started = time.monotonic()

    endless = "SELECT 'a' AS region, count(*) AS revenue FROM range(1000000000000) a"
    answer = await harness.draw(sql=endless, timeout_seconds=0.5)

    assert "took longer than 0.5 s" in str(answer.output["error"])
    assert time.monotonic() - started <= 10
    assert list(folder.rglob("*")) == []
