"""The tool `read_page`, over a real server on loopback."""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import cast

import pytest
from page_server import PUBLIC, Dial, Names, PageServer, answer
from pydantic import JsonValue

from activities.contracts.rounds import Round, ToolResult
from activities.contracts.tool import READING_CHARACTERS, ToolAnswer, ToolContext
from activities.http.guarded_get import GuardedBackend
from activities.http.page import FetchLimits, Page
from activities.tools.pages.tool import KeptPage, PageCache, ReadPage
from activities.turn_kinds.work import FindingDraft, WorkAnswer
from chargehand.contracts import Source
from tests.activities.documents.made_documents import contract, pdf, prices
from workflows.rules.evidence import ground, sources_read

CONTEXT = ToolContext(session="s", agent="researcher", idempotency_key="k")


async def read(arguments: Mapping[str, JsonValue], allowed: str = "", limits: FetchLimits | None = None) -> ToolAnswer:
    tool = ReadPage(frozenset({allowed} - {""}), limits or FetchLimits())
    try:
        return await tool.use(arguments, CONTEXT)
    finally:
        await tool.close()


async def test_a_page_is_a_source(server: PageServer) -> None:
    """The quote is the page's text and the ref its URL; a page of an internal host is private."""
    server.pages["/tides.txt"] = answer(b"The tide comes in twice a day.")
    url = f"http://{server.host}/tides.txt"

    answered = await read({"url": f" {url}#top "}, server.host)

    quoted = Source(ref=url, url=url, quote="The tide comes in twice a day.")
    assert answered == ToolAnswer(output={"characters": 30}, sources=(quoted,), is_private=True)


async def test_a_pages_title_author_and_date_are_returned(server: PageServer) -> None:
    """The origin of the date is included."""
    sentence = "The tide comes in and goes out twice a day, because the Moon pulls at the water of the sea."
    server.pages["/"] = answer(
        f"<html><head><title>Tides</title><meta name=author content='Ann Lee'>"
        f"<meta property='article:published_time' content='2024-03-04'></head>"
        f"<body><article><p>{sentence}</p></article></body></html>".encode(),
        content_type="text/html; charset=utf-8",
    )

    answered = await read({"url": f"http://{server.host}/"}, server.host)

    dated = {"date": "2024-03-04", "date_from": "meta article:published_time"}
    assert answered.output == {"author": "Ann Lee", **dated, "characters": len(sentence)}
    assert [(source.title, source.quote) for source in answered.sources] == [("Tides", sentence)]


async def test_a_long_page_is_read_to_its_end(server: PageServer) -> None:
    """No text is left out, no sentence is split, `find` is offered meanwhile, and the page is downloaded once."""
    sentences = [f"Sentence {number} of the page tells of tide {number * 7}." for number in range(2_000)]
    server.pages["/"] = answer(" ".join(sentences).encode())
    url = f"http://{server.host}/"
    tool = ReadPage(frozenset({server.host}))

    windows: list[str] = []
    first: JsonValue = 0
    while isinstance(first, int):
        answered = await tool.use({"url": url, "from": first, "find": ""}, CONTEXT)
        windows.append(answered.sources[0].quote)
        first = answered.output.get("next_from")
        assert ("`find` searches the rest" in str(answered.output.get("note"))) is (first is not None)
    await tool.close()

    assert " ".join(windows) == " ".join(sentences)
    assert {window[-1] for window in windows} == {"."}
    assert [len(window) > READING_CHARACTERS * 0.9 for window in windows[:-1]] == [True] * (len(windows) - 1)
    assert max(map(len, windows)) <= READING_CHARACTERS
    assert server.paths == ["/"]


async def test_quotes_from_every_read_of_a_page_are_kept(server: PageServer) -> None:
    """Several calls for one page give one source, and text from each of them can be quoted."""
    sentences = [f"Sentence {number} of the page tells of tide {number * 7}." for number in range(2_000)]
    server.pages["/"] = answer(" ".join(sentences).encode())
    url = f"http://{server.host}/"
    tool = ReadPage(frozenset({server.host}))
    calls: list[dict[str, JsonValue]] = [{"url": url}, {"url": url, "from": 50_000}, {"url": url, "find": "Tide 13993"}]

    answers = [await tool.use(arguments, CONTEXT) for arguments in calls]
    await tool.close()

    results = [ToolResult(call_id="1", tool="read_page", sources=answered.sources) for answered in answers]
    read = sources_read([Round(results=(each,)) for each in results], ())
    assert [*read] == [url]
    for quote in (sentences[0], sentences[1_200], sentences[1_999]):
        finding = FindingDraft(claim="c", source_refs=[url], quote=quote, confidence=50)
        draft = WorkAnswer(status="success", content="c", findings=[finding], confidence=50, gaps=[], message="")
        assert [source.quote for source in ground(draft, read).sources] == [quote]


async def test_words_are_found_with_their_offsets(server: PageServer) -> None:
    """Case, accents and line breaks do not matter, and reading from an offset starts with that match."""
    filler = "Nothing of note happens here. " * 600
    server.pages["/"] = answer(f"{filler}The ferry to **Zürich\nHarbour** leaves.{filler}".encode())
    url = f"http://{server.host}/"
    tool = ReadPage(frozenset({server.host}))

    found = await tool.use({"url": url, "from": 0, "find": "zurich harbour"}, CONTEXT)
    [offset] = cast("list[int]", found.output["found_at"])
    read = await tool.use({"url": url, "from": offset, "find": ""}, CONTEXT)
    missing = await tool.use({"url": url, "from": 0, "find": "Basel"}, CONTEXT)
    apart = await tool.use({"url": url, "from": 0, "find": "harbour ferry Basel"}, CONTEXT)
    await tool.close()

    assert "The ferry to **Zürich\nHarbour** leaves." in found.sources[0].quote
    assert len(found.sources[0].quote) < 1_000
    assert read.sources[0].quote.startswith(found.sources[0].quote)
    assert (missing.output["matches"], missing.sources) == (0, ())
    assert "The ferry to" in apart.sources[0].quote
    assert str(apart.output["note"]).endswith("contain the most of them. Not on the page: basel.")


async def test_concurrent_calls_download_a_page_once(server: PageServer) -> None:
    """This applies to unreadable pages too; a later call tries those again."""
    server.pages["/"] = answer(b"The tide comes in twice a day.")
    tool = ReadPage(frozenset({server.host}))
    calls: list[dict[str, JsonValue]] = [
        {"url": f"http://{server.host}{path}", "from": 0, "find": find}
        for path in ("/", "/gone")
        for find in ("tide", "day", "twice")
    ]

    answers = await asyncio.gather(*(tool.use(arguments, CONTEXT) for arguments in calls))
    await tool.use(calls[-1], CONTEXT)
    await tool.close()

    assert [answered.ok for answered in answers] == [True] * 3 + [False] * 3
    assert sorted(server.paths) == ["/", "/gone", "/gone"]


async def test_the_page_cache_is_bounded() -> None:
    """The most recently used pages are kept, as many as fit."""
    reads: list[str] = []

    async def read_page(url: str) -> KeptPage:
        reads.append(url)
        return KeptPage(url, Page(text="x" * 400, characters=400), is_internal=False)

    cache = PageCache(most_characters=3_000)
    for url in ("a", "b", "a", "c", "a", "b"):
        await cache.get("s", url, read_page)

    assert reads == ["a", "b", "c", "b"]


async def test_documents_can_be_read_by_url(server: PageServer) -> None:
    """PDF, DOCX and workbooks get page and sheet marks, and their date from Last-Modified."""
    docx = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
    cases = [
        ("application/pdf", pdf(), "[page 2]\n1.1 Warranty\nThe warranty covers labour for two years"),
        (docx, contract(), "Either side may end the contract with three months' notice.\nRole | Salary"),
        ("application/octet-stream", prices(), "[sheet Price list]\n1: Prices of 2026\n3: Product | Unit price"),
    ]
    for content_type, body, text in cases:
        server.pages["/"] = answer(body, content_type=content_type, Last_Modified="Wed, 04 Mar 2026 10:00:00 GMT")
        answered = await read({"url": f"http://{server.host}/"}, server.host)
        assert text in answered.sources[0].quote
        assert (answered.output["date"], answered.output["date_from"]) == ("2026-03-04", "header Last-Modified")


async def test_redirect_targets_of_internal_servers_are_private(
    server: PageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds whoever serves the target, and whether or not it can be read."""
    server.pages["/moved"] = answer(status="302 Found", Location="http://www.example/secret")
    server.pages["/lost"] = answer(status="302 Found", Location="http://www.example/lost/secret")
    server.pages["/refreshed"] = answer(b"<meta http-equiv=refresh content='0;url=/secret'>", content_type="text/html")
    server.pages["/secret"] = answer(b"Public.")
    guarded = partial(GuardedBackend, resolve=Names((PUBLIC,)).resolve, dial=Dial(server.port))
    monkeypatch.setattr("activities.http.guarded_get.GuardedBackend", guarded)

    paths = ("moved", "lost", "refreshed")
    inside = [await read({"url": f"http://wiki.example/{path}"}, "wiki.example") for path in paths]
    outside = [await read({"url": f"http://www.example/{path}"}) for path in paths]

    assert all("secret" in str(each) for each in (*inside, *outside))
    assert {each.is_private for each in inside} == {True}
    assert {each.is_private for each in outside} == {False}


async def test_an_unreadable_page_is_answered_in_words(server: PageServer) -> None:
    """Content that contradicts its stated type is given to no parser, and the agent can try elsewhere."""
    cases = [
        ("text/html", pdf(), "is stated to be text/html, but it contains PDF"),
        ("text/plain", contract(), "is stated to be text/plain, but it contains DOCX"),
        ("application/pdf", b"<html>" * 300, "is stated to be application/pdf, but it contains something else"),
        ("application/pdf", prices(), "is stated to be application/pdf, but it contains XLSX"),
        ("application/octet-stream", b"plain text", "but it contains something else"),
        ("application/octet-stream", b"PK\x03\x04 anything", "but it contains something else"),
        ("image/png", b"\x89PNG", "is image/png; only pages of text, PDF"),
        ("application/pdf", b"%PDF-1.7 and then nothing", "the file is broken"),
        ("text/plain", b"x" * 100_001, "larger than 0.1 MB"),
    ]
    limits = FetchLimits(wire_bytes=100_000, decoded_bytes=100_000)
    for content_type, body, says in cases:
        server.pages["/"] = answer(body, content_type=content_type)
        answered = await read({"url": f"http://{server.host}/"}, server.host, limits)
        assert (answered.ok, says in str(answered.output["error"]), answered.sources) == (False, True, ()), says


async def test_a_call_without_a_url_is_answered_in_words() -> None:
    """The error asks for the full address of one page."""
    problem = "`url` must be the full address of one page, such as https://example.org/page."
    calls: list[dict[str, JsonValue]] = [{}, {"url": ""}, {"url": " "}, {"url": 7}, {"url": ["http://a.example"]}]

    assert [await read(call) for call in calls] == [ToolAnswer(ok=False, output={"error": problem})] * len(calls)


async def test_wrong_from_and_find_arguments_are_named(server: PageServer) -> None:
    """The error names the argument, so that the model can correct it."""
    server.pages["/"] = answer(b"The tide comes in twice a day.")
    wrong: list[tuple[dict[str, JsonValue], str]] = [
        ({"from": -1}, "`from`"),
        ({"from": True}, "`from`"),
        ({"from": "0"}, "`from`"),
        ({"from": 30}, "ends at 30 characters"),
        ({"find": 7}, "`find`"),
        ({"find": "x" * 201}, "`find`"),
    ]
    for arguments, named in wrong:
        answered = await read({"url": f"http://{server.host}/"} | arguments, server.host)
        assert (answered.ok, named in str(answered.output["error"])) == (False, True), arguments
