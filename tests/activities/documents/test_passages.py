"""How texts are cut into passages that can be quoted and cited."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activities.documents.formats.plain_text import decode, parse_text
from activities.documents.parsed import Block
from activities.documents.passages import LONGEST_CHARACTERS, cut


def _cut(text: str, style: str = "markdown") -> list[Block]:
    parsed = parse_text(text, {"markdown": "text.md", "prose": "text.rst"}.get(style, "text.py"))
    return list(cut(parsed.blocks, parsed.unit))


_WORDS = st.text(st.sampled_from("abcdefghijé "), min_size=3, max_size=60).map(lambda text: f"A{text.strip()} word")
_SENTENCES = st.lists(_WORDS, min_size=1, max_size=60).map(lambda words: ". ".join(words) + ".")
_BLOCKS = st.one_of(
    _SENTENCES,
    _SENTENCES.map(lambda text: text.replace(". ", ".\n")),
    _WORDS.map(lambda title: f"## {title}"),
    _WORDS.map(lambda title: f"{title}\n======="),
    st.lists(_WORDS, min_size=1, max_size=40).map(lambda items: "\n".join(f"- {item}" for item in items)),
    st.lists(_WORDS, min_size=1, max_size=40).map(lambda rows: "\n".join(f"| {row} |" for row in rows)),
    _SENTENCES.map(lambda text: f"```\n{text}\n\n{text}\n```"),
    st.just("x" * 2_000),
)


@given(st.lists(_BLOCKS, min_size=1, max_size=8).map("\n\n".join), st.sampled_from(["markdown", "prose", "code"]))
def test_passages_match_the_lines_they_reference(text: str, style: str) -> None:
    """The words of every passage are on the lines it names, and no passage exceeds the maximum length."""
    lines = text.split("\n")
    for span in _cut(text, style):
        there = re.sub(r"\s+", " ", "\n".join(lines[span.first - 1 : span.last]))

        assert len(span.text) <= LONGEST_CHARACTERS
        for piece in span.text.split("\n"):
            assert re.sub(r"\s+", " ", piece).strip() in there


def test_passages_carry_their_headings() -> None:
    """Headings run from outermost to innermost; one of the same level replaces the previous one."""
    markdown = _cut(
        "# Guide\n\n## First *steps*\n\nInstall it before anything else is done.\n\n"
        "## The `run_all` command\n\n### Deep\n\nThis is a paragraph about deep things."
    )
    prose = _cut(
        "=====\nGuide\n=====\n\nFirst steps\n-----------\n\nInstall it before anything else.\n\nOther\n-----\n\n"
        "Something else entirely is written here.",
        "prose",
    )

    headings = [(span.heading, span.first) for span in markdown]
    assert headings == [("Guide > First steps", 5), ("Guide > The run_all command > Deep", 11)]
    assert [span.heading for span in prose] == ["Guide > First steps", "Guide > Other"]


def test_short_pieces_are_joined() -> None:
    """A list belongs to the line that introduces it; lone fragments are dropped, except fields like an owner."""
    spans = _cut("# T\n\nYou need these:\n\n- a hammer\n- a nail\n\n# U\n\nNo.\n")
    fields = _cut("# Policy\n\n**Owner:** Ann\n\n# Notes\n\nNote:\n")

    assert [(span.text, span.first, span.last) for span in spans] == [("You need these:\n\n- a hammer\n- a nail", 3, 6)]
    assert [span.text for span in fields] == ["**Owner:** Ann"]


def test_code_listings_are_distinguished_from_text() -> None:
    """Fences, indentation after `::` and prompts mark listings, and no heading is found inside them."""
    markdown = _cut("Some text that comes before the code.\n\n```\n# not a title\nvalue = compute(everything)\n```\n")
    prose = _cut(
        "It is called like this, for example::\n\n    value = compute(everything)\n\nAnd then it goes on for a while.",
        "prose",
    )

    assert [(span.kind, span.heading) for span in markdown] == [("text", ""), ("code", "")]
    assert [span.kind for span in prose] == ["text", "code", "text"]


def test_long_paragraphs_are_cut_between_sentences() -> None:
    """No sentence is split, abbreviations do not end one, and each passage names its own lines."""
    sentence = "Dr. Smith asked, e.g. No. 7 of Fig. 2, whether the pump should run at night and so did others."
    text = "\n".join([sentence] * 30)

    spans = _cut(text)

    assert all(set(span.text.split("\n")) == {sentence} for span in spans)
    assert [span.first for span in spans[1:]] == [span.last + 1 for span in spans[:-1]]
    assert (spans[0].first, spans[-1].last) == (1, 30)


def test_passages_do_not_cross_pages() -> None:
    """Each passage is on one page, so that its reference points there."""
    blocks = [Block("A sentence that stands on page one.", 1, 1), Block("A sentence that stands on page two.", 2, 2)]

    assert [(span.first, span.last) for span in cut(blocks, "page")] == [(1, 1), (2, 2)]


def test_common_text_encodings_are_decoded() -> None:
    """UTF-8 with or without a BOM, UTF-16 and Windows-1252 are decoded; binary data is refused."""
    texts = {
        "naïve\r\nlines".encode(): "naïve\nlines",
        "\ufeffnaïve".encode(): "naïve",
        "naïve".encode("utf-16"): "naïve",
        "naïve".encode("cp1252"): "naïve",
        b"\x89PNG\r\n\0\0": None,
    }

    assert {content: (text := decode(content)) and text.text for content in texts} == texts


_LETTERS = {
    "cp1250": "Zápis ze schůze: předseda přivítal všechny členy a seznámil je s programem. Příští schůze je v úterý.",
    "iso8859_2": "Zápis schůze: předseda přivítal všechny členy a seznámil je s programem. Příští schůze je v úterý.",
    "cp1251": "Договор аренды заключён на один год. Арендатор обязан уплатить залог в размере двух платежей.",
    "cp1252": "La réunion a été déplacée à mardi. Les frais s’élèvent à 300 €. Où est l’élève qui a reçu le reçu ?",
    "latin-1": "Müllerstraße, Größe, Bäckerweg: Die Gebühr für Gäste beträgt 3 Kronen.",
    "cp1253": "Η συνεδρίαση μεταφέρθηκε για την Τρίτη. Τα μέλη πληρώνουν τη συνδρομή έως τον Φεβρουάριο.",
    "cp1254": "Toplantı salı gününe ertelendi. Üyeler aidatlarını şubat ayına kadar ödeyecek, çünkü gişe kapalı.",
    "cp1255": "הישיבה נדחתה ליום שלישי. על החברים לשלם את דמי החבר עד סוף החודש.",
    "cp1256": "تم تأجيل الاجتماع إلى يوم الثلاثاء. يجب على الأعضاء دفع الرسوم قبل نهاية الشهر.",
    "cp932": "会議の議事録です。次回の会議は来週の火曜日に開催されます。出席者は五名でした。",
    "gb18030": "会议纪要：下次会议将于下周二举行。出席人数为五人，预算已获批准。",
    "cp949": "회의록: 다음 회의는 다음 주 화요일에 열립니다. 참석자는 다섯 명이었습니다.",
}


@pytest.mark.parametrize("encoding", _LETTERS)
def test_undeclared_encodings_are_decoded_correctly_or_flagged(encoding: str) -> None:
    """This holds for a text of any length; an invalid byte does not corrupt the other lines."""
    text = _LETTERS[encoding]
    read = [decode(text[:length].encode(encoding)) for length in range(8, len(text) + 1)]
    broken = decode(f"{text}\n{text}\n{text}\n".encode() + b"\xff\n")

    sure = [each.text for each in read if each and not each.doubt]
    assert sure == [text[: len(each)] for each in sure]
    assert [each.text == text for each in read[-1:] if each] == [True]
    assert [(each.text[: len(text)], "broken" in each.doubt) for each in (broken,) if each] == [(text, True)]
