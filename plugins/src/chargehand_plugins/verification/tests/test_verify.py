"""Every quotation that a tool returns is found where the tool says; a false one is detected."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from activities.contracts.quotations import PASSAGE_GAP
from activities.contracts.tool import ToolContext
from activities.documents.artifacts import ArtifactStore
from activities.documents.library import DocumentLibrary
from activities.documents.locations import DocumentSources
from activities.documents.parsed import Unit
from activities.documents.passages import Place, parse_reference, reference
from activities.documents.tool import ReadDocument, SearchDocuments
from chargehand.contracts import Claim, QuoteCheck, Source
from chargehand_plugins.verification.activity import quote_stands, verify_sources
from tests.activities.documents.made_documents import HANDBOOK, SALES, contract, folder, library, pdf, prices

_PAGE = "<nav><a>Menu</a></nav>\n<h1>Returns</h1>\n<p>Goods may be\nreturned within <b>30</b> days."
_QUERIES = (
    "what does it cost",
    "how long does it take and who decides",
    "revenue by region and month",
    "engine maintenance interval of the pump",
    "ferries passengers vessel harbour timetable",
    "warranty leave notice period price hotel return",
)


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("verify")


@pytest.fixture(scope="module")
def made(ground: Path) -> str:
    """A folder with a document of each format."""
    files = {"a__md": HANDBOOK, "b__csv": SALES, "f__html": _PAGE, "g__txt": "One line that is rather long. " * 400}
    return folder(ground / "docs", c__pdf=pdf(), d__docx=contract(), e__xlsx=prices(), **files)


@pytest.fixture(scope="module")
def documents(ground: Path) -> DocumentLibrary:
    return library(ground, ground)


async def _sources(uri: str, documents: DocumentLibrary) -> list[Source]:
    """Return every source that the tools give for these documents."""
    context = ToolContext(session="s", agent="reader", idempotency_key="k", documents=(uri,))
    sources: list[Source] = []
    for query in _QUERIES:
        sources += (await SearchDocuments(documents).use({"query": query, "document": ""}, context)).sources
    opened = await documents.open((uri,))
    for entry in opened.catalog.documents:
        first: JsonValue = 1
        for _ in range(20):
            arguments: Mapping[str, JsonValue] = {"document": entry.name, "first": first, "last": 0}
            answer = await ReadDocument(documents).use(arguments, context)
            sources += answer.sources
            first = answer.output.get("next")
            if first is None:
                break
    return sources


async def test_every_quote_by_the_tools_is_verified(ground: Path, made: str, documents: DocumentLibrary) -> None:
    """Found or read, in every format, it is checked against the document opened anew."""
    sources = await _sources(made, documents)

    checks, _ = await verify_sources(
        (made,), sources, (), DocumentSources(ArtifactStore(ground / "artifacts"), (ground,))
    )

    assert len({source.ref.partition("#")[0] for source in sources}) == 7
    assert {check.ref for check in checks} == {source.ref for source in sources}
    assert all(check.stands for check in checks)


async def test_a_false_quote_is_detected(made: str, documents: DocumentLibrary) -> None:
    """Examples are a changed figure, another line, page, sheet or order, and a missing document."""
    opened = await documents.open((made,))
    false = [
        ("a.md#L12", "Hotels may cost 260 EUR a night.", "these words do not stand there: Hotels may cost 260 EUR"),
        ("a.md#L5", "Hotels may cost 160 EUR a night.", "these words do not stand there: Hotels"),
        ("a.md#page=12", "Hotels may cost 160 EUR a night.", "a.md has no page to look at"),
        ("a.md#L5-L6", "Unused leave\nEveryone gets", "these words do not stand there: Everyone gets"),
        ("a.md#L900", "Hotels", "these words do not stand there: Hotels"),
        ("c.pdf#page=1", "The warranty covers labour", "these words do not stand there: The warranty"),
        ("e.xlsx#Remarks!5", "Bellows", "these words do not stand there: Bellows"),
        ("z.md#L1", "Hotels", "it names no place in a document of this session"),
        ("a.md", "Hotels", "it names no place in a document of this session"),
        ("a.md#L12", "  \n", "nothing is quoted"),
    ]
    for ref, quote, problem in false:
        check = await quote_stands(opened, ref, quote)
        assert (check.ref, check.stands, check.problem.startswith(problem)) == (ref, False, True)


async def test_a_missing_document_is_reported_as_unreadable(tmp_path: Path) -> None:
    """A reader who looks in the wrong place is told that nothing could be read there."""
    uri = f"artifact:{'0' * 64}/docs/"
    source = Source(ref="a.md#L5", quote="Everyone gets 28 days")

    (check,), _ = await verify_sources((uri,), (source,), (), DocumentSources(ArtifactStore(tmp_path)))

    assert check.problem.startswith("it names no place in a document of this session; docs could not be read.")
    assert "nothing is stored under" in check.problem


async def test_a_quote_may_be_wrapped_joined_or_cut(made: str, documents: DocumentLibrary) -> None:
    """Tools and reports reorder passages, cut them at a length and change white space."""
    opened = await documents.open((made,))
    for ref, quote in (
        ("a.md#L12", "Hotels  may\ncost 160"),
        ("a.md#L5-L12", f"Unused leave of up to five{PASSAGE_GAP}Everyone gets 28 days"),
        ("a.md#L5-L12", "Everyone gets 28 days of pa"),
        ("a.md#L5-L12", "Everyone gets 28 days\n[…"),
        ("g.txt#L1", "One line that is rather long. " * 400),
    ):
        assert await quote_stands(opened, ref, quote) == QuoteCheck(ref=ref, stands=True)


async def test_sources_outside_documents_are_not_checked(tmp_path: Path) -> None:
    """A web page or a query is not a place in a document."""
    elsewhere = [Source(ref="https://a.example/#L1", url="https://a.example/#L1", quote="x"), Source(ref="sql:1#L1")]

    assert await verify_sources((), elsewhere, (), DocumentSources(ArtifactStore(tmp_path))) == ((), ())


_NUMBERS = st.integers(1, 10**9)


@given(
    document=st.text(st.sampled_from("ab#!L=.-1 "), min_size=1, max_size=12),
    unit=st.sampled_from(["line", "page", "paragraph", "row"]),
    numbers=st.tuples(_NUMBERS, _NUMBERS).map(sorted),
    sheet=st.text(st.sampled_from("ab#!L=.-1 \n"), max_size=12),
)
def test_references_are_read_as_they_are_written(document: str, unit: Unit, numbers: list[int], sheet: str) -> None:
    """Names of documents and sheets may contain any characters."""
    place = sheet if unit == "row" else ""
    ref = reference(document, unit, numbers[0], numbers[1], place)

    assert parse_reference(ref, [document]) == Place(document, unit, numbers[0], numbers[1], place)


async def test_a_claim_is_checked_against_the_words_at_its_source(ground: Path, made: str) -> None:
    """Each is checked anew; one based on anything else, or on a page that is not read again, is marked so."""
    quoted = Claim(text="Six months.", verification="supported", sources=("a.md#L12",), quote="Hotels may cost 160 EUR")
    false = quoted.model_copy(update={"quote": "Hotels may cost 260 EUR a night."})
    elsewhere = quoted.model_copy(update={"sources": ("https://example.org/#top",)})
    inferred = Claim(text="So be it.", verification="cited", sources=("a.md#L12",))

    claims = (quoted, false, elsewhere, inferred)

    _, checks = await verify_sources(
        (made,), (), claims, DocumentSources(ArtifactStore(ground / "artifacts"), (ground,))
    )

    assert [(check.stands, check.was_found, check.verification) for check in checks] == [
        (True, True, "supported"),
        (False, False, "unsupported"),
        (True, False, "supported"),
        (True, False, "cited"),
    ]
