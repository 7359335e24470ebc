"""What speaks against a claim: by 3,600 hand-written cases in twelve languages, and by laws."""

import cProfile
import pstats
import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from chargehand.contracts import Claim, Source
from chargehand_plugins.claim_checks.objections import objections_of
from chargehand_plugins.claim_checks.words import sentences_of
from tests.parameters import first_fast
from workflows.rules.citation_checks import CheckedClaim, Evidence, Objection, claims_of
from workflows.rules.output_figures import claims_without_source

CASES: Final = Path(__file__).with_name("claims")
PAIRS: Final = yaml.safe_load(Path(__file__).with_name("pairs.yaml").read_text(encoding="utf-8"))
"""Claims with sources that contradict or rephrase them, and statements with their denials."""
FILES: Final = first_fast(sorted(CASES.glob("*.yaml")), 6)
_LAST: Final = frozenset({"twentyfourth", "twentyfifth", "twentysixth", "twentyseventh", "twentyeighth"})
PORTS: Final = ("Bremen", "Hamburg", "Kiel", "Lübeck", "Rostock")
_SHOWN: Final = frozenset({"supported", "computed"})
PAGE: Final = Source(ref="https://example.org/a", url="https://example.org/a", quote="A page.")
_FIGURES = st.integers(11, 99)  # larger ones could be roundings of each other
NUMBER_FORMS = {"English": (",", "."), "German": (".", ","), "French": (" ", ","), "Swiss": ("’", ".")}
"""The thousands separator and the decimal separator."""
_LETTERS = [f"{one}{other}" for one in "bcdfghklmnprstvwz" for other in "aeiou"]
_NAMES = [f"{one.title()}{other}n" for one in _LETTERS for other in _LETTERS]
_TABLE = "\n".join(f"Port{row} | {1000 + row} | {5000 + row} | {9000 - row}" for row in range(195))
HOSTILE: Final[dict[str, tuple[str, list[str], str]]] = {
    "unknown names": (" ".join(_NAMES), [" ".join(_NAMES[:2000])], ""),
    "other order": (" ".join(_NAMES[:79]), [" ".join([*_NAMES[at:79], *_NAMES[:at]]) for at in range(30)], ""),
    "one name": ("Orme Vella " * 60, ["Vella Orme " * 40] * 40, ""),
    "number words": ("zwei drei vier " * 40, ["zwei drei vier " * 60] * 20, ""),
    "figures": (" ".join(f"{n} boats," for n in range(17, 70)), [" ".join(f"{n} t" for n in range(99, 599))], ""),
    "parts": (
        " and ".join(f"w{n} {n} t" for n in range(11, 60)),
        [" and ".join(f"w{n} {n} t" for n in range(300))],
        "",
    ),
    "verbs in two": ("nahm " * 120, ["nahm " * 2_000], ""),
    "one word": ("a" * 600, ["a" * 11_000], ""),
    "digits": ("1" * 600, ["1" * 11_000], ""),
    "hyphens": ("zwei-" * 120, ["zwei-" * 2_000], ""),
    "rows": ("The number of c1 rose more and fell in every port year by year", [], "port | c1 | c2 | c3\n" + _TABLE),
    "cells": (" ".join(f"{row} 100{row}" for row in range(5)), [], "port | c1 | c2 | c3\n" + _TABLE),
    "columns": (
        "c5 of Port1 rose more than all 3 others to 1117",
        [],
        " | ".join(["port", *(f"c{n}" for n in range(900))]) + "\n" + " | ".join(["Port1", *map(str, range(900))]),
    ),
}


def _checked(claim: str, group: dict[str, Any]) -> list[CheckedClaim]:
    """Check a claim as a report cites it: after its sentence, against all of its sources together."""
    said, results, titles = (group.get(key, []) for key in ("said", "results", "titles"))
    if len(titles) <= 1:  # a single source; otherwise each passage has its own
        said = ["\n[…]\n".join(said)] if said else []
    titles = titles or [""]
    words = [Source(ref=f"{n}.md#L1", title=titles[n], quote=quote) for n, quote in enumerate(said)]
    quotations = {words[0].ref: group["said"]} if len(words) == 1 else {each.ref: [each.quote] for each in words}
    sources = [*words, *(Source(ref=f"sql:{n}", title=titles[-1], quote=each) for n, each in enumerate(results))]
    cited = "".join(f"[S{number}]" for number in range(1, len(sources) + 1))
    return list(claims_of(f"{claim.rstrip('.')} {cited}.", Evidence(sources, quotations)))


def _is_shown(checked: list[CheckedClaim], *, agrees_with_objections: bool) -> bool:
    """Whether a claim is verified by a judge who finds it in its evidence and accepts or rejects objections."""
    judged = (each.as_judged("says", "", is_doubted=agrees_with_objections and bool(each.doubts)) for each in checked)
    return all(claim.verification in _SHOWN for claim in judged)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_altered_claims_are_stopped_and_true_ones_kept(file: Path) -> None:
    """In each file, a correct judge shows 98 of 100 true claims; one that agrees with everything, 40 of 100 altered
    ones.

    When a judge confirms every claim and dismisses every objection, certain objections still stop 45 of 100 altered
    claims, 60 in the five last files, and 30 in the one whose kinds are mostly matters of judgement. A correct judge
    shows no altered claim, as none is in its evidence; few true claims cost a question. The head of each file records
    the results before the rules were tuned to it.
    """
    groups = yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)
    right = [_checked(claim, group) for group in groups for claim in group.get("right", ())]
    altered = [
        _checked(claim, group) for group in groups for each in group.get("altered", ()) for claim in each.values()
    ]

    assert len(right) == len(altered) in {30, 40, 50, 60, 100}
    assert sum(_is_shown(case, agrees_with_objections=False) for case in right) >= 0.98 * len(right)
    assert sum(_is_shown(case, agrees_with_objections=True) for case in right) >= 0.60 * len(right)
    assert sum(_is_shown(case, agrees_with_objections=True) for case in altered) <= 0.40 * len(altered)
    most = 0.70 if file.stem == "twentysecond" else 0.40 if file.stem in _LAST else 0.55
    assert sum(_is_shown(case, agrees_with_objections=False) for case in altered) <= most * len(altered)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_sources_own_words_never_raise_a_certain_objection(file: Path) -> None:
    """This applies to whole sentences and to their parts between commas."""
    groups = yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)
    sentences = [(group, each) for group in groups for quote in group.get("said", []) for each in sentences_of(quote)]
    said = [(group, part) for group, sentence in sentences for part in re.split(r"[;,] ", sentence.rstrip("."))]

    objected = [(part, objections_of(part, group["said"], (), group["titles"])) for group, part in said]
    assert [part for part, found in objected if any(each.is_certain for each in found)] == []


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        *(pair for each in PAIRS["otherwise"] for pair in each.items()),
        ("A.", "The river is deep. " * 10_000),
        ("The lock is 7 m deep", "7 8 9 10 " * 300),
    ],
)
def test_a_contradicted_claim_raises_a_certain_objection(claim: str, said: str) -> None:
    """Swapped roles or figures, and other names, units, bounds or denials, are not left to a judge."""
    assert any(each.is_certain for each in objections_of(claim, [said]))


@pytest.mark.parametrize("case", PAIRS["asked"], ids=lambda case: case["claim"][:20])
def test_a_different_scale_order_or_trend_raises_an_objection(case: dict[str, Any]) -> None:
    """A number word includes its scale, before is not after, and a trend covers all rows or years."""
    assert objections_of(case["claim"], case.get("said", ()), case.get("results", ()), case.get("titles", ()))


@given(
    cells=st.lists(st.integers(1_000, 999_999), min_size=10, max_size=10, unique=True),
    row=st.integers(0, 4),
    other=st.integers(0, 4),
    column=st.integers(0, 1),
)
def test_a_figure_must_match_its_named_row_and_column(cells: list[int], row: int, other: int, column: int) -> None:
    """In any table, a cell passes with its own row and column; any other raises an objection."""
    rows = [(port, cells[number], cells[number + 5]) for number, port in enumerate(PORTS)]
    table = "port | passengers | minutes\n" + "\n".join(f"{port} | {one} | {two}" for port, one, two in rows)
    titles, figure = ("passengers", "minutes"), rows[row][1 + column]

    def objections(port: str, title: str) -> tuple[Objection, ...]:
        return objections_of(f"{port} had {figure:,} {title}.", [], [table])

    assert not objections(PORTS[row], titles[column])
    assert all(each.is_certain for each in objections(PORTS[other], titles[column]))
    assert bool(objections(PORTS[other], titles[column])) is (row != other)
    assert objections(PORTS[row], titles[1 - column])


@pytest.mark.parametrize(("titles", "claim"), [*(pair for each in PAIRS["comparisons"] for pair in each.items())])
@given(cells=st.lists(st.integers(1_000, 9_999), min_size=6, max_size=6, unique=True))
def test_each_comparison_is_checked_against_the_cells_it_names(titles: str, claim: str, cells: list[int]) -> None:
    """A claim about quarters, halves or seasons passes only if all of its comparisons are true."""
    first, last = cells[:3], cells[3:]
    table = "\n".join([f"port|{titles}", *map("{}|{}|{}".format, PORTS, first, last)])
    a, b, c = first if "spring" in claim else last

    holds = a > b and (last[2] < first[2] if "first" in claim else a < c)
    found = objections_of(claim.format(a=PORTS[0], b=PORTS[1], c=PORTS[2]), [], [table])
    assert any(each.is_certain for each in found) is not holds


@pytest.mark.parametrize(("leads", "differs"), [*(pair for each in PAIRS["changes"] for pair in each.items())])
@given(cells=st.lists(st.integers(220, 999).map("{}7".format).map(int), min_size=4, max_size=4, unique=True))
def test_a_change_must_match_both_figures_and_their_difference(leads: str, differs: str, cells: list[int]) -> None:
    """In a table with a row for each year, and in prose, in every language."""
    one, other = sorted(cells[:2])
    rows = [("Kiel", 2022, one), ("Kiel", 2023, other), ("Rostock", 2022, cells[2]), ("Rostock", 2023, cells[3])]
    table = "port | year | calls\n" + "\n".join(" | ".join(map(str, row)) for row in rows)

    def is_held(claim: str, said: tuple[str, ...] = (), results: tuple[str, ...] = (table,)) -> bool:
        return not any(each.is_certain for each in objections_of(claim, said, results))

    forward = leads.format(a="Kiel", one=one, other=other)
    assert is_held(forward)
    assert not is_held(leads.format(a="Kiel", one=other, other=one))
    assert is_held(differs.format(a="Kiel", by=other - one))
    assert not is_held(differs.format(a="Kiel", by=other))
    assert not is_held(differs.format(a="Kiel", by=other), (forward,), ())


@given(cells=st.lists(st.integers(220, 999).map("{}7".format).map(int), min_size=4, max_size=4, unique=True))
def test_a_sum_must_be_of_the_rows_named_with_it(cells: list[int]) -> None:
    """It is of one year if the table has several, and a mean is never the figure of a single row."""
    names = [("Kiel", 2022), ("Rostock", 2022), ("Kiel", 2023), ("Rostock", 2023)]
    table = "port | year | calls\n" + "\n".join(
        f"{a} | {b} | {cell}" for (a, b), cell in zip(names, cells, strict=True)
    )
    before, after = sum(cells[:2]), sum(cells[2:])

    assert not objections_of(f"Together, both ports had {after} calls in 2023.", [], [table])
    assert objections_of(f"Together, both ports had {before} calls in 2023.", [], [table]) or before == after
    assert objections_of(f"On average, the ports had {max(cells)} calls in 2023.", [], [table])


@pytest.mark.parametrize("title", ["price_eur_kg", "price_eur_per_kg", "price_min_eur", "price_eur"])
def test_a_rate_is_measured_in_the_unit_of_its_numerator(title: str) -> None:
    """A price per kilogram, and a change in it, is in euros and not in kilograms."""
    table = f"fruit | jan_{title} | jun_{title}\nPears | 3.20 | 1.90\nPlums | 2.75 | 1.45"

    assert not objections_of("Pears became 1.30 euros cheaper", [], [table])
    assert objections_of("Pears became 1.30 kg cheaper", [], [table])


@given(values=st.lists(st.integers(100, 99_999), min_size=2, max_size=5, unique=True), error=st.integers(1, 50))
def test_sums_and_differences_of_a_column_are_recomputed(values: list[int], error: int) -> None:
    """Correct sums and differences of two rows pass; a wrong sum raises an objection."""
    table = "port | passengers\n" + "\n".join(f"{port} | {value}" for port, value in zip(PORTS, values, strict=False))

    assert not objections_of(f"All of them had {sum(values)} passengers.", [], [table])
    apart = abs(values[0] - values[1])
    assert not objections_of(f"{PORTS[0]} and {PORTS[1]} are {apart} passengers apart.", [], [table])
    wrong = sum(values) * 2 + error
    assert objections_of(f"All of them had {wrong} passengers.", [], [table])
    there = objections_of(f"Together, Kiel and Bremen had about {wrong * 1009 + 1} passengers.", [], [table])
    assert not any(each.is_certain for each in there)
    assert any(each.is_certain for each in objections_of(f"Bremen had {wrong * 1009 + 1} passengers.", [], [table]))


@given(
    figures=st.lists(st.integers(1_000, 9_999), min_size=4, max_size=4, unique=True),
    zero=st.integers(0, 2),
    other=st.integers(0, 2),
)
def test_claims_about_all_one_or_no_rows_are_checked_against_every_row(
    figures: list[int], zero: int, other: int
) -> None:
    """This covers the only row without, all or no rows above a bound, and a rise in each row or year."""
    faults = [0 if row == zero else 7 for row in range(3)]
    rows = zip(PORTS, figures, sorted(figures), faults, strict=False)
    table = "port | calls 2021 | calls 2022 | faults\n" + "\n".join(" | ".join(map(str, row)) for row in rows)
    years = "year | calls\n" + "\n".join(f"{2020 + number} | {each}" for number, each in enumerate(figures))

    def is_held(claim: str, result: str = table) -> bool:
        return not any(each.is_certain for each in objections_of(claim, [], [result]))

    assert is_held(f"{PORTS[other]} was the only port without faults.") is (other == zero)
    assert not is_held("No port had any faults.")
    assert is_held("All the ports had more than 6 faults.") is False
    assert is_held("None of the ports had more than 8 faults.")
    assert is_held("Calls rose in every port.") is all(
        one <= two for one, two in zip(figures[:3], sorted(figures), strict=False)
    )
    assert is_held("The number of calls rose year by year.", years) is (figures == sorted(figures))


@given(
    fee=st.integers(11, 9_999).filter(lambda number: number % 10),
    minutes=st.lists(st.integers(11, 999), min_size=2, max_size=2),
    own=st.integers(1_000_001, 9_999_999).filter(lambda number: number % 10),
    name=st.sampled_from(["output.fee", "output.share", "output.ports[1].text", "output.due"]),
)
def test_an_output_value_without_a_source_is_an_unsupported_claim(
    fee: int, minutes: list[int], own: int, name: str
) -> None:
    """Figures from texts or results pass, also reformatted or as a share or sum; any other is listed."""
    words = f"The fee of {fee:,} euros is due on 3 March 2024, after a rise of four per cent."
    table = f"port | minutes\nKiel | {minutes[0]}\nBremen | {minutes[1]}"
    sources = [Source(ref="fees.md#L77", quote=words), Source(ref="sql:1", quote=table)]
    value = f"on line {own}" if name.endswith(("text", "due")) else own

    def output(**other: JsonValue) -> JsonValue:
        ports: list[JsonValue] = [{"text": f"Kiel: {minutes[0]} min"}, {"text": other.pop("text", f"EUR {fee}.00")}]
        true = {"fee": fee, "share": 0.04, "due": "2024-03-03", "sum": sum(minutes), "count": 2, "is_due": True}
        return {**true, "ports": ports, **other}

    assert claims_without_source(output(), (), sources) == ()
    false = output(**{name.rpartition(".")[2]: value})
    [claim] = claims_without_source(false, ("It is 77.",), sources)
    assert (claim.text, claim.verification) == (f"{name}: {value}", "unsupported")
    assert str(own) in claim.problem


@given(
    pair=st.sampled_from([pair for each in PAIRS["denied"] for pair in each.items()]), number=_FIGURES, other=_FIGURES
)
def test_a_quote_that_denies_a_claim_or_its_figure_is_no_support(
    pair: tuple[str, str], number: int, other: int
) -> None:
    """In any language, a statement is never `supported` by its own negation or by other figures."""

    def checked(claim: str, quote: str) -> str:
        said = Claim(text=f"{claim}: {number}.", verification="cited", quote=quote)
        checked = CheckedClaim(said, [PAGE], [(PAGE, quote)])
        return checked.as_judged("says", "", is_doubted=bool(checked.doubts)).verification

    for said, denied in (pair, pair[::-1]):
        for rest in ("", " It rains. It is not cold."):
            assert checked(said, f"{said}, {number}.{rest}") == "supported"
            assert checked(said, f"{denied}, {number}.{rest}") == "cited"
            if number != other:
                assert checked(said, f"{said}, {other}.{rest}") == "cited"


@pytest.mark.parametrize(("claim", "said"), [*(pair for each in PAIRS["in another way"] for pair in each.items())])
def test_a_paraphrase_raises_no_certain_objection(claim: str, said: str) -> None:
    """Figures, dates, scales and denials may differ in form or language; at most a judge decides."""
    assert not any(each.is_certain for each in objections_of(claim, [said]))


@pytest.mark.parametrize("titles", ["jan | feb | mar", "Jan. | Feb. | März", "calls_janv | calls_févr | calls_mars"])
def test_abbreviated_month_names_are_recognised(titles: str) -> None:
    """In column titles, next to numbers, and where they look like the end of a sentence."""
    table = f"port | {titles}\nKiel | 1204 | 1407 | 1391"

    assert not objections_of("In February, Kiel had 1,407 calls.", [], [table])
    assert any(each.is_certain for each in objections_of("In February, Kiel had 1,391 calls.", [], [table]))
    assert not objections_of("The port was closed on 15 February.", ["The port was closed on Feb. 15."])


def test_superlatives_compare_all_rows_and_bounds_need_not_be_cells() -> None:
    """A row that happens to equal the sum of the others is not taken for a total."""
    table = "town | homes | km\nBath | 400 | 1.12\nDeal | 200 | 1.31\nEly | 600 | 2.05"
    assert not objections_of("Ely has the most homes", [], [table])
    assert not any(each.is_certain for each in objections_of("Only Bath has less than 1.3 km", [], [table]))


@pytest.mark.parametrize("form", [*NUMBER_FORMS, "clear column", "unclear"])
@given(values=st.lists(st.integers(1_000, 999_999), min_size=3, max_size=5, unique=True))
def test_cell_figures_follow_the_format_of_column_table_or_language(form: str, values: list[int]) -> None:
    """Thousands are summed with any separator; where `1.240` may mean 1.24, nothing is computed."""
    group, decimal = NUMBER_FORMS.get(form, (".", "."))
    share = f"0{decimal}5" if form in NUMBER_FORMS else "none"
    cells = [f"{value:,}".replace(",", group) for value in values] + ["980"] * (form == "clear column")
    table = "port | Ertrag | share\n" + "\n".join(
        f"{n} | {cell} | {share}" for n, cell in zip(PORTS * 2, cells, strict=False)
    )
    total = sum(values) + 980 * (form == "clear column")
    source = Source(ref="sql:1", quote=table)
    [claim] = claims_of(f"Together they had {total} [S1].", Evidence([source], {}))

    assert claim.at_best == ("supported" if form == "unclear" else "computed")


@given(rows=st.permutations([*PORTS]), counts=st.integers(1, 4), said=st.integers(2, 9), other=st.integers(0, 4))
def test_row_labels_and_row_counts_must_match_the_table(rows: list[str], counts: int, said: int, other: int) -> None:
    """Another row's label, or a wrong count of rows with a label, raises a certain objection."""
    owners = ["Ottoline"] * counts + ["Perkin"] * (5 - counts)
    table = "port | owner | boats\n" + "\n".join(
        f"{port} | {owner} | {number}07"
        for number, (port, owner) in enumerate(zip(rows, owners, strict=True), start=11)
    )

    def is_stopped(claim: str) -> bool:
        return any(each.is_certain for each in objections_of(claim, [], [table]))

    assert is_stopped(f"{rows[other]} belongs to Ottoline") is (owners[other] != "Ottoline")
    assert is_stopped(f"Ottoline runs {said} ports") is (said not in {counts, 5})


@pytest.mark.parametrize("hostile", HOSTILE)
def test_checking_the_largest_claim_fits_in_a_workflow_task(hostile: str) -> None:
    """It takes fewer than 120,000 function calls, each of which reads at most the characters that are compared."""
    claim, said, results = HOSTILE[hostile]
    objections_of(f"9 {claim[3:90]}", [f"Zwei mal 9 {each[3:90]}" for each in said[:1]])
    objections_of("Every quarter A had 9 more boats than B, and its best in spring", [], ["a | b\n1 | 2"])
    with cProfile.Profile() as profile:
        objections_of(claim[:600], ["\n[…]\n".join(said)[: 11_900 - len(results)]], [results] if results else [])
    stats = pstats.Stats(profile).get_stats_profile().func_profiles.values()

    assert sum(int(each.ncalls.partition("/")[0]) for each in stats) < 120_000


def test_a_judge_cannot_overrule_a_certain_objection() -> None:
    """A claim that quotes words found nowhere is never verified."""
    said = Claim(text="It is open.", verification="cited", quote="It is open.")
    claim = CheckedClaim(said, [PAGE], [(PAGE, said.quote)], missing=["It is closed."])

    assert claim.as_judged("says", "", is_doubted=False).verification == "cited"
