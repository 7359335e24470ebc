"""How a session's documents are indexed once, found, read and described."""

import asyncio
import re
from pathlib import Path

import pytest
from hostile_documents import pixel_png, workbook_of, zipped
from made_documents import (
    HANDBOOK,
    RICH_TEXT,
    SALES,
    blank_pdf,
    building_begun,
    contract,
    ebook,
    folder,
    library,
    open_document,
    open_slides,
    open_text,
    pdf,
    prices,
    slides,
    textless_pdf,
)

from activities.documents.catalog import DocumentEntry
from activities.documents.library import OpenLibrary
from activities.documents.names import UnknownDocumentError
from activities.documents.ranking import Passage


async def _open(tmp_path: Path, **files: str | bytes) -> OpenLibrary:
    docs = tmp_path / "docs"
    return await library(tmp_path, docs).open((folder(docs, **files),))


async def _best(opened: OpenLibrary, query: str) -> Passage:
    return (await opened.search(query)).passages[0]


_FORMATS = {
    "md": (HANDBOOK, "days of annual leave", ("a.md#L5-L8", "Handbook > Leave", "28 days")),
    "pdf": (pdf(), "warranty labour",
            ("a.pdf#page=2", "Boiler manual > 1 Safety > 1.1 Warranty", "covers labour for two years")),
    "docx": (contract(), "notice period to end the contract",
             ("a.docx#paragraph=3", "Employment contract > Notice period", "three months' notice")),
    "pptx": (slides(), "fee of a trawler", ("a.pptx#page=2", "Fees", "Trawler | 410 EUR")),
    "odt": (open_text(), "fee for a night", ("a.odt#paragraph=3-4", "Moorings > Fees", "fee for a night is 12 EUR.")),
    "odp": (open_slides(), "when is the channel dredged", ("a.odp#page=1", "Dredging", "dredged in May")),
    "epub": (ebook(), "how often did the bell ring", ("a.epub#paragraph=2", "The fog", "rang twice a minute")),
    "rtf": (RICH_TEXT, "what does the tug cost", ("a.rtf#L1-L3", "", "The tug costs 300 EUR an hour, für ein Schiff.")),
    "xlsx": (prices(), "price of bellows",
             ("a.xlsx#Price list!1-6", "Price list > Product, Unit price, Valid from, Order",
              "Bellows | 11.5 | 2026-01-02 | false")),
    "csv": (SALES, "revenue south", ("a.csv#L1-L4", "day, region, Units sold, Revenue (EUR), zip", "South,4")),
    "html": ("<nav><a>Menu</a></nav>\n<h1>Returns</h1>\n<p>Goods may be\nreturned within <b>30</b> days.",
             "return goods", ("a.html#L3-L4", "Returns", "Goods may be returned within 30 days.")),
    "py": ("import x\n\n\ndef launch(rocket):\n    x.go(rocket)\n", "launch code",
           ("a.py#L4-L5", "def launch", "x.go")),
}  # fmt: skip


async def test_passages_of_every_format_are_found_and_cited(tmp_path: Path) -> None:
    """The best passage has its reference, its headings and the words at that place."""
    opened = await _open(tmp_path, **{f"a__{suffix}": content for suffix, (content, _, _) in _FORMATS.items()})

    for suffix, (_, query, (ref, heading, words)) in _FORMATS.items():
        best = (await opened.search(query, document=f"a.{suffix}")).passages[0]
        assert (best.ref, best.heading, words in best.text) == (ref, heading, True)


async def test_the_catalog_describes_each_document(tmp_path: Path) -> None:
    """An entry has what planning needs: kind, length, headings and first words."""
    opened = await _open(tmp_path, a__md=HANDBOOK, b__pdf=pdf())

    assert opened.catalog.documents == (
        DocumentEntry(
            name="a.md",
            kind="md",
            bytes=len(HANDBOOK),
            units=HANDBOOK.count("\n"),
            headings=("Handbook", "Leave", "Expenses"),
            opening="Everyone gets 28 days of paid annual leave. Unused leave of up to five days may be carried over "
            "until 31 March.",
        ),
        DocumentEntry(
            name="b.pdf",
            kind="pdf",
            bytes=(tmp_path / "docs" / "b.pdf").stat().st_size,
            units=2,
            headings=("Boiler manual", "1 Safety", "1.1 Warranty"),
            opening="Never open the cover while the unit is hot. Let it cool for 40 minutes.",
        ),
    )


_UNREADABLE: dict[str, tuple[bytes | str, str]] = {
    "a__pdf": (b"%PDF-1.7 nonsense", "not a readable PDF"),
    "b__pdf": (blank_pdf(), "no text, and no page"),
    "c__pdf": (textless_pdf("secret"), "protected by a password"),
    "a__docx": (b"PK\x03\x04 nonsense", "not a readable DOCX"),
    "a__xlsx": (b"nonsense", "not a readable workbook"),
    "b__xlsx": (zipped({"xl/worksheets/sheet1.xml": bytes(50 << 20)}), "unpacks to 50 MB"),
    "c__xlsx": (workbook_of(b"<worksheet><sheetData/></worksheet>"), "All its sheets are empty"),
    "a__html": ("<script>x</script>", "has no text"),
    "a__md": ("", "empty"),
    "a__csv": ("\n\n", "empty"),
    "b__csv": ("a,b\n" + "x" * 2_000_000, "a line of more than a million characters"),
    "a__ppt": (b"PK", "an old PowerPoint format: save it as PDF"),
    "a__pptx": (b"PK", "not a readable PPTX"),
    "a__odt": (b"PK\x03\x04 nonsense", "not a readable OpenDocument file"),
    "b__odt": (open_document("text", ""), "has no text"),
    "a__odp": (open_document("presentation", "<draw:page/>"), "slides have no text"),
    "a__epub": (open_document("text", ""), "not a readable EPUB"),
    "a__rtf": ("plain", "not a readable RTF"),
    "a__png": (b"\x89PNG\0", "not a readable picture"),
    "b__png": (pixel_png(), "million pixels: save it smaller"),
    "a__jpg": (b"GIF89a", "not a readable picture"),
    "a__gif": (b"GIF89a", "save it as PNG"),
}


async def test_unreadable_documents_are_reported_and_the_others_read(tmp_path: Path) -> None:
    """A bad file never costs a session its other documents, not even those that share its parser."""
    files = {name: content for name, (content, _) in _UNREADABLE.items()}

    opened = await _open(tmp_path, **files, z__pdf=pdf(), z__md=HANDBOOK)

    told = {entry.name: entry.problem for entry in opened.catalog.documents if entry.problem}
    told |= dict(skipped.split(": ", 1) for skipped in opened.catalog.skipped)
    assert {name.replace("__", ".") for name in files} == told.keys()
    assert [name for name, (_, says) in _UNREADABLE.items() if says not in told[name.replace("__", ".")]] == []
    assert (await _best(opened, "warranty")).document == "z.pdf"
    assert (await _best(opened, "hotels")).document == "z.md"


async def test_a_folder_is_indexed_once_until_a_file_changes(tmp_path: Path) -> None:
    """Another worker, or the same one later, reuses the index and builds nothing."""
    docs = tmp_path / "docs"
    uri = folder(docs, a__md="The launch is in September this year.\n", b__csv=SALES)
    first = await library(tmp_path, docs).open((uri,))
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "index").rglob("*")}
    again = await library(tmp_path, docs).open((uri,))
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "index").rglob("*")}
    folder(docs, a__md="The launch is in October this year, says the supplier.\n")
    changed = await library(tmp_path, docs).open((uri,))

    assert (again.catalog, after) == (first.catalog, before)
    assert "October" in (await _best(changed, "launch")).text


async def test_concurrent_opens_build_one_index(tmp_path: Path) -> None:
    """Two workers and several sessions build concurrently, and one complete index and no leftovers remain."""
    docs = tmp_path / "docs"
    uri = folder(docs, a__md=HANDBOOK, b__pdf=pdf(), c__csv=SALES)
    workers = [library(tmp_path, docs), library(tmp_path, docs)]

    opened = await asyncio.gather(*(worker.open((uri,)) for worker in workers for _ in range(3)))

    assert len({each.catalog.model_dump_json() for each in opened}) == 1
    assert len(list((tmp_path / "index").iterdir())) == 1
    assert {(await _best(each, "hotels")).ref for each in opened} == {"a.md#L12"}


async def test_a_cancelled_build_leaves_no_files(tmp_path: Path) -> None:
    """A build that another session waits for continues."""
    docs = tmp_path / "docs"
    uri = folder(docs, a__pdf=pdf(), b__csv=SALES)
    documents = library(tmp_path, docs)
    opening = asyncio.ensure_future(documents.open((uri,)))
    await building_begun(tmp_path)

    opening.cancel()

    with pytest.raises(asyncio.CancelledError):
        await opening
    assert list((tmp_path / "index").iterdir()) == []
    first, second = (asyncio.ensure_future(documents.open((uri,))) for _ in range(2))
    await building_begun(tmp_path)
    first.cancel()
    assert (await second).catalog.tables[0].name == "b"


async def test_a_broken_index_is_built_again(tmp_path: Path) -> None:
    """A full disk may have left it incomplete."""
    docs = tmp_path / "docs"
    uri = folder(docs, a__md=HANDBOOK)
    await library(tmp_path, docs).open((uri,))
    [catalog] = (tmp_path / "index").glob("*/catalog.json")
    catalog.write_text("{")

    opened = await library(tmp_path, docs).open((uri,))

    assert (await _best(opened, "hotels")).ref == "a.md#L12"


async def test_search_matches_word_forms_accents_and_spellings(tmp_path: Path) -> None:
    """Inflections, case, accents and British or American spelling do not matter."""
    texts = {
        "CAFE refunds cancelling bookings": "The café refunded every cancelled booking without asking.",
        "licence fee": "The license fee is due when the boats are launched.",
        "organised colors": "The centre organized all of its colours by hand on a Monday.",
        "behavior catalogue": "The catalog of the harbour describes the behaviour of the ships.",
        "带薪年假": "每位员工每年享有二十八天带薪年假，未用完的可以结转到明年三月。",
    }
    opened = await _open(tmp_path, **{f"{number}__md": f"{text}\n" for number, text in enumerate(texts.values())})

    for number, query in enumerate(texts):
        found = await opened.search(query)
        assert (found.passages[0].document, found.passages[0].coverage, found.missing) == (f"{number}.md", 1, ())


async def test_search_operators_in_a_query_are_plain_words(tmp_path: Path) -> None:
    """No input is interpreted as a query language, and none raises an error."""
    opened = await _open(tmp_path, a__md=HANDBOOK)
    for query in ("body : hotels", "hotels*", "hotels AND NOT night"):
        assert [passage.ref for passage in (await opened.search(query)).passages] == ["a.md#L12"], query
    for query in ('"', 'a" OR "b', "NEAR(a b)", "()", "", "   ", "the of", "🙂", "\0", "x" * 900):
        await opened.search(query)


async def test_passages_with_the_words_close_together_rank_first(tmp_path: Path) -> None:
    """A passage about the query ranks above one that merely contains all its words."""
    scattered = (
        "Pumps are painted green by the apprentices of the yard when the tide is out and the wind is low. On Mondays "
        "the bearings of the crane are looked at, and whoever has grease to spare brings it to the quay."
    )
    near = (
        "Grease the bearings of the pumps before the season begins, and after it has ended, with whatever the maker of "
        "these machines says in the booklet that hangs beside the door of the workshop at the far end of the quay."
    )
    opened = await _open(tmp_path, a__md=scattered, b__md=near)

    found = (await opened.search("grease for bearings of pumps")).passages

    assert [passage.document for passage in found] == ["b.md", "a.md"]


async def test_prose_ranks_before_code_unless_code_is_asked_for(tmp_path: Path) -> None:
    """Even a shorter listing with the same words ranks second, unless the query asks for code."""
    listing = "```\ndef cost(hotels, night):\n    return hotels[night].cost\n```\n"
    sentence = "The cost of a night is refunded up to a limit by those who pay for hotels on journeys."
    opened = await _open(tmp_path, a__md=f"{sentence}\n\n{listing}")

    text = (await opened.search("what hotels cost a night")).passages
    code = (await opened.search("code for what hotels cost a night")).passages

    assert [passage.kind for passage in text] == ["text", "code"]
    assert [passage.kind for passage in code] == ["code", "text"]


async def test_duplicate_passages_are_left_out(tmp_path: Path) -> None:
    """The same paragraph in three files counts once; with another figure it counts as different."""
    dearer = HANDBOOK.replace("EUR", "EUR 999 or")
    opened = await _open(tmp_path, a__md=HANDBOOK, b__md=HANDBOOK, c__md=HANDBOOK, d__md=dearer)

    found = (await opened.search("hotels night EUR")).passages
    assert {passage.ref for passage in found} == {"a.md#L12", "d.md#L12"}


async def test_one_document_can_be_searched_alone(tmp_path: Path) -> None:
    """Results come only from that document, and an unknown name raises an error that lists the known ones."""
    opened = await _open(tmp_path, a__md=HANDBOOK, b__md="# Other\n\nHotels are mentioned in this file too.\n")

    assert {passage.document for passage in (await opened.search("hotels", document="b.md")).passages} == {"b.md"}
    with pytest.raises(UnknownDocumentError, match=re.escape("there are: a.md, b.md")):
        await opened.search("hotels", document="c.md")


async def test_tables_are_described(tmp_path: Path) -> None:
    """Column names need no quotes and have types; a note on a sheet is not a table."""
    opened = await _open(tmp_path, **{"2026 sales__csv": SALES, "prices__xlsx": prices()})

    sales, listed = opened.catalog.tables

    assert (sales.name, sales.document, sales.sheet, sales.rows) == ("data_2026_sales", "2026 sales.csv", "", 3)
    assert sales.columns[1].examples == ("NA", "North", "South")
    assert (listed.name, listed.document, listed.sheet, listed.rows) == ("prices", "prices.xlsx", "Price list", 3)
    types = {column.name: column.type for column in listed.columns}
    assert types == {"product": "VARCHAR", "unit_price": "DOUBLE", "valid_from": "DATE", "order_": "BOOLEAN"}


@pytest.mark.slow
async def test_more_libraries_than_the_cache_holds_can_be_used_at_once(tmp_path: Path) -> None:
    """Forty sessions repeatedly open their documents at the same time, and each gets its own."""
    uris = [(folder(tmp_path / f"folder-{number}", a__md=f"# Title {number}\n\nText.\n"),) for number in range(40)]
    opened = library(tmp_path, tmp_path)

    for _ in range(2):
        libraries = await asyncio.gather(*(opened.open(uri) for uri in uris))

        assert [one.catalog.documents[0].headings for one in libraries] == [(f"Title {n}",) for n in range(40)]


async def test_a_dot_groups_thousands_where_decimals_use_commas(tmp_path: Path) -> None:
    """`1.420` is parsed according to the column's other values, and stays text if none of them decides."""
    power = "Monat;kWh;Kosten\nMai;1.420;511,20 EUR\nJuni;860;309,60 EUR\n"
    weights = "Ware;kg;Preis\nA;1.420;5.20\nB;0.860;3.60\n"
    stock = "| Ware | Menge |\n|---|---|\n| A | 12.500 |\n| B | 850 |\n"
    unclear = "<table><tr><th>Auto</th><th>Stand</th></tr><tr><td>A</td><td>12.500</td></tr></table>"
    opened = await _open(tmp_path, power__csv=power, weights__csv=weights, stock__md=stock, unclear__html=unclear)

    read = {table.name: [column.examples for column in table.columns[1:]] for table in opened.catalog.tables}

    assert read == {
        "power": [("860.0", "1420.0"), ("309.6", "511.2")],
        "weights": [("0.86", "1.42"), ("3.6", "5.2")],
        "stock": [("850.0", "12500.0")],
        "unclear": [("12.500",)],
    }
