"""Text out of bodies. HTML is read by the real child process."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from activities.http.page import Fetched, FetchError, Page
from activities.tools.pages.text import PageTexts
from tests.child_processes import children

ARTICLE = """<!doctype html><html><head><title>Tides explained</title>
<meta name="author" content="Ann Lee"><meta property="article:published_time" content="2024-03-04">
</head><body><nav><a href="/">Home</a> <a href="/about">About us</a></nav>
<article><h1>Tides explained</h1>
<p>The tide comes in and goes out twice a day, because the Moon pulls at the water of the sea.</p>
<h2>Spring tides</h2>
<p>When Sun and Moon pull together, at new moon and at full moon, the difference is greatest of all.</p>
<table><tr><th>Port</th><th>Range</th></tr><tr><td>Saint-Malo</td><td>12 m</td></tr></table>
</article><footer>All rights reserved. Cookies. Imprint.</footer></body></html>"""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def texts() -> AsyncIterator[PageTexts]:
    reading = PageTexts()
    yield reading
    await reading.close()


def fetched(body: bytes, media_type: str = "text/html", charset: str = "") -> Fetched:
    return Fetched(url="https://www.example/tides", media_type=media_type, charset=charset, body=body)


async def test_an_article_becomes_markdown(texts: PageTexts) -> None:
    """Headings, paragraphs and tables are kept, navigation and footer removed; author and date are extracted."""
    page = await texts.read(fetched(ARTICLE.encode()))

    assert (page.title, page.author, page.date) == ("Tides explained", "Ann Lee", "2024-03-04")
    assert "# Tides explained" in page.text
    assert "## Spring tides" in page.text
    assert "| Saint-Malo | 12 m |" in page.text
    assert "because the Moon pulls" in page.text
    assert "About us" not in page.text
    assert "Imprint" not in page.text


async def test_a_date_comes_with_its_origin(texts: PageTexts) -> None:
    """A publication date takes precedence over a modification date; an ambiguous date is marked as a guess."""
    json_ld = (
        '<script type="application/ld+json">{"datePublished": "2024-01-01", "dateModified": "2024-02-02"}</script>'
    )
    dates = {
        '<meta name="citation_publication_date" content="2023/5/6">': ("2023-05-06", "meta citation_publication_date"),
        '<meta name="date" content="2023-05">': ("2023-05", "meta date"),
        json_ld: ("2024-01-01", "JSON-LD datePublished"),
        '<meta property="og:updated_time" content="2024-02-02T00:00:00+02:00">': ("2024-02-02", "meta og:updated_time"),
        '<meta name="date" content="03/04/2024">': ("2024-04-03", "guessed from the page"),
        "</head><body><p>Posted on 4 March 2024 by Ann.</p>": ("2024-03-04", "guessed from the page"),
        "": ("", ""),
    }

    for head, expected in dates.items():
        html = f"<html><head>{head}</head><body><p>The tide comes in and goes out twice a day.</p></body></html>"
        page = await texts.read(fetched(html.encode()))
        assert (page.date, page.date_origin) == expected, head


async def test_a_page_in_another_charset_is_read(texts: PageTexts) -> None:
    """The server's charset is used, or else the one that the page declares."""
    html = ARTICLE.replace("Ann Lee", "Zoë Müller")
    declared = html.replace("<head>", '<head><meta charset="iso-8859-1">')

    by_server = await texts.read(fetched(html.encode("latin-1"), charset="iso-8859-1"))
    by_page = await texts.read(fetched(declared.encode("latin-1")))

    assert (by_server.author, by_page.author) == ("Zoë Müller", "Zoë Müller")


async def test_plain_text_is_left_as_it_is(texts: PageTexts) -> None:
    """Whatever charset is stated, it is decoded as text; undecodable bytes become U+FFFD."""
    for charset in ("", "utf-8", "nonsense", "hex", "punycode", "idna", "zip", "rot13"):
        page = await texts.read(fetched(b"\xef\xbb\xbf  # Not a heading\nline\n", "text/plain", charset))
        assert page == Page(text="# Not a heading\nline", characters=20), charset
    assert await texts.read(fetched(b"a\xffb", "text/plain", "utf-8")) == Page(text="a\ufffdb", characters=3)


async def test_a_page_without_text_is_reported(texts: PageTexts) -> None:
    """An agent never gets an empty page."""
    script = b"<html><body><script>render()</script></body></html>"
    for body in (b"", b"   ", script, b"<html></html>", b"\x00\x01\x02"):
        with pytest.raises(FetchError, match="no text that can be read"):
            await texts.read(fetched(body))


async def test_meta_refresh_is_reported_and_not_followed(texts: PageTexts) -> None:
    """The agent gets the target and must request it with a call, which is checked like any other."""
    for quote in ('"', "'", ""):
        html = f"<html><head><META HTTP-EQUIV={quote}Refresh{quote} CONTENT='0;URL=/next'></head></html>"
        with pytest.raises(FetchError, match=r"no text but redirects browsers to https://www\.example/next$"):
            await texts.read(fetched(html.encode()))


async def test_a_long_page_is_cut_in_the_child_process(texts: PageTexts) -> None:
    """The text is cut to 2,000,000 characters, and the full length is known."""
    page = await texts.read(fetched(b"<html><body><p>" + b"tide " * 500_000 + b"</p></body></html>"))

    assert (len(page.text), page.characters) == (2_000_000, 2_499_999)


async def test_invalid_characters_are_replaced(texts: PageTexts) -> None:
    """Lone surrogates and out-of-range code points cannot be carried in a payload."""
    page = await texts.read(
        fetched(b"<html><body><p>Closed on &#xD83D; Monday and &#x110000; on Sunday.</p></body></html>")
    )

    assert page.text.encode()
    assert "Monday" in page.text


async def test_a_killed_parser_costs_one_page() -> None:
    """That page is an error in words, and a new child reads the next page."""
    others = children("activities.tools.pages.page_process")
    reading = PageTexts()
    await reading.read(fetched(ARTICLE.encode()))
    victim = children("activities.tools.pages.page_process") - others

    for process in victim:
        os.kill(process, signal.SIGKILL)
    with pytest.raises(FetchError, match="takes more time or memory to parse"):
        await reading.read(fetched(ARTICLE.encode()))
    after = await reading.read(fetched(ARTICLE.encode()))
    await reading.close()

    assert len(victim) == 1
    assert after.title == "Tides explained"


@pytest.mark.slow
async def test_concurrent_pages_are_parsed_by_two_children() -> None:
    """Any number of pages needs limited memory, and closing leaves no process behind."""
    others = children("activities.tools.pages.page_process")
    reading = PageTexts()

    pages = await asyncio.gather(*(reading.read(fetched(ARTICLE.encode())) for _ in range(20)))
    running = children("activities.tools.pages.page_process") - others
    await reading.close()

    assert {page.title for page in pages} == {"Tides explained"}
    assert (len(running), children("activities.tools.pages.page_process") - others) == (2, set())
