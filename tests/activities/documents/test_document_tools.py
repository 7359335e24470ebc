"""What agents get from the tools that search and read documents."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from made_documents import HANDBOOK, folder, library, one_page, pdf
from pydantic import JsonValue

from activities.contracts import PASSAGE_GAP
from activities.documents.tool import ReadDocument, SearchDocuments
from activities.tools import OUTPUT_CAP_CHARACTERS, ToolAnswer, ToolContext
from chargehand.contracts import Source


def _context(uri: str = "") -> ToolContext:
    return ToolContext(session="s", agent="reader", idempotency_key="k", documents=(uri,) if uri else ())


async def _search(tmp_path: Path, arguments: dict[str, JsonValue], **files: str | bytes) -> ToolAnswer:
    docs = tmp_path / "docs"
    return await SearchDocuments(library(tmp_path, docs)).use(arguments, _context(folder(docs, **files)))


async def _read(tmp_path: Path, arguments: dict[str, JsonValue], **files: str | bytes) -> ToolAnswer:
    docs = tmp_path / "docs"
    return await ReadDocument(library(tmp_path, docs)).use(arguments, _context(folder(docs, **files)))


async def test_a_search_quotes_and_cites(tmp_path: Path) -> None:
    """Words are in the sources, everything else in the output; words found nowhere are named."""
    answer = await _search(tmp_path, {"query": "hotels on the moon", "document": ""}, a__md=HANDBOOK, b__pdf=pdf())

    # One word of two is covered, and a word that is nowhere tells as much as the rarest.
    coverage = {"a.md#L12": pytest.approx(0.45, abs=0.15)}
    assert answer.output == {"coverage": coverage, "documents_searched": 2, "words_found_nowhere": ["moon"]}
    assert answer.sources == (
        Source(ref="a.md#L12", title="Handbook > Expenses", quote="Hotels may cost 160 EUR a night."),
    )


async def test_passages_of_one_page_are_one_source_with_all_their_words(tmp_path: Path) -> None:
    """When several passages of a page are found, its source quotes each of them, the best first."""
    page = one_page(
        ("1 Wear", "Every impeller wears out after some time, whatever it looks like from outside."),
        ("2 Repair", "An impeller with a broken vane must be renewed before the engine runs again."),
    )
    docs = tmp_path / "same"
    opened = await library(tmp_path, docs).open((folder(docs, manual__pdf=page),))
    passages = await opened.search("impeller")

    answer = await _search(tmp_path, {"query": "impeller", "document": ""}, manual__pdf=page)

    assert len(passages) == 2
    assert [(source.ref, source.quote) for source in answer.sources] == [
        ("manual.pdf#page=1", PASSAGE_GAP.join(passage.text for passage in passages))
    ]


async def test_nothing_found_is_an_answer(tmp_path: Path) -> None:
    """Not a fault: the agent learns that the documents do not say."""
    answer = await _search(tmp_path, {"query": "moon", "document": ""}, a__md=HANDBOOK)

    assert answer == ToolAnswer(output={"coverage": {}, "documents_searched": 1, "words_found_nowhere": ["moon"]})


async def test_a_session_without_documents_is_told_so(tmp_path: Path) -> None:
    """The agent should not try other words."""
    answer = await SearchDocuments(library(tmp_path)).use({"query": "x", "document": ""}, _context())

    assert answer.output == {"error": "This session has no documents that can be read."}


async def test_reading_hands_out_lines_and_says_where_to_go_on(tmp_path: Path) -> None:
    """Within the cap, whatever the length of the document."""
    text = "\n".join(f"{number} " + "x" * 90 for number in range(1, 301))

    answer = await _read(tmp_path, {"document": "a.md", "first": 11, "last": 0}, a__md=text)

    [source] = answer.sources
    last = answer.output["last"]
    assert isinstance(last, int)
    assert source.ref == f"a.md#L11-L{last}"
    assert source.quote == "\n".join(text.split("\n")[10:last])
    assert answer.output == {"unit": "line", "first": 11, "last": last, "total": 300, "next": last + 1}
    assert OUTPUT_CAP_CHARACTERS * 0.8 < len(source.quote) + len(str(answer.output)) <= OUTPUT_CAP_CHARACTERS


async def test_one_endless_line_is_cut(tmp_path: Path) -> None:
    """A line longer than the cap is handed out as far as it fits."""
    answer = await _read(tmp_path, {"document": "a.txt", "first": 1, "last": 0}, a__txt="x" * 20_000)

    assert len(answer.sources[0].quote) <= OUTPUT_CAP_CHARACTERS


@pytest.mark.parametrize(
    ("use", "arguments", "named"),
    [
        (_search, {}, "`query`"),
        (_search, {"query": 3, "document": ""}, "`query`"),
        (_search, {"query": " ", "document": ""}, "`query`"),
        (_search, {"query": "x" * 1_001, "document": ""}, "`query`"),
        (_search, {"query": "x", "document": None}, "`document`"),
        (_search, {"query": "x", "document": "b.md"}, "there are: a.md"),
        (_read, {}, "`document`"),
        (_read, {"document": 7, "first": 1, "last": 0}, "`document`"),
        (_read, {"document": "b.md", "first": 1, "last": 0}, "there are: a.md"),
        (_read, {"document": "a.md#Sheet1", "first": 1, "last": 0}, "`document`"),
        (_read, {"document": "a.md", "first": 0, "last": 0}, "`first`"),
        (_read, {"document": "a.md", "first": True, "last": 0}, "`first`"),
        (_read, {"document": "a.md", "first": "1", "last": 0}, "`first`"),
        (_read, {"document": "a.md", "first": 5, "last": 4}, "`last`"),
        (_read, {"document": "a.md", "first": 5, "last": 1.5}, "`last`"),
        (_read, {"document": "a.md", "first": 500, "last": 0}, "ends at line"),
    ],
)
async def test_wrong_arguments_are_named(
    tmp_path: Path, use: Callable[..., Awaitable[ToolAnswer]], arguments: dict[str, JsonValue], named: str
) -> None:
    """A model that errs is told what to change."""
    answer = await use(tmp_path, arguments, a__md=HANDBOOK)

    assert (answer.ok, named in str(answer.output["error"])) == (False, True)


def test_every_argument_is_required() -> None:
    """Strict tool calling of the providers wants no optional arguments and no others."""
    for spec in (SearchDocuments.spec, ReadDocument.spec):
        properties = spec.parameters["properties"]
        assert isinstance(properties, dict)
        assert spec.parameters["required"] == list(properties)
        assert spec.parameters["additionalProperties"] is False
