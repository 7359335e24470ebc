"""What speaks against a claim: by 840 hand-written cases in seven languages, and by laws."""

from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from chargehand.contracts import Source
from workflows.rules.citation_checks import CheckedClaim, Evidence, claims_of, stands_in
from workflows.rules.claim_conflicts import conflicts_of

CASES: Final = Path(__file__).with_name("claims")
PORTS: Final = ("Bremen", "Hamburg", "Kiel", "Lübeck", "Rostock")
_SHOWN: Final = frozenset({"supported", "computed"})


def _checked(case: dict[str, Any]) -> list[CheckedClaim]:
    """Check a claim as a report cites it: behind its sentence, by all of its sources together."""
    said, titles = case["said"], case["titles"] or [""]
    if len(titles) == 1:  # of one source, else each of its own
        said = ["\n[…]\n".join(said)] if said else []
    words = [Source(ref=f"{n}.md#L1", title=titles[n], quote=quote) for n, quote in enumerate(said)]
    quotations = {words[0].ref: case["said"]} if len(words) == 1 else {each.ref: [each.quote] for each in words}
    sources = [
        *words,
        *(Source(ref=f"sql:{n}", title=titles[-1], quote=each) for n, each in enumerate(case["results"])),
    ]
    cited = "".join(f"[S{number}]" for number in range(1, len(sources) + 1))
    claim = case["claim"].rstrip(".")
    return list(claims_of(f"{claim} {cited}.", Evidence(sources, quotations)))


@pytest.mark.parametrize("file", sorted(CASES.glob("*.yaml")), ids=lambda file: file.stem)
def test_altered_claims_are_stopped_and_true_ones_kept(file: Path) -> None:
    """Before any judge, in each file: at least 60 of 100 altered claims are stopped, and 95 of 100 true ones kept.

    With a judge who is right, no altered one is shown, and the same true ones are kept. The head of each file says what
    held before the rules were tuned to it.
    """
    cases = yaml.safe_load(file.read_text(encoding="utf-8"))
    kept = {case["id"]: all(each.at_best in _SHOWN for each in _checked(case)) for case in cases}
    true, altered = ([case["id"] for case in cases if case["holds"] is holds] for holds in (True, False))

    assert len(true) == len(altered) in {40, 100}
    assert sum(kept[each] for each in true) >= 0.95 * len(true)
    assert sum(not kept[each] for each in altered) >= 0.60 * len(altered)


@given(
    cells=st.lists(st.integers(1_000, 999_999), min_size=10, max_size=10, unique=True),
    row=st.integers(0, 4),
    other=st.integers(0, 4),
    column=st.integers(0, 1),
)
def test_a_figure_is_of_the_row_and_column_that_are_named(cells: list[int], row: int, other: int, column: int) -> None:
    """Any cell of any table: its own row and column are right, any other row or column is not."""
    rows = [(port, cells[number], cells[number + 5]) for number, port in enumerate(PORTS)]
    table = "port | passengers | minutes\n" + "\n".join(f"{port} | {one} | {two}" for port, one, two in rows)
    titles, figure = ("passengers", "minutes"), rows[row][1 + column]

    def conflicts(port: str, title: str) -> tuple[str, ...]:
        return conflicts_of(f"{port} had {figure:,} {title}.", [], [table])

    assert not conflicts(PORTS[row], titles[column])
    assert bool(conflicts(PORTS[other], titles[column])) is (row != other)
    assert conflicts(PORTS[row], titles[1 - column])


@given(values=st.lists(st.integers(100, 99_999), min_size=2, max_size=5, unique=True), error=st.integers(1, 50))
def test_an_arithmetic_of_a_column_is_repeated(values: list[int], error: int) -> None:
    """Sums, and differences of two rows, of any column are found; a sum that is wrong is not."""
    table = "port | passengers\n" + "\n".join(f"{port} | {value}" for port, value in zip(PORTS, values, strict=False))

    assert not conflicts_of(f"All of them had {sum(values)} passengers.", [], [table])
    apart = abs(values[0] - values[1])
    assert not conflicts_of(f"{PORTS[0]} and {PORTS[1]} are {apart} passengers apart.", [], [table])
    wrong = sum(values) * 2 + error
    assert conflicts_of(f"All of them had {wrong} passengers.", [], [table])


@pytest.mark.parametrize(
    ("quote", "text"),
    [
        ("information is given", "infor-\nmation is given"),
        ("the well-known office", "the well-\nknown office"),
        ("the first office", "the \ufb01rst of\ufb01ce"),
        ('she said "never again"', "she said “never again”"),
        ("it's over - at last", "it’s over – at last"),
        ("co\u00adoperation pays", "cooperation pays"),
        ("ends on one page and goes on", "ends on one page\n\n   and goes on"),
    ],
)
def test_a_quotation_is_found_however_it_is_set(quote: str, text: str) -> None:
    """Line ends, hyphens, ligatures, quotes and dashes are the typesetter's; other words are not."""
    assert stands_in(quote, f"Before. {text} after.")
    assert not stands_in(f"{quote} never", f"Before. {text} after.")


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, I can't help with that.",
        "Dear Ms Weber, thank you for your letter.",
        "Vielen Dank für Ihre Anfrage.",
        "Je suis désolé, je ne peux pas répondre.",
        "Lo siento, no puedo ayudar con eso.",
        "Grazie per la domanda.",
        "Let me know if you need more.",
    ],
)
def test_greetings_refusals_and_remarks_are_no_claims(text: str) -> None:
    """Unless they state a figure or cite a source."""
    source = Source(ref="a.md#L1", quote="It costs 3.")
    assert not claims_of(text, Evidence([source], {}))
    assert claims_of(f"{text.rstrip('.')} 3.", Evidence([source], {}))
    assert claims_of(f"{text.rstrip('.')} [S1].", Evidence([source], {}))
