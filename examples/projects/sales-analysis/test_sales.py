"""The whole session with a scripted model: the SQL runs on the real table, and the output is checked by the schema."""

import asyncio
from pathlib import Path

import pytest
from sales import REQUEST, Sales

from chargehand_plugins.testing import Script, answer, run_session, subtask, use

FOLDER = Path(__file__).parent
SQL = "SELECT region, sum(revenue_eur) AS revenue FROM sales GROUP BY region ORDER BY revenue DESC"


def test_figures_come_as_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """The analyst gets the table's own sum; what the program gets is an instance of its model."""
    monkeypatch.chdir(FOLDER)
    script = (
        Script()
        .plan(subtask("T1", "analyst", "Add up the revenue of each region in the table of sales."))
        .work("Add up", use("query_data", sql=SQL), answer("North had 81,800 euros, south 48,400."))
        .output(
            {
                "regions": [{"name": "north", "revenue_eur": 81800}, {"name": "south", "revenue_eur": 48400}],
                "best": "north",
            }
        )
    )
    document = (FOLDER / "sales.csv").as_uri()
    request = REQUEST.model_copy(update={"documents": (document,), "output_schema": Sales.model_json_schema()})

    run = asyncio.run(run_session(request, script))

    assert "81800" in run.turns[-2].prompt
    assert Sales.model_validate(run.report.output).best == "north"
