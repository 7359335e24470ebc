"""Figures: every word of the question must count in exactly one way, or no figure is given."""

import calendar
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from itertools import combinations

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from activities.documents.catalog import Catalog, Column, Table
from activities.documents.words import LANGUAGES, language_of, stem
from activities.tools.data.query_words import query_words
from benchmarks.extractive_questions import Question, read_questions
from chargehand_plugins.extractive.lexicon import read_tokens
from chargehand_plugins.extractive.periods import Period, read_calendar, read_period
from chargehand_plugins.extractive.reading import read_query
from chargehand_plugins.extractive.tests.conftest import HarnessOf
from tests.parameters import first_fast

MONTHS = calendar.month_name[1:]
LIMITS = {
    "en": ("not", "no", "never", "except", "without", "excluding", "only", "or", "than"),
    "de": ("nicht", "kein", "ohne", "außer", "nur", "oder", "mehr", "weniger", "als"),
    "fr": ("pas", "sans", "sauf", "jamais"),
    "es": ("sin", "excepto", "salvo", "nunca"),
}
ROUND = ("= –", "= 0", "= false")
"""Endings of negated conditions."""
BOUNDS = ("before", "after", "until", "since", "vor", "nach", "bis", "seit")
STATED = [question for question in read_questions() if question.kind == "figure"]


def catalog(*tables: str) -> Catalog:
    """Build a catalogue with one table of the same monthly income per name."""
    columns = (
        Column(name="month", type="VARCHAR", examples=tuple(f"2024-{month:02}" for month in range(1, 13)), distinct=12),
        Column(name="shop", type="VARCHAR", examples=("Harbour", "Market"), distinct=2),
        Column(name="income_eur", type="BIGINT", examples=("1", "2"), distinct=24),
    )
    return Catalog(tables=tuple(Table(name=name, document=f"{name}.csv", rows=24, columns=columns) for name in tables))


def months_of(text: str) -> frozenset[str]:
    """Return the months in a column that holds one text."""
    held = read_calendar(Column(name="when", type="VARCHAR", examples=(text,), distinct=1))
    return held.moments if held else frozenset()


@settings(deadline=None)
@given(
    word=st.sampled_from(LIMITS["en"] + LIMITS["de"]) | st.from_regex(r"[bcdfgklmnp]{4,9}", fullmatch=True),
    at=st.integers(0, 9),
)
def test_an_unknown_word_in_a_question_suppresses_the_figure(word: str, at: int) -> None:
    """An unknown or limiting word, at any place in a question with a figure, leaves it without one."""
    words = ["What", "was", "the", "total", "income", "from", "January", "to", "March", "2024"]

    assert read_query(" ".join(words), catalog("books")) is not None
    assert read_query(" ".join([*words[:at], word, *words[at:]]), catalog("books")) is None


@pytest.mark.parametrize(
    ("period", "named"),
    [
        ("in 2024", "year of month = 2024"),
        ("from January to March 2024", "month 2024-01 to 2024-03"),
        ("in May 2024", "month = 2024-05"),
        ("since June 2024", "month ≥ 2024-06"),
    ],
)
def test_a_source_names_the_period_of_a_figure(period: str, named: str) -> None:
    """It has the column's name and dates, and no part of the text that only the query needs."""
    figure = read_query(f"What was the total income {period}", catalog("books"))

    assert figure is not None
    with duckdb.connect() as connection:
        assert query_words(connection, figure.sql()) == (["books"], f"sum of income_eur, {named}")


def test_a_source_names_months_stored_as_text() -> None:
    """It names the months' column, and not how they are parsed."""
    texts = tuple(f"{name} 2024" for name in MONTHS)
    table = catalog("books").tables[0]
    month = table.columns[0].model_copy(update={"examples": texts})
    figure = read_query(
        "Total income from January to March",
        Catalog(tables=(table.model_copy(update={"columns": (month, *table.columns[1:])}),)),
    )

    assert figure is not None
    with duckdb.connect() as connection:
        assert query_words(connection, figure.sql()) == (["books"], "sum of income_eur, month 01 to 03")


@pytest.mark.parametrize("question", first_fast(STATED, 8, pytest.mark.nightly), ids=lambda question: question.text)
async def test_a_limiting_word_is_never_dropped(question: Question, harness_of: HarnessOf) -> None:
    """A limiting word in a labelled question leaves no figure, unless it is part of a name or reverses a condition.

    Each position is tried with a few of the words, other ones than its neighbours, and nightly with all words of its
    language.
    """
    words, tables = question.text.split(), (await harness_of(question.folder.name)).catalog
    limits = LIMITS[language_of(question.text)]
    parts = 1 if settings.get_current_profile_name() == "nightly" else 24
    for at in range(1, len(words)):
        for limit in limits[at % parts :: parts]:
            if limit == "no" and (words[at] in {"more", "less"} or words[at - 1].startswith(("order", "invoice"))):
                continue  # forms another comparison, or is the number of a row
            figure = read_query(" ".join([*words[:at], limit, *words[at:]]), tables)
            held = [condition.text for condition in figure.conditions] if figure else [limit]
            assert any(limit in text.split() or "≠" in text or text.endswith(ROUND) for text in held), (limit, at)


@settings(deadline=None)
@given(word=st.sampled_from(BOUNDS), at=st.integers(0, 9))
def test_a_bounding_word_becomes_a_condition_or_suppresses_the_figure(word: str, at: int) -> None:
    """A word that bounds a period is never dropped: its side of the period is a condition of the figure."""
    words = ["What", "was", "the", "total", "income", "in", "all", "March", "2024"]
    figure = read_query(" ".join([*words[:at], word, *words[at:]]), catalog("books"))

    assert figure is None or {"<", "<=", ">", ">="}.intersection(figure.conditions[-1].text.split())


async def test_the_table_is_chosen_by_the_period_asked_for(harness_of: HarnessOf) -> None:
    """A year in its title or its rows' dates decide; two numbers separated by dots are a day and a month."""
    asked = {
        "stables": ("What was the total vet bill in 2025?", '"vet_bill_2025'),
        "kletterhalle": ("Wie viele Besucher hatten wir im Januar?", "'%d-%m-%Y'"),
    }
    for folder, (question, said) in asked.items():
        figure = read_query(question, (await harness_of(folder)).catalog)
        assert figure is not None
        assert said in figure.sql()


def test_a_question_two_tables_could_answer_gets_no_figure() -> None:
    """With one matching table there is a figure, with two there is none."""
    question = "What was the total income from January to March 2024?"

    assert read_query(question, catalog("books")) is not None
    assert read_query(question, catalog("books", "ledger")) is None


def test_a_month_range_includes_both_ends_and_all_between() -> None:
    """Every pair of months of a year selects exactly the rows of those months."""
    rows = ", ".join(f"('2024-{month:02}')" for month in range(1, 13))
    duckdb.sql(f"CREATE OR REPLACE TABLE months AS FROM (VALUES {rows}) books(month)")
    for first, last in combinations(range(12), 2):
        figure = read_query(f"Total income from {MONTHS[first]} to {MONTHS[last]} 2024", catalog("books"))
        assert figure is not None
        duckdb.sql(f"CREATE OR REPLACE VIEW held AS SELECT month FROM months WHERE {figure.conditions[-1].sql}")
        found = [month for (month,) in duckdb.table("held").fetchall()]
        assert found == [f"2024-{month + 1:02}" for month in range(first, last + 1)]


def test_a_range_with_a_missing_month_gets_no_figure() -> None:
    """If the table has no rows for one month of a period, there is no figure for the period."""
    table = catalog("books").tables[0]
    month = table.columns[0].model_copy(update={"examples": ("2024-01", "2024-03"), "distinct": 2})
    gappy = Catalog(tables=(table.model_copy(update={"columns": (month, *table.columns[1:])}),))

    assert read_query("Total income in March 2024", gappy) is not None
    assert read_query("Total income from January to March 2024", gappy) is None


def test_a_period_is_parsed_as_precisely_as_it_is_stated() -> None:
    """Years, quarters, months and days, alone or as a range, become ISO 8601 values."""
    cases: list[tuple[str, tuple[str, str]]] = [
        ("2024", ("2024", "2024")),
        ("February 2024", ("2024-02", "2024-02")),
        ("Februar", ("02", "02")),
        ("7 March 2024", ("2024-03-07", "2024-03-07")),
        ("7.3.2024", ("2024-03-07", "2024-03-07")),
        ("second quarter of 2024", ("2024-04", "2024-06")),
        ("2. Quartal 2024", ("2024-04", "2024-06")),
        ("2024-02", ("2024-02", "2024-02")),
        ("from 5 to 16 September 2025", ("2025-09-05", "2025-09-16")),
        ("zwischen dem 10. und dem 19. Mai", ("05-10", "05-19")),
        ("de enero a marzo de 2024", ("2024-01", "2024-03")),
    ]
    for text, moments in cases:
        tokens = read_tokens(text, language_of(text))
        assert read_period(tokens, 0, language_of(text)) == (Period(*moments), len(tokens))


@pytest.mark.parametrize(
    ("question", "is_dated"), [("How many people joined in 2024?", True), ("How many people in 2024?", False)]
)
def test_a_specific_date_column_is_used_only_if_it_is_named(question: str, *, is_dated: bool) -> None:
    """A date such as `joined` dates a row only for a question that mentions it."""
    name = Column(name="name", type="VARCHAR", examples=("Ann", "Ben", "Cid"), distinct=3)
    joined = Column(name="joined", type="DATE", distinct=3)
    people = Table(
        name="people", document="people.csv", rows=3, columns=(name, joined, joined.model_copy(update={"name": "paid"}))
    )

    figure = read_query(question, Catalog(tables=(people,)))

    assert (figure is not None) is is_dated


def test_prices_and_levels_are_never_summed() -> None:
    """Unit prices, members, temperatures or stock give no sum, even when it is asked for."""
    cases = ["unit_price", "members", "Einwohner", "Ticketpreis", "temperature", "stock"]
    for title in cases:
        table = catalog("books").tables[0]
        measure = table.columns[2].model_copy(update={"name": title, "title": title})
        given_catalog = Catalog(tables=(table.model_copy(update={"columns": (*table.columns[:2], measure)}),))
        spoken = title.replace("_", " ")
        assert read_query(f"What was the total {spoken} in 2024?", given_catalog) is None
        assert read_query(f"Wie hoch war {spoken} insgesamt im März 2024?", given_catalog) is None


def clubs(members: tuple[str, ...], fee: str = "fee_eur") -> Catalog:
    """Build a catalogue with one row per club and its members as text."""
    columns = (
        Column(name="club", type="VARCHAR", examples=("Chess", "Judo", "Rowing"), distinct=3),
        Column(name="joined", type="VARCHAR", examples=("May 2023", "June 2024", "March 2024"), distinct=3),
        Column(name="members", type="VARCHAR", examples=members, distinct=3),
        Column(name="quantity", type="BIGINT", examples=("1", "2", "3"), distinct=3),
        Column(name=fee, type="BIGINT", examples=("30", "60", "90"), distinct=3),
    )
    return Catalog(tables=(Table(name="clubs", document="clubs.csv", rows=3, columns=columns),))


def test_amounts_stored_as_text_give_no_figure() -> None:
    """No other column is compared in their place, and they are not counted as names."""
    for members in (("1'240", "86", "34"), ("1 240 h", "86 h", "34 h")):
        assert read_query("Which clubs have more than 100 members?", clubs(members)) is None
        assert read_query("How many members do all clubs have together?", clubs(members)) is None


def test_a_total_of_unsummable_values_gets_no_figure() -> None:
    """Single rows are not compared where totals are asked for."""
    question = "Which club has the highest unit price in total?"

    assert read_query(question, clubs(("Ann", "Ben", "Cid"), "unit_price")) is None


@pytest.mark.parametrize(
    ("title", "asked"),
    [("observer", "observations"), ("translator", "translations")],
)
def test_counting_actions_does_not_count_people(title: str, asked: str) -> None:
    """`observations` does not mean the values of a column `observer`, though the stem is the same."""
    person = Column(name=title, type="VARCHAR", examples=("Ann", "Ben"), distinct=2)
    mark = Column(name="quality", type="VARCHAR", examples=("good", "poor"), distinct=2)
    table = Table(name="nights", document="nights.csv", rows=6, columns=(person, mark))

    figure = read_query(f"How many {asked} had good quality?", Catalog(tables=(table,)))

    assert figure is None or figure.function != "distinct"


def stalls() -> Catalog:
    """Sales of two stalls on several days."""
    columns = (
        Column(name="receipt", type="VARCHAR", examples=("A1", "A2", "A3", "B1", "B2", "B3"), distinct=6),
        Column(name="stall", type="VARCHAR", examples=("Ash", "Birch"), distinct=2),
        Column(name="organic", type="VARCHAR", examples=("yes", "no"), distinct=2),
        Column(name="sold_on", type="DATE", distinct=4),
        Column(name="weight_kg", type="BIGINT", distinct=6),
    )
    return Catalog(tables=(Table(name="sales", document="sales.csv", rows=6, columns=columns),))


@pytest.mark.parametrize(
    "question", ["How many stalls sold more than 100 kg?", "Which stalls sold more than 100 kg?", "How many organics?"]
)
def test_a_question_the_rows_leave_open_gets_no_figure(question: str) -> None:
    """Single rows are not compared in place of a sum, and yes/no values are not counted as things."""
    assert read_query(question, stalls()) is None


def test_groups_by_period_are_labelled_by_the_unit_of_time() -> None:
    """A total by month is labelled `month`, not with the name of the date column."""
    figure = read_query("What is the total weight by month?", stalls())

    assert figure is not None
    assert figure.group is not None
    assert (figure.shape, figure.group.label) == ("per", "month")


@pytest.mark.parametrize("language", LANGUAGES)
def test_month_names_and_stems_match_the_libraries(language: str) -> None:
    """Every month name is read in each language; each stem equals the full package's, in any thread."""
    names = import_module(f"dateparser.data.date_translation_data.{language}").info
    for number, month in enumerate(calendar.month_name[1:], start=1):
        said = [name for name in names[month.lower()] if re.fullmatch(r"[^\W\d_]{3,}\.?", name)]
        assert {months_of(name) for name in said} == {frozenset({f"{number:02}"})}
    whole = import_module("snowballstemmer").stemmer(LANGUAGES[language])
    tried = ("running", "maisons", "libros", "giorni", "boeken", "hundarna", "häuser", "casas")
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            stems = list(pool.map(partial(stem.__wrapped__, language=language), tried * 50))
    finally:
        sys.setswitchinterval(interval)
    assert stems == whole.stemWords(tried * 50)


def test_an_invalid_month_or_day_is_not_a_period() -> None:
    """Examples are 30 February, a word that begins like a month, and a number that no month has."""
    assert read_period(read_tokens("30 February 2024", "en"), 0, "en") is None
    assert [
        text for text in ("first", "third", "mardi", "marine", "decem", "Junior", "2024-13") if months_of(text)
    ] == []


def table_of(name: str, columns: str) -> Catalog:
    """Make a table from titles and values, as in `berth=A,B fee=7,9`."""
    given = [(title, values.split(",")) for title, _, values in (each.partition("=") for each in columns.split())]
    made = tuple(
        Column(
            name=title,
            title=title,
            type="BIGINT" if values[0].isdigit() else "DATE" if values[0].startswith("20") else "VARCHAR",
            examples=tuple(dict.fromkeys(values)),
            distinct=len({*values}),
        )
        for title, values in given
    )
    return Catalog(tables=(Table(name=name, document=f"{name}.csv", rows=len(given[0][1]), columns=made),))


@pytest.mark.parametrize(
    ("question", "name", "columns", "computed"),
    [
        ("How many volumes were restored?", "a", "volume=X,Y pages_restored=7,9", ""),
        ("How many applicants were awarded?", "a", "applicant=X,Y awarded_eur=7,9", ""),
        ("How many flats are there?", "a", "street=X,X flat=1,2", ""),
        ("How many no-shows were there?", "a", "day=X,Y No-shows=1,2", "sum"),
        ("How many guests came?", "a", "guest_name=X,Y number_of_guests=1,2", "sum"),
        ("What is the total fee?", "a", "berth=X,Y fee=1,2 fee_1=3,4", ""),
        ("Wie viele Seiten wurden restauriert?", "restauriert", "Seiten=1,2 Zustand=fertig,neu", ""),
        ("Wie viele Seiten wurden restauriert?", "a", "Seiten=1,2 Zustand=restauriert,neu", "Zustand"),
        ("How old is the oldest dog?", "a", "dog=X,Y born=2015,2019", ""),
        ("How often per year is a vehicle checked?", "a", "vehicle=X,Y checked=2024-05-01,2024-06-01", ""),
        ("What is the total fee in 2024?", "fees_2024", "berth=X,Y fee=1,2", "sum"),
        ("What is the total fee in 2023?", "fees_2024", "berth=X,Y fee=1,2", ""),
        ("How many classes have between 20 and 25 pupils?", "a", "class=1A,1B pupils=21,30", "count"),
        ("How many pupils are there in all classes together?", "a", "class=1A,1B pupils=7,9", "sum"),
        ("How many readings have a low battery?", "readings", "hall=P,P,Q,Q battery=low,ok,low,ok", "count"),
        ("Which site has the highest average yield?", "a", "site=P,P yield=7,9", 'avg("yield") AS value'),
        ("Which site has the highest total average yield?", "a", "site=P,P yield=7,9", ""),
        ("What does half board cost on average?", "a", "hut=X,Y half_board_eur=7,9", "avg"),
        ("What does half board cost?", "a", "hut=X,Y half_board_eur=7,9", ""),
        ("Which leases end in 2026?", "a", "flat=X,Y lease_ends=2026-01-01,2027-01-01", 'CAST("flat"'),
        ("What is the total of the third quarter?", "a", "hut=X,Y Q2=1,2 Q3=3,4", 'sum("Q3")'),
        ("How many flats are on floor 2?", "a", "flat=X,Y floor=1,2", "= '2'"),
        ("How many flats are on floor 3?", "a", "flat=X,Y floor=1,2", ""),
        ("What is the total of the year?", "a", "hut=X,Y Year=10000,20000", ""),
        ("Which leases end in 2026?", "a", "lease_end=2026-01-01,2027-01-01,2027-01-01 tenant=A,A,B", ""),
        ("Which sensor measured it?", "a", "sensor=A,A,B value=7,9,11", ""),
        (
            "How many tasks cost over 8 EUR a month?",
            "a",
            "task=X,Y in=monthly,yearly monthly_fee_eur=7,9",
            '_eur" > 8) O',
        ),
        ("How many tasks cost more than 200 EUR a month?", "a", "task=X,Y billing=monthly,yearly fee_eur=300,900", ""),
        ("How many kg were picked?", "a", "plot=X,Y picked_on=2026-09-01,2026-09-02 kg=7,9", '"picked_on" IS NOT NULL'),
        ("What is the average price per kg of P?", "a", "sort=P,Q price_per_kg_eur=7,9", "avg"),
        ("Quelle essence est la plus chère au m3 ?", "a", "essence=X,Y volume_m3=7,9", ""),
        ("Wie hoch war der Ertrag im Jahr 2026?", "a", "datum=2026-01-01,2026-02-01 ertrag=7,9", "sum"),
        ("What is the average length of the boats?", "a", "berth=X,Y,Total boat=P,Q length_m=7,9,16", "avg"),
    ],
)
def test_only_what_the_question_names_is_counted(question: str, name: str, columns: str, computed: str) -> None:
    """A verb shared with a column, names that are numbers, or two columns of one title give no figure."""
    figure = read_query(question, table_of(name, columns))

    assert (figure is not None and computed in figure.sql()) == bool(computed)


@pytest.mark.parametrize("length", [3, None])
def test_a_month_names_its_column(length: int | None) -> None:
    """A column is titled by a month, in full or short, and a range of months names none of them."""
    columns = " ".join(f"{month[:length]}=1,2" for month in MONTHS)
    table = table_of("a", f"hive=X,Y {columns}")
    for month in MONTHS:
        figure = read_query(f"What was the total in {month}?", table)
        assert (figure and figure.measure and figure.measure.label) == month[:length]
    assert read_query("What was the total from January to March?", table) is None


def test_days_in_words_are_dates() -> None:
    """A register may mix them with days in figures, and has years before 1900."""
    texts = ("3 May 1794", "the nineteenth of June 1794", "2nd of February 1795", "the twenty-first of March 1796")
    held = read_calendar(Column(name="date", type="VARCHAR", examples=texts, distinct=4))

    assert held is not None
    assert held.moments == {"1794-05-03", "1794-06-19", "1795-02-02", "1796-03-21"}
    dates = ", ".join(f"('{text}')" for text in texts)
    with duckdb.connect() as connection:
        rows = connection.execute(f"SELECT {held.text} FROM (VALUES {dates}) entries(date)").fetchall()
    assert {moment for (moment,) in rows} == held.moments


def test_months_are_listed_in_calendar_order() -> None:
    """The order of the rows in the table does not matter."""
    months = sorted(MONTHS)
    table = table_of("a", f"month={','.join(months)} income=1,2,3,4,5,6,7,8,9,8,7,6")
    figure = read_query("What is the total income per month?", table)

    assert figure is not None
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE a AS SELECT unnest($1) AS month, 1 AS income", [months])
        assert [row[0] for row in connection.execute(figure.sql()).fetchall()] == list(MONTHS)
