"""Text out of bodies."""

import pytest

from activities.pages.page import Fetched, Page, PageUnreadableError
from activities.pages.text import page_text

ARTICLE = """<!doctype html><html><head><title>Tides explained</title>
<meta name="author" content="Ann Lee"><meta property="article:published_time" content="2024-03-04">
</head><body><nav><a href="/">Home</a> <a href="/about">About us</a></nav>
<article><h1>Tides explained</h1>
<p>The tide comes in and goes out twice a day, because the Moon pulls at the water of the sea.</p>
<h2>Spring tides</h2>
<p>When Sun and Moon pull together, at new moon and at full moon, the difference is greatest of all.</p>
<table><tr><th>Port</th><th>Range</th></tr><tr><td>Saint-Malo</td><td>12 m</td></tr></table>
</article><footer>All rights reserved. Cookies. Imprint.</footer></body></html>"""


def fetched(body: bytes, media_type: str = "text/html", charset: str = "") -> Fetched:
    return Fetched(url="https://www.example/tides", media_type=media_type, charset=charset, body=body)


def test_an_article_becomes_markdown() -> None:
    """Headings, paragraphs and tables stay; navigation and footer go; author and date are found."""
    page = page_text(fetched(ARTICLE.encode()))

    assert (page.title, page.author, page.date) == ("Tides explained", "Ann Lee", "2024-03-04")
    assert "# Tides explained" in page.text
    assert "## Spring tides" in page.text
    assert "| Saint-Malo | 12 m |" in page.text
    assert "because the Moon pulls" in page.text
    assert "About us" not in page.text
    assert "Imprint" not in page.text


def test_a_page_in_another_charset_is_read() -> None:
    """The server's word on the charset counts, and without it the page's own."""
    html = ARTICLE.replace("Ann Lee", "Zoë Müller")
    declared = html.replace("<head>", '<head><meta charset="iso-8859-1">')

    by_server = page_text(fetched(html.encode("latin-1"), charset="iso-8859-1"))
    by_page = page_text(fetched(declared.encode("latin-1")))

    assert (by_server.author, by_page.author) == ("Zoë Müller", "Zoë Müller")


@pytest.mark.parametrize("charset", ["", "utf-8", "nonsense", "hex", "punycode", "idna", "zip", "rot13"])
def test_plain_text_is_left_as_it_is(charset: str) -> None:
    """Whatever the charset is said to be, text is decoded as text."""
    page = page_text(fetched(b"\xef\xbb\xbf  # Not a heading\nline\n", "text/plain", charset))

    assert page == Page(text="# Not a heading\nline")


def test_bytes_that_are_no_text_do_not_hurt() -> None:
    """What cannot be decoded is marked in the text."""
    assert page_text(fetched(b"a\xffb", "text/plain", "utf-8")) == Page(text="a\ufffdb")


@pytest.mark.parametrize(
    "body",
    [b"", b"   ", b"<html><body><script>render()</script></body></html>", b"<html></html>", b"\x00\x01\x02"],
)
def test_a_page_without_text_is_said_to_be(body: bytes) -> None:
    """An agent is not handed silence."""
    with pytest.raises(PageUnreadableError, match="no text that can be read"):
        page_text(fetched(body))


def test_a_short_page_is_read_all_the_same() -> None:
    """What is too short for an article is still text."""
    assert "Closed on Monday." in page_text(fetched(b"<html><body><p>Closed on Monday.</p></body></html>")).text


def test_a_page_nested_without_end_does_not_hurt() -> None:
    """Depth is no way to bring the worker down."""
    with pytest.raises(PageUnreadableError):
        page_text(fetched(b"<div>" * 20_000))
