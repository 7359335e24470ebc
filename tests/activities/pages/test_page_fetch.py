"""Fetching over real connections within limits, including a limit on silence."""

import asyncio
import gzip
import zlib
from datetime import timedelta

import pytest
from httpcore2 import AsyncNetworkBackend, AsyncNetworkStream, ConnectError
from page_server import PUBLIC, Dial, Names, PageServer, answer, serve_pages
from temporalio.testing import ActivityEnvironment

from activities.http.guarded_get import GuardedBackend
from activities.http.page import Fetched, FetchError, FetchLimits
from activities.tools.pages.fetch import Fetcher
from activities.tools.pages.tool import ReadPage
from tests.activities.one_tool import a_request, uses_of

LIMITS = FetchLimits(wire_bytes=100_000, decoded_bytes=100_000, total=timedelta(seconds=10))


def public(server: PageServer, dial: Dial | None = None, limits: FetchLimits = LIMITS) -> Fetcher:
    """Fetch as if every name resolved to a public address with the server behind it."""
    return Fetcher(GuardedBackend(resolve=Names((PUBLIC,)).resolve, dial=dial or Dial(server.port)), limits)


async def test_a_page_is_returned_unchanged(server: PageServer) -> None:
    """Body, media type and charset are kept; the URL's fragment is not sent."""
    server.pages["/a?b=c"] = answer("tä".encode("latin-1"), content_type='text/plain; charset="ISO-8859-1"')

    fetched = await public(server).fetch("http://www.example/a?b=c#part")

    assert fetched == Fetched(
        url="http://www.example/a?b=c", media_type="text/plain", charset="iso-8859-1", body=b"t\xe4"
    )
    assert server.paths == ["/a?b=c"]
    assert "\r\nHost: www.example\r\n" in server.requests[0]


async def test_five_redirects_are_followed_and_no_more(server: PageServer) -> None:
    """They may have any redirect status, and the page's URL is the final one; a circle ends as well."""
    statuses = ("301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent", "302 Found")
    for hop, status in enumerate(statuses):
        server.pages[f"/{hop}"] = answer(status=status, Location=f"/{hop + 1}")
    server.pages |= {"/6": answer(b"end"), "/circle": answer(status="302 Found", Location="/circle")}

    reached = await public(server).fetch("http://www.example/1")
    for endless in ("0", "circle"):
        with pytest.raises(FetchError, match="more than 5 redirects"):
            await public(server).fetch(f"http://www.example/{endless}")

    assert (reached.url, reached.body) == ("http://www.example/6", b"end")


async def test_only_successful_text_responses_are_read(server: PageServer) -> None:
    """The error names the status, the media type or the compression that cannot be decoded."""
    types = ("application/pdf", "image/png", "application/octet-stream", "video/mp4", "")
    cases = [
        *((answer(status=f"{status} Own"), str(status)) for status in (204, 400, 404, 429, 500, 599)),
        *((answer(b"%PDF", content_type=media_type), "only pages of text") for media_type in types),
        (answer(b"hello", Content_Encoding="br"), "compressed"),
        (answer(b"no gzip", Content_Encoding="gzip"), "compressed"),
        (answer(Content_Encoding="gzip, gzip"), "compressed"),
    ]
    fetcher = public(server)
    for page, says in cases:
        server.pages["/"] = page
        with pytest.raises(FetchError, match=says):
            await fetcher.fetch("http://www.example/")


async def test_a_compressed_page_is_read(server: PageServer) -> None:
    """Pages in gzip, x-gzip and deflate are decompressed."""
    gzipped, deflated = gzip.compress(b"hello"), zlib.compress(b"hello")
    for encoding, compressed in (("gzip", gzipped), ("x-gzip", gzipped), ("deflate", deflated)):
        server.pages["/"] = answer(compressed, Content_Encoding=encoding)
        assert (await public(server).fetch("http://www.example/")).body == b"hello", encoding


async def test_tls_sends_the_host_name_and_not_the_address() -> None:
    """The ClientHello names the host; a server that does not speak TLS is reported as unreachable."""
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


async def test_the_next_address_is_tried() -> None:
    """A host with one address down is reached at another."""

    class FirstIsDown(AsyncNetworkBackend):
        def __init__(self, up: Dial) -> None:
            self.tried: list[str] = []
            self._up = up

        async def connect_tcp(self, host: str, port: int, *_rest: object) -> AsyncNetworkStream:  # pyright: ignore[reportIncompatibleMethodOverride]  # takes what it is given
            self.tried.append(host)
            if len(self.tried) == 1:
                raise ConnectError("down")
            return await self._up.connect_tcp(host, port)

    async with serve_pages() as server:
        dial = FirstIsDown(Dial(server.port))
        backend = GuardedBackend(resolve=Names(("2606:2800:220:1::1", PUBLIC)).resolve, dial=dial)
        stream = await backend.connect_tcp("both.example", 80)
        await stream.aclose()

    assert dial.tried == ["2606:2800:220:1::1", PUBLIC]


SILENCE = 0.5


async def _read(pauses: list[float]) -> bool:
    """Read a page sent word by word after these pauses; return whether it could be read."""

    async def drip(writer: asyncio.StreamWriter) -> None:
        await answer(b"word ", Content_Length=str(5 * (1 + len(pauses))))(writer)
        for pause in pauses:
            await asyncio.sleep(pause)
            writer.write(b"word ")
            await writer.drain()

    async with serve_pages() as server:
        server.pages["/"] = drip
        tool = ReadPage(frozenset({server.host}), FetchLimits())
        use = uses_of(tool, silence=timedelta(seconds=SILENCE)).use_tool
        try:
            return (await ActivityEnvironment().run(use, a_request("read_page", url=f"http://{server.host}/"))).ok
        finally:
            await tool.close()


async def test_a_page_is_read_until_it_is_silent_for_too_long() -> None:
    """Slow progress is fine for longer than the limit in total; Temporal retries a stalled page."""
    assert await _read([SILENCE / 4] * 8)
    with pytest.raises(TimeoutError, match="it sent nothing"):
        await _read([0.0, 60.0])
