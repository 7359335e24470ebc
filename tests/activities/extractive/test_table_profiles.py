"""What is in a table: its size, columns and extent, and columns that a question spells out."""

import pytest

from tests.activities.extractive.bakery import TABLES, deliveries, sales
from tests.activities.extractive.desk import Harness

WARRANTIES = "item,supplier,eow\noven,Hofer,2026-02-01\nmixer,Nordic,2027-05-31\n"


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    return Harness({**TABLES, "warranties": WARRANTIES}).open(tmp_path_factory.mktemp("books"))


@pytest.mark.parametrize(
    "question",
    ["What is in the sales table?", "What columns does the sales table have?", "Describe the sales table"],
)
async def test_a_table_is_profiled_when_asked_what_is_in_it(question: str, harness: Harness) -> None:
    """Rows are counted, amounts added up with their extremes, times spanned, and every column is described."""
    revenues = [sale.revenue for sale in sales()]

    answer = await harness.answer(question)

    claim = answer.findings[0].claim
    assert f"Rows in sales: {len(revenues)}," in claim
    assert f"total revenue: {sum(revenues):,.2f} EUR" in claim
    assert f"lowest revenue: {min(revenues):,.2f} EUR" in claim
    assert f"highest revenue: {max(revenues):,.0f} EUR" in claim
    assert f"first day: {min(sale.day for sale in sales())}" in claim
    products = {sale.product for sale in sales()}
    assert f"| product | varchar | {len(products)} | " in answer.content


async def test_only_the_table_that_is_named_is_profiled(harness: Harness) -> None:
    """One of four tables was asked about."""
    answer = await harness.answer("What is in the deliveries table?")

    assert len(answer.findings) == 1
    assert f"Rows in deliveries: {len(deliveries())}," in answer.findings[0].claim


async def test_a_column_called_by_initials_is_found_by_the_words(harness: Harness) -> None:
    """`end of warranty` is the column `eow`."""
    answer = await harness.answer("What is the end of warranty of the mixer?")

    assert "2027-05-31" in answer.findings[0].claim
