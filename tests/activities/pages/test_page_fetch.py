"""Fetching over real connections, within limits."""

import asyncio
import gzip
import tracemalloc
import zlib
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from page_server import PUBLIC, Dial, Names, PageServer, answer, serve_pages

from activities.pages.fetch import Fetcher
from activities.pages.guarded_get import GuardedBackend
from activities.pages.page import Fetched, FetchError, FetchLimits

LIMITS = FetchLimits(wire_bytes=100_000, decoded_bytes=100_000, total=timedelta(seconds=10))


@pytest.fixture
async def server() -> AsyncIterator[PageServer]:
    async with serve_pages() as serving:
        yield serving


def public(server: PageServer, dial: Dial | None = None, limits: FetchLimits = LIMITS) -> Fetcher:
    """Fetch as if every name led to a public address, behind which stands the server."""
    return Fetcher(GuardedBackend(resolve=Names((PUBLIC,)).resolve, dial=dial or Dial(server.port)), limits)


async def test_a_page_comes_back_as_it_is(server: PageServer) -> None:
    """Body, type and charset are kept; the fragment of the URL is not sent."""
    server.pages["/a?b=c"] = answer("tä".encode("latin-1"), content_type='text/plain; charset="ISO-8859-1"')

    fetched = await public(server).fetch("http://www.example/a?b=c#part")

    assert fetched == Fetched(
        url="http://www.example/a?b=c", media_type="text/plain", charset="iso-8859-1", body=b"t\xe4"
    )
    assert server.paths == ["/a?b=c"]
    assert "\r\nHost: www.example\r\n" in server.requests[0]


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"])
async def test_a_redirect_is_followed(server: PageServer, status: str) -> None:
    """Where the page was in the end is its URL."""
    server.pages["/old"] = answer(status=status, Location="/new")
    server.pages["/new"] = answer(b"here")

    fetched = await public(server).fetch("http://www.example/old")

    assert (fetched.url, fetched.body) == ("http://www.example/new", b"here")


@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.1/",
        "http://127.1/",
        "http://2130706433/",
        "http://[::1]/",
        "http://[::ffff:7f00:1]/",
        "//169.254.169.254/latest/meta-data/",
        "http://localhost:7233/",
        "http://www.example:8080/",
        "file:///etc/passwd",
        "ftp://www.example/",
        "gopher://www.example/",
        "data:text/plain,hello",
        "http://user:word@www.example/",
        "http://a\\b@127.0.0.1/",
    ],
)
async def test_a_redirect_leads_nowhere_that_a_url_may_not(server: PageServer, location: str) -> None:
    """Each hop is checked like the first; nothing but the first address is dialled."""
    server.pages["/"] = answer(status="302 Found", Location=location)
    dial = Dial(server.port)

    async def resolve(host: str, port: int) -> tuple[str, ...]:
        return (PUBLIC,) if host == "www.example" else await resolve_local(host, port)

    with pytest.raises(FetchError):
        await Fetcher(GuardedBackend(resolve=resolve, dial=dial), LIMITS).fetch("http://www.example/")

    assert dial.dialled == [(PUBLIC, 80)]


async def resolve_local(host: str, port: int) -> tuple[str, ...]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port)
    return tuple(str(address[0]) for *_, address in found)


async def test_five_redirects_are_followed_and_no_more(server: PageServer) -> None:
    """A chain ends after five hops, and so does a circle."""
    for hop in range(6):
        server.pages[f"/{hop}"] = answer(status="302 Found", Location=f"/{hop + 1}")
    server.pages["/6"] = answer(b"end")

    reached = await public(server).fetch("http://www.example/1")
    with pytest.raises(FetchError, match="more than 5 redirects"):
        await public(server).fetch("http://www.example/0")

    assert reached.body == b"end"


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://www.example/",
        "gopher://www.example/",
        "data:text/plain,hello",
        "javascript:alert(1)",
        "www.example",
        "http://",
        "http:///path",
        "",
        "http://user:word@www.example/",
        "http://www.example/\r\nHost: other",
        "http://127.0.0.1\t/",
        "http://①②⑦.⓪.⓪.①/",
        "http://[::1",
        "http://www.example:99999/",
        "http://www.example:abc/",
        "http://www.example/" + "a" * 2_000,
    ],
)
async def test_what_is_no_web_address_is_refused(server: PageServer, url: str) -> None:
    """Nothing is dialled for a URL that is not one, or not one of a public page."""
    dial = Dial(server.port)

    with pytest.raises(FetchError):
        await public(server, dial).fetch(url)

    assert dial.dialled == []


@pytest.mark.parametrize(
    "status", ["204 No Content", "400 Bad", "404 Not Found", "429 Too Many", "500 Oops", "599 Own"]
)
async def test_another_status_is_said(server: PageServer, status: str) -> None:
    """Only a page that is there is read; the agent is told the status."""
    server.pages["/"] = answer(status=status)

    with pytest.raises(FetchError, match=status[:3]):
        await public(server).fetch("http://www.example/")


@pytest.mark.parametrize("content_type", ["application/pdf", "image/png", "application/octet-stream", "video/mp4", ""])
async def test_another_type_is_not_read(server: PageServer, content_type: str) -> None:
    """Only text is read."""
    server.pages["/"] = answer(b"%PDF", content_type=content_type)

    with pytest.raises(FetchError, match="only pages of text"):
        await public(server).fetch("http://www.example/")


@pytest.mark.parametrize(
    ("encoding", "compressed"),
    [("gzip", gzip.compress(b"hello")), ("x-gzip", gzip.compress(b"hello")), ("deflate", zlib.compress(b"hello"))],
    ids=["gzip", "x-gzip", "deflate"],  # compressed bytes carry the time, and would make the names differ
)
async def test_a_compressed_page_is_read(server: PageServer, encoding: str, compressed: bytes) -> None:
    """Compression that servers use is undone."""
    server.pages["/"] = answer(compressed, Content_Encoding=encoding)

    assert (await public(server).fetch("http://www.example/")).body == b"hello"


@pytest.mark.parametrize(
    ("encoding", "body"),
    [("br", b"hello"), ("gzip", b"no gzip"), ("gzip, gzip", b"")],
    ids=["brotli", "not gzip", "twice"],
)
async def test_compression_that_cannot_be_undone_is_told_in_words(
    server: PageServer, encoding: str, body: bytes
) -> None:
    """Nothing that is not text goes on."""
    server.pages["/"] = answer(body, Content_Encoding=encoding)

    with pytest.raises(FetchError, match="compressed"):
        await public(server).fetch("http://www.example/")


async def test_a_bomb_does_not_go_off(server: PageServer) -> None:
    """A small body that would inflate to much more than the limit is never inflated so far."""
    server.pages["/"] = answer(gzip.compress(bytes(20_000_000)), Content_Encoding="gzip")
    fetcher = public(server)
    tracemalloc.start()

    with pytest.raises(FetchError, match="larger than"):
        await fetcher.fetch("http://www.example/")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 5_000_000


async def test_an_endless_page_is_cut_off(server: PageServer) -> None:
    """The connection is closed once the limit has come over the wire."""
    gone = asyncio.Event()

    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")
        try:
            while True:
                writer.write(b"400\r\n" + b"x" * 1024 + b"\r\n")
                await writer.drain()
        finally:
            gone.set()

    server.pages["/"] = endless

    with pytest.raises(FetchError, match="larger than"):
        await public(server).fetch("http://www.example/")
    await asyncio.wait_for(gone.wait(), 10)


@pytest.mark.parametrize(
    "head", [b"", b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nbegun"], ids=["mute", "slow"]
)
async def test_a_page_that_takes_too_long_is_given_up(server: PageServer, head: bytes) -> None:
    """The time is for everything together, however slowly bytes come."""
    done = asyncio.Event()

    async def drip(writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        await writer.drain()
        await done.wait()

    server.pages["/"] = drip

    with pytest.raises(FetchError, match=r"took longer than 0\.2 seconds"):
        await public(server, limits=LIMITS.model_copy(update={"total": timedelta(seconds=0.2)})).fetch(
            "http://www.example/"
        )
    done.set()


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 1_000_000 + b"\r\n\r\n",
    ],
    ids=["nothing", "not http", "cut short", "huge header"],
)
async def test_broken_answers_are_told_in_words(server: PageServer, raw: bytes) -> None:
    """Whatever a server sends, the agent gets a sentence."""

    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(raw)
        await writer.drain()

    server.pages["/"] = write

    with pytest.raises(FetchError, match="could not be reached"):
        await public(server).fetch("http://www.example/")


async def test_cookies_are_not_kept(server: PageServer) -> None:
    """What one session was given, no other session sends, and neither does the next hop."""
    server.pages["/"] = answer(status="302 Found", Location="/page", Set_Cookie="canary=1; Path=/")
    server.pages["/page"] = answer(b"text", Set_Cookie="canary=2; Path=/")
    fetcher = public(server)

    await fetcher.fetch("http://www.example/")
    await fetcher.fetch("http://www.example/page")

    assert server.paths == ["/", "/page", "/page"]
    assert not any("canary" in request for request in server.requests)


async def test_the_environment_changes_nothing(server: PageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy is used, whatever the environment of the worker says."""
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    server.pages["/"] = answer(b"direct")

    assert (await public(server).fetch("http://www.example/")).body == b"direct"


async def test_tls_asks_for_the_name_and_not_for_the_address() -> None:
    """The server's certificate is checked against the host's name; a server without one is told in words."""
    greetings: list[bytes] = []

    async def not_tls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        greetings.append(await reader.read(10_000))
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(not_tls, "127.0.0.1", 0) as server:
        dial = Dial(server.sockets[0].getsockname()[1])
        fetcher = Fetcher(GuardedBackend(resolve=Names((PUBLIC,)).resolve, dial=dial), LIMITS)
        with pytest.raises(FetchError, match="could not be reached"):
            await fetcher.fetch("https://www.example/")

    assert dial.dialled == [(PUBLIC, 443)]
    assert b"www.example" in greetings[0]
