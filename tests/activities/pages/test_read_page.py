"""The tool `read_page`, over a real server on loopback."""

from collections.abc import AsyncIterator, Mapping

import pytest
from page_server import PageServer, answer, serve_pages
from pydantic import JsonValue

from activities.pages.page import FetchLimits
from activities.pages.tool import ReadPage
from activities.tools import OUTPUT_CAP_CHARACTERS, ToolAnswer, ToolContext
from chargehand.contracts import Source

CONTEXT = ToolContext(session="s", agent="researcher", idempotency_key="k")


NOT_OPEN: frozenset[str] = frozenset()


async def read(
    arguments: Mapping[str, JsonValue], allowed: frozenset[str] = NOT_OPEN, limits: FetchLimits | None = None
) -> ToolAnswer:
    tool = ReadPage(allowed, limits or FetchLimits())
    try:
        return await tool.use(arguments, CONTEXT)
    finally:
        await tool.close()


@pytest.fixture
async def server() -> AsyncIterator[PageServer]:
    async with serve_pages() as serving:
        yield serving


async def test_a_page_is_a_source(server: PageServer) -> None:
    """What the page says is the quotation, and where it stands its name."""
    server.pages["/tides.txt"] = answer(b"The tide comes in twice a day.")
    url = f"http://{server.host}/tides.txt"

    answered = await read({"url": f" {url}#top "}, frozenset({server.host}))

    assert answered == ToolAnswer(
        output={"url": url, "characters": 30},
        sources=(Source(ref=url, url=url, quote="The tide comes in twice a day."),),
    )


async def test_a_page_states_what_it_is(server: PageServer) -> None:
    """Title, author and date of a page go with it."""
    sentence = "The tide comes in and goes out twice a day, because the Moon pulls at the water of the sea."
    server.pages["/"] = answer(
        f"<html><head><title>Tides</title><meta name=author content='Ann Lee'>"
        f"<meta property='article:published_time' content='2024-03-04'></head>"
        f"<body><article><p>{sentence}</p></article></body></html>".encode(),
        content_type="text/html; charset=utf-8",
    )

    answered = await read({"url": f"http://{server.host}/"}, frozenset({server.host}))

    assert answered.output == {
        "url": f"http://{server.host}/",
        "title": "Tides",
        "author": "Ann Lee",
        "date": "2024-03-04",
        "characters": len(sentence),
    }
    assert [(source.title, source.quote) for source in answered.sources] == [("Tides", sentence)]


@pytest.mark.parametrize("path", ["/", "/" + "p" * 1_900])
async def test_an_answer_stays_under_the_cap(server: PageServer, path: str) -> None:
    """A long page is cut and said to be cut; a model is handed no more than the cap of a tool call."""
    server.pages[path] = answer(b"word " * 100_000)

    answered = await read({"url": f"http://{server.host}{path}"}, frozenset({server.host}))

    assert len(answered.model_dump_json()) <= OUTPUT_CAP_CHARACTERS
    assert answered.output["characters"] == 499_999  # without the last blank
    assert answered.output["cut"] == f"Only the first {len(answered.sources[0].quote)} characters are given."


@pytest.mark.parametrize(
    ("path", "says"),
    [("/gone", "answered 404 Not Found"), ("/paper", "is application/pdf"), ("/big", "larger than 0.001 MB")],
)
async def test_a_page_that_cannot_be_read_is_an_answer(server: PageServer, path: str, says: str) -> None:
    """The agent is told in words and can go elsewhere; nothing is raised."""
    server.pages["/paper"] = answer(b"%PDF", content_type="application/pdf")
    server.pages["/big"] = answer(b"x" * 2_000)

    answered = await read(
        {"url": f"http://{server.host}{path}"},
        frozenset({server.host}),
        FetchLimits(wire_bytes=1_000, decoded_bytes=1_000),
    )

    assert not answered.ok
    assert says in str(answered.output["error"])
    assert answered.sources == ()


@pytest.mark.parametrize("arguments", [{}, {"url": ""}, {"url": " "}, {"url": 7}, {"url": ["http://a.example"]}])
async def test_a_call_without_a_url_is_answered_in_words(arguments: dict[str, JsonValue]) -> None:
    """A call that makes no sense costs nothing."""
    answered = await read(arguments)

    assert answered == ToolAnswer(
        ok=False, output={"error": "read_page needs `url`: the full address of one page, as text."}
    )
