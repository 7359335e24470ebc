"""What agents get drawn of a session's tables."""

import asyncio
import io
import re
import tempfile
import time

import pytest
from PIL import Image
from pydantic import JsonValue

from activities.contracts.tool import OUTPUT_CAP_CHARACTERS, ToolAnswer
from chargehand.contracts import Artifact
from chargehand_plugins.charts.tool import DrawChart
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


async def test_a_chart_is_a_file_and_its_rows_are_evidence(harness: Harness) -> None:
    """The user gets a picture; the agent gets its name and the numbers in it, to cite as those of any query."""
    answer = await harness.draw(title="Revenue by  region, $")

    (made,) = answer.artifacts
    assert (made.name, made.media_type, made.title) == ("revenue-by-region.png", "image/png", "Revenue by region, $")
    assert answer.output == {"row_count": 2, "kept_for_the_user": ["revenue-by-region.png"]}
    assert answer.sources[0].quote == "region | revenue | units\nNorth | 4200.1 | 8\nSouth | 2000.2 | 4"
    content = content_of(harness, made)
    assert (made.bytes, Image.open(io.BytesIO(content)).size) == (len(content), (960, 540))


@pytest.mark.slow
async def test_bars_are_as_high_as_their_numbers(harness: Harness) -> None:
    """The picture shows the numbers: 300 is three times as much colour as 100."""
    answer = await harness.draw(sql="SELECT 'a' AS n, 300 AS v UNION ALL SELECT 'b', 100 ORDER BY n", x="n", y=["v"])

    picture = Image.open(io.BytesIO(content_of(harness, answer.artifacts[0]))).convert("RGB")
    width, height = picture.size
    blue = [
        sum(
            picture.getpixel((x, y)) == (0, 0x72, 0xB2) for x in range(start, start + width // 2) for y in range(height)
        )
        for start in (0, width // 2)
    ]
    assert blue[0] / blue[1] == pytest.approx(3, rel=0.05)


@pytest.mark.slow
async def test_every_kind_draws(harness: Harness) -> None:
    """Names, dates, times and numbers along the axis; gaps and decimals up; one name as well as a list of them."""
    charts: list[tuple[str, str, str, JsonValue]] = [
        ("bar", "SELECT region, revenue, 1.50::DECIMAL(5, 2) AS d FROM sales", "region", ["revenue", "d"]),
        ("pie", BY_REGION, "region", "units"),
        ("line", "SELECT day, CASE WHEN units = 4 THEN NULL ELSE units END AS u FROM sales", "day", ["u"]),
        ("line", "SELECT day::TIMESTAMP AS t, units FROM sales ORDER BY t", "t", ["units"]),
        ("scatter", "SELECT range AS a, sin(range) AS b FROM range(5000)", "a", ["b"]),
    ]
    answers = await asyncio.gather(
        *(harness.draw(kind=kind, sql=sql, x=x, y=y, form="svg") for kind, sql, x, y in charts)
    )

    assert [answer.output.get("error") for answer in answers] == [None] * 5
    assert [made.media_type for answer in answers for made in answer.artifacts] == ["image/svg+xml"] * 5
    assert max(len(answer.model_dump_json()) for answer in answers) <= OUTPUT_CAP_CHARACTERS


@pytest.mark.slow
async def test_letters_without_a_form_are_owned_up_to(harness: Harness) -> None:
    """Boxes in place of letters are no surprise to the user, if the agent says so."""
    answer = await harness.draw(title="売上")
    again = await harness.draw(title="売上")

    assert answer == again  # an attempt that is made again keeps no second file
    assert answer.output["letters"] == "Some letters have no form in the chart's font and are shown as boxes."


async def test_what_cannot_be_asked_is_named(harness: Harness) -> None:
    """An agent that errs is told which argument is wrong; no process is started for it."""
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


async def test_what_cannot_be_drawn_is_explained(harness: Harness) -> None:
    """The statement is as locked down as any, and the agent is told the tables that there are."""
    sixty_one = "SELECT 'n' || range AS region, range AS revenue FROM range(61)"
    wrong: list[tuple[dict[str, JsonValue], str]] = [
        ({"x": "country"}, "must give one column 'country'; it gives region, revenue, units"),
        ({"y": ["region"]}, "'region' must be a column of numbers; it has 'North'"),
        ({"sql": "SELECT region, revenue FROM sales WHERE FALSE"}, "gives no rows"),
        ({"sql": sixty_one}, "shows 60 rows at most, and there are 61"),
        ({"kind": "pie", "sql": "SELECT 'a' AS region, -1 AS revenue"}, "no negative and no missing numbers"),
        ({"kind": "pie", "sql": "SELECT 'a' AS region, 0 AS revenue"}, "All numbers are 0"),
        ({"sql": "DROP TABLE sales"}, "Only SELECT is allowed, not DROP"),
        ({"sql": "SELECT * FROM read_text('/etc/passwd')"}, "disabled"),
        ({"sql": "SELECT region, sum(revenues) AS revenue FROM sales GROUP BY region"}, "revenues"),
        ({"sql": "SELECT region, repeat('x', 2000000000) AS revenue FROM sales"}, "more memory than it may use"),
    ]
    for arguments, says in wrong:
        answer = await harness.draw(**arguments)  # pyright: ignore[reportArgumentType]
        error = str(answer.output["error"])
        assert says in error
        assert error.endswith("The tables are: sales(day DATE, region VARCHAR, units BIGINT, revenue DOUBLE)")
        assert answer.artifacts == ()


@pytest.mark.slow
async def test_an_endless_chart_is_ended(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """At its time limit, and nothing of it stays, not even its folder."""
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    started = time.monotonic()

    answer = await harness.draw(
        sql="SELECT 'a' AS region, count(*) AS revenue FROM range(1000000000000) a", timeout_seconds=0.5
    )

    assert "took longer than 0.5 s" in str(answer.output["error"])
    assert time.monotonic() - started <= 3.0
    assert list(folder.rglob("*")) == []
