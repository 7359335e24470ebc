"""Questions over tables: each is answered by real SQL, and the right answer is computed here in plain Python."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from statistics import mean, median

import pytest

from tests.activities.extractive.bakery import CITY, TABLES, Delivery, Sale, deliveries, sales
from tests.activities.extractive.desk import Harness


def number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"


def revenue(kept: Callable[[Sale], bool] = lambda _: True) -> str:
    return number(round(sum(sale.revenue for sale in sales() if kept(sale)), 2))


def pieces(kept: Callable[[Sale], bool]) -> int:
    return sum(sale.pieces for sale in sales() if kept(sale))


def count(kept: Callable[[Delivery], bool]) -> int:
    return sum(1 for delivery in deliveries() if kept(delivery))


def summed(pairs: Iterable[tuple[str, float]]) -> dict[str, float]:
    totals: dict[str, float] = defaultdict(float)
    for key, value in pairs:
        totals[key] += value
    return dict(totals)


def top(totals: dict[str, float], rank: int = 0) -> str:
    return sorted(totals, key=lambda key: (-totals[key], key))[rank]


BY_SHOP = summed((sale.shop, sale.revenue) for sale in sales())
BY_CITY = summed((CITY[sale.shop], sale.revenue) for sale in sales())
BY_PRODUCT = summed((sale.product, sale.pieces) for sale in sales())
BY_MONTH = summed((f"{sale.day:%Y-%m}", sale.revenue) for sale in sales())
STOLLEN = sum(sale.revenue for sale in sales() if sale.product == "stollen")
RYE_SHARE = {
    city: 100 * sum(s.revenue for s in sales() if s.product == "rye bread" and CITY[s.shop] == city) / total
    for city, total in BY_CITY.items()
}
LATE = summed((delivery.supplier, delivery.late) for delivery in deliveries())
LATE_BY_CITY = summed((CITY[delivery.shop], delivery.late) for delivery in deliveries())
DAMAGED = Counter(delivery.supplier for delivery in deliveries() if delivery.damaged)
LATEST = max(deliveries(), key=lambda delivery: delivery.ordered)

QUESTIONS: list[tuple[str, list[str]]] = [
    ("What was the total revenue?", [f"**Total revenue: {revenue()} EUR**"]),
    ("How much revenue did Market Square make in 2025?",
     [revenue(lambda s: s.shop == "Market Square" and s.day.year == 2025)]),
    ("What is the total revenue by shop?", [f"{shop} {number(total)} EUR" for shop, total in BY_SHOP.items()]),
    ("Which shop had the highest revenue?", [f"**{top(BY_SHOP)}**", number(BY_SHOP[top(BY_SHOP)])]),
    ("Which shop made the least revenue?", [f"**{top(BY_SHOP, -1)}**", number(BY_SHOP[top(BY_SHOP, -1)])]),
    ("Top 2 shops by revenue", [f"**{top(BY_SHOP)}**", f"**{top(BY_SHOP, 1)}**", "The 2 highest"]),
    ("How many croissants were sold in Q1 2025?",
     [str(pieces(lambda s: s.product == "croissant" and s.day.year == 2025 and s.day.month <= 3))]),
    ("What is the average revenue per product?",
     [f"{name} {number(round(mean(s.revenue for s in sales() if s.product == name), 2))} EUR" for name in BY_PRODUCT]),
    ("What is the median number of pieces?", [f"**Median pieces: {number(median(s.pieces for s in sales()))}**"]),
    ("Which month had the highest revenue in 2025?",
     [f"**{top({m: t for m, t in BY_MONTH.items() if m.startswith('2025')})}**"]),
    ("How much revenue did we make in July and August 2025?",
     [revenue(lambda s: s.day.year == 2025 and s.day.month in {7, 8})]),
    ("Revenue per quarter in 2025", [
        f"2025-Q{quarter + 1} {revenue(lambda s, q=quarter: (s.day.year, (s.day.month - 1) // 3) == (2025, q))} EUR"
        for quarter in range(4)
    ]),
    ("Total revenue since September 2025", [revenue(lambda s: (s.day.year, s.day.month) >= (2025, 9))]),
    ("Total revenue before March 2025", [revenue(lambda s: (s.day.year, s.day.month) < (2025, 3))]),
    ("Total revenue until March 2025", [revenue(lambda s: (s.day.year, s.day.month) <= (2025, 3))]),
    ("Total revenue after August 2025", [revenue(lambda s: (s.day.year, s.day.month) > (2025, 8))]),
    ("What was the revenue between March 2025 and May 2025?",
     [revenue(lambda s: s.day.year == 2025 and 3 <= s.day.month <= 5)]),
    ("Compare revenue in 2024 and 2025",
     [f"2024 {revenue(lambda s: s.day.year == 2024)} EUR", f"2025 {revenue(lambda s: s.day.year == 2025)} EUR"]),
    ("Total revenue excluding stollen", [revenue(lambda s: s.product != "stollen")]),
    ("What share of the revenue came from stollen?",
     [f"**{100 * STOLLEN / sum(BY_SHOP.values()):.1f} %**"]),
    ("Total revenue by city", [f"{city} {number(total)} EUR" for city, total in BY_CITY.items()]),
    ("Revenue per piece for cheesecake", ["28.50 EUR"]),
    ("How many deliveries were there?", [f"**Number of deliveries: {len(deliveries())}**"]),
    ("How many deliveries were damaged?", [f"**Number of deliveries: {count(lambda d: d.damaged)}**"]),
    ("How many deliveries were not damaged?", [f"**Number of deliveries: {count(lambda d: not d.damaged)}**"]),
    ("How many deliveries were more than 90 minutes late?", [f": {count(lambda d: d.late > 90)}**"]),
    ("How many deliveries were more than 2 hours late?", [f": {count(lambda d: d.late > 120)}**"]),
    ("How many different suppliers are there?", [f": {len({d.supplier for d in deliveries()})}**"]),
    ("Which supplier had the most damaged deliveries?", [f"**{DAMAGED.most_common(1)[0][0]}**", "**2**"]),
    ("What percentage of deliveries were damaged?",
     [f"**{100 * count(lambda d: d.damaged) / len(deliveries()):.1f} %**"]),
    ("Total minutes late by city", [f"{city} {number(total)}" for city, total in LATE_BY_CITY.items()]),
    ("Average minutes late per supplier",
     [f"{name} {number(round(mean(d.late for d in deliveries() if d.supplier == name), 2))}" for name in LATE]),
    ("When was the last delivery from Sunfruit?", ["2025-10-30"]),
    ("Who is the manager of Old Mill?", ["**Jutta Weiss**"]),
    ("How many seats does the Harbour Street shop have?", ["22"]),
    ("Which shop is the oldest?", ["**Market Square**", "1987"]),
    ("Which shops opened before 2000?", ["**Market Square and Old Mill**"]),
    ("What share of the revenue was from rye bread, by city?",
     [f"{city} {RYE_SHARE[city]:.1f} %" for city in BY_CITY]),
    ("How did revenue develop over time?",
     [f"{month} {number(BY_MONTH[month])} EUR" for month in sorted(BY_MONTH)[:5]]),
    ("Which deliveries were late by more than 3 hours?", ["106", "110"]),
    ("average number of deliveries per supplier", [number(round(len(deliveries()) / len(LATE), 2))]),
    ("How many deliveries mention butter?", [f": {count(lambda d: 'butter' in d.remark)}**"]),
]  # fmt: skip


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    return Harness(TABLES).open(tmp_path_factory.mktemp("bakery"))


@pytest.mark.parametrize(("question", "expected"), QUESTIONS, ids=[question for question, _ in QUESTIONS])
async def test_a_data_question_is_answered_with_the_figures_that_plain_python_finds(
    question: str, expected: list[str], harness: Harness
) -> None:
    """The first paragraph of the answer holds every figure that the same question has when computed by hand."""
    answer = await harness.answer(question)

    headline = answer.content.split("\n\n")[0]
    assert answer.status == "success", answer
    assert [figure for figure in expected if figure not in headline] == [], headline


async def test_the_query_is_the_source_of_a_figure(harness: Harness) -> None:
    """A finding names the query that computed it and quotes its result."""
    answer = await harness.answer("Total revenue by city")

    [finding] = answer.findings
    assert finding.source_refs[0].startswith("sql:")
    assert finding.quote.splitlines()[0] == "city | total_revenue_eur | rows"


async def test_a_word_that_no_column_answers_to_is_said_not_to_count(harness: Harness) -> None:
    """A figure that leaves a part of the question aside is partial and names that part."""
    answer = await harness.answer("What was the total revenue from gluten-free rye bread?")

    assert answer.status == "partial"
    assert revenue(lambda sale: sale.product == "rye bread") in answer.content
    assert "Not taken into account: “gluten” and “free”" in answer.gaps[0]
    assert answer.confidence <= 50


async def test_a_time_relative_to_today_is_not_guessed(harness: Harness) -> None:
    """Rules have no clock: `last month` is named as left aside instead of being taken for something else."""
    answer = await harness.answer("What was the total revenue last month?")

    assert answer.status == "partial"
    assert "“last month”" in answer.gaps[0]


async def test_rows_that_no_condition_lets_through_are_no_answer(harness: Harness) -> None:
    """A sum over no rows is not zero: it is said that no row matches."""
    answer = await harness.answer("What was the total revenue of stollen in May 2025?")

    assert answer.status == "no_answer"
    assert "No row of sales.csv matches (in May 2025; product is stollen)" in answer.message


async def test_a_count_of_nothing_is_zero(harness: Harness) -> None:
    """Counting rows that a known condition leaves out is an answer: none."""
    answer = await harness.answer("How many deliveries from Sunfruit were there in January 2025?")

    assert answer.status == "success"
    assert "**Number of deliveries: 0**" in answer.content


async def test_a_tie_is_said_to_be_one(harness: Harness) -> None:
    """When two share the first place, the answer names both."""
    answer = await harness.answer("Which city has the most shops?")

    assert "**Ansdorf** and **Bregen** share the highest number of shops" in answer.content


async def test_a_join_never_adds_one_row_up_twice(harness: Harness) -> None:
    """Seats belong to shops: beside deliveries they would count once for each, so they are added up without them."""
    answer = await harness.answer("What is the total number of seats by supplier?")

    assert answer.status == "partial"
    assert answer.content.startswith("**Total seats: 66** (4 rows of shops.csv).")
    assert "Not taken into account: “supplier”" in answer.gaps[0]


async def test_a_question_that_no_figure_can_answer_is_not_answered_with_one(harness: Harness) -> None:
    """Advice is not computed, even when every word of the question names a column."""
    plan = await harness.plan("Which shop should we sell?")

    assert [subtask.agent for subtask in plan.subtasks] == ["reader"]
