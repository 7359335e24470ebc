"""Requests that reach an embedded server's Web UI: those the user's own browser makes there, and no others."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from itertools import product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from chargehand_cli.embedded import web_ui_guard
from chargehand_cli.embedded.web_ui_guard import Refused, WebUiGuard, check_request

PORT = 8233
OWN = ("127.0.0.1", "localhost")
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
STRANGERS = (
    *("", "evil.example", f"evil.example:{PORT}", f"127.0.0.1.evil.example:{PORT}", f"localhost.evil.example:{PORT}"),
    *(f"{name}:{port}" for name, port in product(OWN, (80, PORT + 1, "", f"{PORT}.", f" {PORT}", f"0{PORT}", "http"))),
    *(f"{name}:{PORT}" for name in ("127.0.0.1.", "localhost.", "127.1", "127.0.0.2", "2130706433", "0x7f000001")),
    *(f"{name}:{PORT}" for name in ("0177.0.0.1", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]", "::1", "ſocalhost")),
    *(f"{name}:{PORT}" for name in ("evil@127.0.0.1", "127.0.0.1@evil", "evil:x@localhost", "127.0.0.1%00.evil")),
    *(f"{a}:{PORT},{b}:{PORT}" for a, b in product(OWN, ("evil.example", "localhost"))),
    *OWN,
)


def head(*lines: str, request: str = "GET / HTTP/1.1") -> bytes:
    return "\r\n".join([request, *lines, "", ""]).encode("latin-1", "replace")


def passes(request: bytes) -> bool:
    try:
        check_request(request, PORT)
    except Refused:
        return False
    return True


def _spellings(word: str) -> st.SearchStrategy[str]:
    """Draw a word in any mixture of upper and lower case."""
    cases = st.lists(st.booleans(), min_size=len(word), max_size=len(word))
    return cases.map(lambda upper: "".join(c.upper() if up else c for c, up in zip(word, upper, strict=True)))


own_hosts = st.sampled_from([f"{name}:{PORT}" for name in OWN]).flatmap(_spellings)
methods = st.sampled_from(METHODS)
texts = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=30)


@given(method=methods, name=_spellings("host"), host=own_hosts, path=texts)
def test_the_web_uis_own_pages_may_send_any_request(method: str, name: str, host: str, path: str) -> None:
    request = head(
        f"{name}: {host}",
        f"Origin: http://{host.lower()}",
        "Sec-Fetch-Site: same-origin",
        request=f"{method} /{path} HTTP/1.1",
    )
    passed_on, _ = check_request(request, PORT)

    assert passed_on.startswith(f"{method} /{path} HTTP/1.1\r\n".encode())
    assert passed_on.endswith(b"\r\nconnection: close\r\n\r\n")


@given(
    method=methods,
    host=st.sampled_from(STRANGERS)
    | st.tuples(own_hosts, st.sampled_from((".", "0", "@e", "\\", "/", "#"))).map("".join),
    name=st.sampled_from(("Origin", "Referer")),
)
def test_requests_to_other_hosts_are_refused(method: str, host: str, name: str) -> None:
    assert not passes(head(f"Host: {host}", f"{name}: http://{host}", request=f"{method} / HTTP/1.1"))


@given(
    method=methods,
    host=own_hosts,
    origin=st.sampled_from(
        ["null", *(f"{scheme}://{name}" for scheme in ("http", "https", "file") for name in STRANGERS)]
    )
    | own_hosts.map("https://{}".format)
    | own_hosts.map("http://{}/".format),
    site=st.sampled_from(("", "none", "same-origin", "same-site", "cross-site")),
)
def test_requests_from_other_origins_are_refused(method: str, host: str, origin: str, site: str) -> None:
    sites = [f"Sec-Fetch-Site: {site}", "Sec-Fetch-Mode: navigate"] if site else []

    assert not passes(head(f"Host: {host}", f"Origin: {origin}", *sites, request=f"{method} / HTTP/1.1"))


@given(method=methods, host=own_hosts, site=st.sampled_from(("same-site", "cross-site", "", "other")))
def test_other_sites_may_link_to_the_web_ui_but_not_embed_it(method: str, host: str, site: str) -> None:
    """Without an origin, cross-site navigation by GET or HEAD opens; everything else is refused."""
    line = f"{method} / HTTP/1.1"
    reads = method in ("GET", "HEAD")
    modes = ("navigate", "no-cors", "cors", "websocket")
    answered = [
        passes(head(f"Host: {host}", f"Sec-Fetch-Site: {site}", f"Sec-Fetch-Mode: {mode}", request=line))
        for mode in modes
    ]

    assert answered == [reads, False, False, False]
    assert passes(head(f"Host: {host}", request=line)) == reads


def test_only_request_targets_that_are_paths_are_accepted() -> None:
    cases = [
        *(f"GET http://{host}:{PORT}/ HTTP/1.1" for host in (*OWN, "evil.example")),
        *("GET * HTTP/1.1", f"CONNECT 127.0.0.1:{PORT} HTTP/1.1", "GET / HTTP/2.0", "GET /", "GET  / HTTP/1.1", ""),
        *("PRI * HTTP/2.0", "get / HTTP/1.1", "GET /\tHTTP/1.1", "GET /a b HTTP/1.1", "GET /\xe9 HTTP/1.1"),
    ]
    for request_line in cases:
        assert not passes(head(f"Host: 127.0.0.1:{PORT}", request=request_line))


HOST_LINE = f"Host: 127.0.0.1:{PORT}"


def test_ambiguous_http_requests_are_refused() -> None:
    cases = [
        *(
            [HOST_LINE, f"{name}: {value}"]
            for name, value in product(("Host", "host", "HOST"), (f"localhost:{PORT}", "e"))
        ),
        *([f"{name}: e", HOST_LINE] for name in ("Host", "host", "HOST")),
        *([], ["Host:"], [f"Host : 127.0.0.1:{PORT}"], [f" Host: 127.0.0.1:{PORT}"], ["X: a", f" {HOST_LINE}"]),
        *([HOST_LINE, " folded"], [HOST_LINE, "no colon"], [HOST_LINE, ": e"], [HOST_LINE, "X: a\nHost: e"]),
        *([HOST_LINE, "X: a\rHost: e"], [HOST_LINE, "X: \0"], [f"Host: 127.0.0.1:{PORT}\x0b"]),
        *([HOST_LINE, "Transfer-Encoding: chunked"], [HOST_LINE, "Content-Length: 1", "Content-Length: 1"]),
        *([HOST_LINE, f"Content-Length: {length}"] for length in ("+1", "-1", "1 1", "0x1", "1,1", "", "9" * 11, "١")),
    ]
    for lines in cases:
        assert not passes(head(*lines))


@given(st.binary(max_size=300))
def test_random_bytes_are_refused_without_an_error(noise: bytes) -> None:
    assume(HOST_LINE.encode() not in noise)

    assert not passes(noise + b"\r\n\r\n")


@dataclass
class Ui:
    address: tuple[str, int] = ("127.0.0.1", 0)
    arrived: list[bytes] = field(default_factory=list[bytes])
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)
    more: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readuntil(b"\r\n\r\n")
        self.arrived.append(asked)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nfirst ")
        if asked.startswith(b"POST"):
            body = await reader.readexactly(1_000_000)
            self.arrived.append(body)
        elif asked.startswith(b"GET /slow"):
            await asyncio.wait(
                [asyncio.create_task(self.more.wait()), asyncio.create_task(reader.read(1))],
                return_when="FIRST_COMPLETED",
            )
            if not self.more.is_set():
                self.hung_up.set()
        writer.write(b"second")
        writer.close()


@pytest.fixture
async def ui() -> AsyncIterator[Ui]:
    made = Ui()
    async with await asyncio.start_server(made.answer, "127.0.0.1", 0) as server:
        made.address = server.sockets[0].getsockname()
        yield made


@pytest.fixture
def guard(ui: Ui) -> WebUiGuard:
    guard = WebUiGuard(ui.address)
    guard.start()
    return guard


async def send(guard: WebUiGuard, data: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", guard.port)
    writer.write(data.replace(b":PORT", f":{guard.port}".encode()))
    return reader, writer


async def ask(guard: WebUiGuard, data: bytes) -> bytes:
    reader, writer = await send(guard, data)
    answered = await reader.read()
    writer.close()
    return answered


async def test_responses_are_streamed(guard: WebUiGuard, ui: Ui) -> None:
    """A long poll's first part arrives before its last; the upstream request ends when the client hangs up."""
    reader, writer = await send(guard, head("Host: localhost:PORT", request="GET /slow HTTP/1.1"))
    first = await reader.readuntil(b"first ")
    ui.more.set()
    rest = await reader.read()
    writer.close()
    ui.more.clear()
    reader, writer = await send(guard, head("Host: localhost:PORT", request="GET /slow HTTP/1.1"))
    await reader.readuntil(b"first ")
    writer.close()

    await ui.hung_up.wait()
    assert first.startswith(b"HTTP/1.1 200 OK")
    assert rest == b"second"


async def test_a_request_body_is_forwarded_whole_and_nothing_after_it(guard: WebUiGuard, ui: Ui) -> None:
    body = bytes(range(250)) * 4_000
    own = ("Host: 127.0.0.1:PORT", "Origin: http://127.0.0.1:PORT", f"Content-Length: {len(body)}")
    request = head(*own, request="POST /api HTTP/1.1") + body + head("Host: evil.example")
    answered = await ask(guard, request)

    assert answered.endswith(b"first second")
    assert [len(each) for each in ui.arrived][1:] == [len(body)]
    assert ui.arrived[1] == body


async def test_refused_requests_never_reach_the_web_ui(
    guard: WebUiGuard, ui: Ui, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_ui_guard, "_HEAD_SECONDS", 0.2)
    requests = {
        head("Host: evil.example"): b"421",
        head("Host: 127.0.0.1:PORT", "Origin: null"): b"403",
        b"\x16\x03\x01\r\n\r\n": b"400",
        head("Host: 127.0.0.1:PORT", f"X: {'x' * 70_000}"): b"431",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n": b"",
    }
    answered = [(await ask(guard, request))[9:12] for request in requests]

    assert answered == list(requests.values())
    assert ui.arrived == []


async def test_a_server_that_is_down_is_reported_as_down(guard: WebUiGuard, ui: Ui) -> None:
    address, guard.upstream = guard.upstream, ("127.0.0.1", 1)
    down = await ask(guard, head("Host: 127.0.0.1:PORT"))
    guard.upstream = address
    up = await ask(guard, head("Host: 127.0.0.1:PORT"))

    assert down.startswith(b"HTTP/1.1 502 ")
    assert up.startswith(b"HTTP/1.1 200 ")
    assert len(ui.arrived) == 1
