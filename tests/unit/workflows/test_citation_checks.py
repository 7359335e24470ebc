"""What the statements of a report rest on."""

from hypothesis import given
from hypothesis import strategies as st

from chargehand.contracts import Finding, Source
from workflows.rules.citation_checks import Evidence, claims_of, list_uncited, mark_uncited, verification_of, weakest

LEASE = Source(ref="lease.md#L1", quote="Notice is given three months before the end.\n[…]\nThe fee is 1,995.50 EUR")
ROWS = Source(ref="sql:1", title="SELECT sum(minutes) WHERE year = 2025", quote="name | value\nIsland | 103295.0")
PAGE = Source(ref="https://example.org/a", url="https://example.org/a", quote="A page.")
EVIDENCE = Evidence(
    (LEASE, ROWS, PAGE),
    {
        LEASE.ref: ("three months before the end", "The fee is 1,995.50 EUR"),
        PAGE.ref: ("A page.",),
        ROWS.ref: (ROWS.quote,),
    },
    (
        Finding(claim="The lease **ends**.", sources=(PAGE.ref,), confidence=9, verification="inferred"),
        Finding(claim="Mice eat cheese.", confidence=9),
    ),
    ("The price is not known.",),
)


def test_a_claim_rests_on_what_is_cited_for_it() -> None:
    """Quoted words and figures are looked up where the citation says; without a citation nothing supports a claim."""
    cases = [
        ("Notice is three months [S1.1].", "quoted"),
        ("The fee is 1995.5 EUR [S1.2].", "quoted"),
        ("The fee is 2,995.50 EUR [S1.2].", "inferred"),
        ("The fee is 19,955 EUR [S1.2].", "inferred"),
        ("Notice is three months [S1].", "inferred"),
        ("Notice is three months [S1.9].", "inferred"),
        ("It says “three months before the end” [S1].", "quoted"),
        ("It says “three months after the end” [S1].", "inferred"),
        ("It says “three months before the end” [S3].", "inferred"),
        ("> Notice is given\n> three months before the end.\n>\n> — [S1]", "quoted"),
        ("> Notice is given\n> - three months before the end.\n>\n> — [S1]", "quoted"),
        ("> Notice is given\n> six months before the end.\n>\n> — [S1]", "inferred"),
        ("**103,295** minutes in 2025 [S2]", "computed"),
        ("104,295 minutes in 2025 [S2]", "inferred"),
        ("**103,295** minutes [S2.1]", "computed"),
        ("It says “Island | 103295.0” [S2].", "computed"),
        ("Island has 104,295 minutes [S2.1].", "inferred"),
        ("Island has most [S2].", "inferred"),
        ("Notice is not given three months before [S1.1].", "inferred"),
        ("Notice is three months.", "unsupported"),
        ("Notice is three months [S7].", "unsupported"),
        ("The lease ends.", "inferred"),
        ("The lease does not end.", "unsupported"),
        ("Mice eat cheese.", "unsupported"),
    ]
    for statement, verification in cases:
        [claim] = claims_of(statement, EVIDENCE)
        assert claim.verification == verification
        assert bool(claim.sources) is (verification != "unsupported")
        assert weakest([claim]) == verification


# fmt: off
STATEMENTS_AND_NEGATIONS = [
    ("The fee includes support", "The fee does not include support"),
    ("She can pay", "She can’t pay"),
    ("Die Miete enthält Strom", "Die Miete enthält keinen Strom"),
    ("Le loyer comprend l’eau", "Le loyer ne comprend pas l’eau"),
    ("El precio incluye el agua", "El precio no incluye el agua"),
    ("Il prezzo comprende l’acqua", "Il prezzo non comprende l’acqua"),
    ("A renda inclui a água", "A renda não inclui a água"),
    ("De huur is met water", "De huur is zonder water"),
    ("Hyran omfattar el", "Hyran omfattar inte el"),
    ("Czynsz zawiera wodę", "Czynsz nie zawiera wody"),
    ("Аренда включает воду", "Аренда не включает воду"),
    ("Az ár tartalmazza a vizet", "Az ár nem tartalmazza a vizet"),
    ("Su dahil", "Su dahil değil"),
    ("费用包括水费", "费用不包括水费"),
    ("料金に水道代が含まれる", "料金に水道代は含まれない"),
    ("요금에 수도료가 포함된다", "요금에 수도료가 포함되지 않는다"),
    ("الإيجار يشمل الماء", "الإيجار لا يشمل الماء"),
    ("השכירות כוללת מים", "השכירות לא כוללת מים"),
    ("किराये में पानी शामिल है", "किराये में पानी शामिल नहीं है"),
    ("Giá đã gồm nước", "Giá không gồm nước"),
]
# fmt: on


@given(pair=st.sampled_from(STATEMENTS_AND_NEGATIONS), number=st.integers(2, 9_999), other=st.integers(2, 9_999))
def test_what_is_quoted_is_neither_denied_nor_recounted_by_its_quotation(
    pair: tuple[str, str], number: int, other: int
) -> None:
    """In any language, a statement is never `quoted` from its own negation, nor from other figures."""

    def checked(claim: str, quote: str) -> str:
        return verification_of(f"{claim}: {number} [a].", [PAGE], [(PAGE, quote)])

    for said, denied in (pair, pair[::-1]):
        for rest in ("", " It rains. It is not cold."):
            assert checked(f"It is so, {said}", f"{said}, {number}.{rest}") == "quoted"
            assert checked(f"It is so, {said}", f"{denied}, {number}.{rest}") == "inferred"
            if number != other:
                assert checked(f"It is so, {said}", f"{said}, {other}.{rest}") == "inferred"


def test_lines_that_are_quoted_stay_apart() -> None:
    """`verify` looks for each line, since the marks between two of them, as of a list, are no words of the document."""
    text = "> Notice is given\n>\n> - three months before the end.\n>\n> — [S1]"

    [claim] = claims_of(text, EVIDENCE)

    assert claim.quote == "Notice is given\nthree months before the end."


def test_a_text_is_cut_into_statements() -> None:
    """Sentences share the citations of their paragraph, as an inference; headings, remarks and code claim nothing."""
    cases: list[tuple[str, list[str]]] = [
        ("One [S3]. Two.\n\nThree.", ["inferred", "inferred", "unsupported"]),
        ("# Title\n\n---\n\n*A remark.*\n\nIn short:\n\n```\ncode 1\n```\n(aside)", []),
        ("All from [S3]:\n\n1. one\n2. two", ["inferred", "inferred"]),
        ("| a | b |\n|---|---|\n| x | y [S3] |\n| z | w |", ["inferred", "unsupported"]),
        ("- one [S3]\n  goes on\n- two", ["inferred", "unsupported"]),
        ("The price is not known.", []),
        ("**See first**\n\n__Open points__\n\nOne [S3].", ["inferred"]),
        ("**26 knots**\n\n**It is so.**", ["unsupported", "unsupported"]),
        ("**Open.** One [S3]. Two.", ["inferred", "inferred"]),
        ("**Open:** One.", ["unsupported"]),
        ("这是事实。没有来源[S3]。", ["inferred", "inferred"]),
        ("No. 5 of Dr. J. R. Hall, e.g. this [S3].", ["inferred"]),
    ]
    for text, expected in cases:
        found = [claim.verification for claim in claims_of(text, EVIDENCE)]
        assert found[: len(expected)] == expected
        assert set(found) <= {*expected}


def test_what_has_no_source_is_marked_and_nothing_else_changes() -> None:
    """No citation is added, whatever words a statement shares with a source."""
    text = "Three months [S1].\n\nNotice is given three months before the end.\n\n| a |\n|---|\n| Michael V. Drake |"

    marked = mark_uncited(text, EVIDENCE)

    assert list_uncited(text, EVIDENCE) == ["Notice is given three months before the end.", "Michael V. Drake"]
    assert marked == text.replace("end.", "end. *(no source)*").replace("Drake |", "Drake *(no source)* |")
    assert [claim.sources for claim in claims_of(marked, EVIDENCE)] == [(LEASE.ref,), (), ()]


# fmt: off
PIECES = st.sampled_from([
    "[S1]", "[S1.1]", "[S9]", "“", "”", "> ", "- ", "| ", "\\n", ". ", "1,995", "*", "_", "(", ")", "```", "a",
    "。", "    ", "—",
])
# fmt: on


@given(text=st.lists(PIECES, max_size=60).map("".join))
def test_no_text_makes_a_claim_stronger_than_its_citations(text: str) -> None:
    """Whatever a model writes: sources of claims are cited in it, and marking removes nothing."""
    claims = claims_of(text, EVIDENCE)

    assert all(claim.sources in {(), (LEASE.ref,)} for claim in claims)
    assert all(claim.sources for claim in claims if claim.verification in {"quoted", "computed", "inferred"})
    assert mark_uncited(text, EVIDENCE).replace(" *(no source)*", "").split() == text.split()
