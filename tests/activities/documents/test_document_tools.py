"""Results of the tools with which agents search and read documents."""

from pathlib import Path

import pytest
from made_documents import HANDBOOK, contract, folder, library, one_page, pdf, prices
from pydantic import JsonValue

from activities.contracts.quotations import PASSAGE_GAP
from activities.contracts.tool import READING_CHARACTERS, ToolAnswer, ToolContext
from activities.documents.library import DocumentLibrary
from activities.documents.tool import ReadDocument, SearchDocuments
from chargehand.contracts import Source


def _context(uri: str = "") -> ToolContext:
    return ToolContext(session="s", agent="reader", idempotency_key="k", documents=(uri,) if uri else ())


async def _search(tmp_path: Path, arguments: dict[str, JsonValue], **files: str | bytes) -> ToolAnswer:
    docs = tmp_path / "docs"
    return await SearchDocuments(library(tmp_path, docs)).use(arguments, _context(folder(docs, **files)))


async def _read(tmp_path: Path, arguments: dict[str, JsonValue], **files: str | bytes) -> ToolAnswer:
    docs = tmp_path / "docs"
    return await ReadDocument(library(tmp_path, docs)).use(arguments, _context(folder(docs, **files)))


@pytest.fixture(scope="module")
def every_kind(tmp_path_factory: pytest.TempPathFactory) -> tuple[DocumentLibrary, str]:
    """A library, and a folder with documents of every kind, some with names alike."""
    path = tmp_path_factory.mktemp("every-kind")
    guide = "# Guide\n\nFirst things.\nSecond things.\nThird things."
    uri = folder(path / "docs", guide__md=guide, manual__pdf=pdf(), contract__docx=contract(), list__xlsx=prices())
    folder(path / "docs", plan__txt="A plan.", plan__csv="day,task\n1,sail\n2,rest\n")
    folder(path / "docs" / "trips", ferry__md="The ferry leaves at eight.")
    return library(path, path), uri


async def test_search_results_are_quoted_and_cited(tmp_path: Path) -> None:
    """Quotes are in the sources, everything else in the output; words without a match are listed."""
    answer = await _search(tmp_path, {"query": "hotels on the moon", "document": ""}, a__md=HANDBOOK, b__pdf=pdf())

    # One of two words is covered, and a word that occurs nowhere weighs as much as the rarest.
    coverage = [pytest.approx(0.45, abs=0.15)]
    assert answer.output == {"coverage": coverage, "documents_searched": 2, "words_found_nowhere": ["moon"]}
    assert answer.sources == (
        Source(ref="a.md#L12", title="Handbook > Expenses", quote="Hotels may cost 160 EUR a night."),
    )


async def test_passages_of_one_page_form_one_source(tmp_path: Path) -> None:
    """The source quotes every passage found on the page, the best first."""
    page = one_page(
        ("1 Wear", "Every impeller wears out after some time, whatever it looks like from outside."),
        ("2 Repair", "An impeller with a broken vane must be renewed before the engine runs again."),
    )
    docs = tmp_path / "same"
    opened = await library(tmp_path, docs).open((folder(docs, manual__pdf=page),))
    passages = (await opened.search("impeller")).passages

    answer = await _search(tmp_path, {"query": "impeller", "document": ""}, manual__pdf=page)

    assert len(passages) == 2
    assert [(source.ref, source.quote) for source in answer.sources] == [
        ("manual.pdf#page=1", PASSAGE_GAP.join(passage.text for passage in passages))
    ]


async def test_a_search_that_finds_nothing_says_what_to_do(tmp_path: Path) -> None:
    """The agent is told to try other words, or to answer without documents if there are none."""
    answer = await _search(tmp_path, {"query": "moon", "document": ""}, a__md=HANDBOOK)

    note = "Nothing was found. Search again with other or fewer words."
    counts: dict[str, JsonValue] = {"coverage": [], "documents_searched": 1, "words_found_nowhere": ["moon"]}
    assert answer == ToolAnswer(output=counts | {"note": note})
    without = await SearchDocuments(library(tmp_path)).use({"query": "x", "document": ""}, _context())
    assert without.output == {"error": "This session has no documents that can be read. Answer without them."}


async def test_reading_continues_where_it_stopped(tmp_path: Path) -> None:
    """Each part stays within the cap; no line is skipped and none is repeated."""
    lines = [f"Line {number} " + "x" * 60 for number in range(1, 1_201)]
    texts: list[str] = []
    position: JsonValue = 1

    while position is not None:
        answer = await _read(tmp_path, {"document": "a.md", "first": position, "last": 0}, a__md="\n".join(lines))
        [source] = answer.sources
        last, following = answer.output["last"], answer.output.get("next")
        assert answer.output == {"unit": "line", "first": position, "last": last, "total": 1_200} | (
            {"next": following} if following else {}
        )
        assert source.ref == f"a.md#L{position}-L{last}"
        assert READING_CHARACTERS * 0.9 * bool(following) < len(source.quote) <= READING_CHARACTERS
        texts.append(source.quote)
        position = following

    assert "\n".join(texts).split("\n") == lines


async def test_a_line_longer_than_the_cap_is_cut(tmp_path: Path) -> None:
    """The answer says so and suggests searching for the rest."""
    answer = await _read(tmp_path, {"document": "a.txt", "first": 1, "last": 0}, a__txt="x" * 60_000)

    assert len(answer.sources[0].quote) == READING_CHARACTERS
    assert answer.output["note"] == "This line is cut: search the document for what you need of the rest."


async def test_wrong_arguments_are_named(tmp_path: Path) -> None:
    """The error names the argument, so that the model can correct it."""
    uri = folder(tmp_path / "docs", a__md=HANDBOOK, c__pdf="%PDF")
    documents, context = library(tmp_path, tmp_path), _context(uri)
    search: list[tuple[dict[str, JsonValue], str]] = [
        ({}, "`query`"),
        ({"query": 3, "document": ""}, "`query`"),
        ({"query": " ", "document": ""}, "`query`"),
        ({"query": "x" * 1_001, "document": ""}, "`query`"),
        ({"query": "x", "document": 7}, "`document`"),
        ({"query": "x", "document": "b.md"}, "there are: a.md"),
    ]
    read: list[tuple[dict[str, JsonValue], str]] = [
        ({}, "`document`"),
        ({"document": 7, "first": 1, "last": 0}, "`document`"),
        ({"document": "b.md", "first": 1, "last": 0}, "there are: a.md"),
        ({"document": "c.pdf", "first": 1, "last": 0}, "c.pdf could not be read. It is not a readable PDF"),
        ({"document": "a.md#Sheet1", "first": 1, "last": 0}, "`document`"),
        ({"document": "a.md", "first": -1, "last": 0}, "`first`"),
        ({"document": "a.md", "first": True, "last": 0}, "`first`"),
        ({"document": "a.md", "first": "1", "last": 0}, "`first`"),
        ({"document": "a.md", "first": 5, "last": 4}, "`last`"),
        ({"document": "a.md", "first": 5, "last": 1.5}, "`last`"),
        ({"document": "a.md", "first": 500, "last": 0}, "ends at line"),
    ]
    for tool, wrong in ((SearchDocuments(documents), search), (ReadDocument(documents), read)):
        for arguments, named in wrong:
            answer = await tool.use(arguments, context)
            error = str(answer.output["error"])
            assert (answer.ok, named in error, error.endswith("..")) == (False, True, False), arguments


async def test_documents_are_found_by_any_name_or_reference_shown(every_kind: tuple[DocumentLibrary, str]) -> None:
    """Case, folder and extension may differ, and any ref of a search, table or citation opens at its place."""
    documents, uri = every_kind
    refs = {
        "guide.md": ["guide.md#L1-L5"],
        "GUIDE": ["guide.md#L1-L5"],
        "[guide.md#L3-L4]": ["guide.md#L3-L5"],
        "Guide#L3": ["guide.md#L3-L5"],
        "manual.pdf": ["manual.pdf#page=1", "manual.pdf#page=2"],  # text read from several pages is cited by page
        "manual.pdf#page=2": ["manual.pdf#page=2"],
        "Manual#page=2": ["manual.pdf#page=2"],
        "list.xlsx#Price list!4-5": ["list.xlsx#Price list!4-6"],
        "list.xlsx#price LIST": ["list.xlsx#Price list!1-6"],
        "list.xlsx#Remarks": ["list.xlsx#Remarks!1"],
        "contract.docx#paragraph=3": ["contract.docx#paragraph=3-5"],
        "list": ["list.xlsx#Price list!1-6"],
        "ferry": ["trips/ferry.md#L1"],
        "FERRY.md": ["trips/ferry.md#L1"],
    }
    read = ReadDocument(documents)
    answers = {named: await read.use({"document": named, "first": 0, "last": 0}, _context(uri)) for named in refs}

    quotes = {named: answer.sources[-1].quote.split("\n") for named, answer in answers.items()}
    assert {named: [source.ref for source in answer.sources] for named, answer in answers.items()} == refs
    assert quotes["manual.pdf#page=2"][0] == "1.1 Warranty"
    assert quotes["contract.docx#paragraph=3"][1:] == ["Role | Salary", "Engineer | 70,000 EUR"]
    assert quotes["list.xlsx#Remarks"] == ["1: All prices are without tax."]
    [two] = (await read.use({"document": "list.xlsx#Price list", "first": 5, "last": 6}, _context(uri))).sources
    assert (two.ref, two.quote.split("\n")[0][:10]) == ("list.xlsx#Price list!5-6", "5: Bellows")


async def test_an_unknown_document_name_is_answered_with_the_known_ones(
    every_kind: tuple[DocumentLibrary, str],
) -> None:
    """Neither an ambiguous name nor an unknown part of a document is guessed."""
    documents, uri = every_kind
    problems = {
        "plan": "`document`: 'plan' may be plan.csv, plan.txt; name one of them in full.",
        "list.xlsx#Costs": "has no part 'Costs'; its sheets are: Price list, Remarks",
        "guide.md#Costs": "has no part 'Costs'; read it by its name alone",
        "sql:1a2b3c4d": "is the result of a query or a program, not a document: its text is above",
        "https://example.org/x": "is a web address, not one of the user's documents, which are: contract.docx",
        "nothing": "there is no document 'nothing'; there are: contract.docx",
    }
    for named, says in problems.items():
        answer = await ReadDocument(documents).use({"document": named, "first": 0, "last": 0}, _context(uri))
        assert (answer.ok, says in str(answer.output["error"])) == (False, True), named
