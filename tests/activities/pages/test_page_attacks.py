"""Attempts to make the worker send requests where it may not, each starting from a URL."""

from collections.abc import Iterable
from datetime import timedelta
from itertools import cycle
from pathlib import Path

import pytest
from page_server import PUBLIC, Dial, Names, PageServer, answer

from activities.contracts.tool import ToolContext
from activities.http.guarded_get import GuardedBackend, resolve_by_system
from activities.http.page import FetchError, FetchLimits
from activities.tools.pages.fetch import Fetcher
from activities.tools.pages.tool import ReadPage
from tests.loopback_http import collecting

CONTEXT = ToolContext(session="s", agent="researcher", idempotency_key="k")

PORTS = (7233, 8233, 9090, 11434, 8000, 8080, 22, 25, 6379, 2375, 81, 444, 65535)
"""Ports of Temporal, its UI, metrics, model servers, and others that act on what they are sent."""


async def resolve(host: str, port: int) -> tuple[str, ...]:
    """The system's resolver, with a public web server in front of it."""
    return (PUBLIC,) if host == "www.example" else await resolve_by_system(host, port)


def fetcher(dial: Dial) -> Fetcher:
    return Fetcher(GuardedBackend(resolve=resolve, dial=dial), FetchLimits())


TRICKS = [
    "http:127.0.0.1/", "http:/127.0.0.1/", "http:///127.0.0.1/", "http:\\\\127.0.0.1\\", "http://\t127.0.0.1/",
    "http://127.0.0.1\n/", "\x00http://127.0.0.1/", "//127.0.0.1/", "http://127.0.0.1\\@www.example/",
    "http://www.example\\@127.0.0.1/", "http://www.example@127.0.0.1:80/", "http://127.0.0.1 @www.example/",
    "http://127.0.0.1%00.www.example/", "http://127.0.0.1%2f.www.example/", "http://www.example:80@127.0.0.1:7233/",
    "http://[::1]www.example/", "http://[::1%00]/", "url:http://127.0.0.1/", "view-source:http://127.0.0.1/",
    "jar:http://127.0.0.1!/", "file:///etc/passwd", "FILE:/etc/passwd", "file://127.0.0.1/etc/passwd",
    "ftp://127.0.0.1/", "gopher://127.0.0.1:7233/_x", "dict://127.0.0.1:11211/stats", "data:text/html,<b>x</b>",
    "unix:///var/run/docker.sock", "http+unix://%2Fvar%2Frun%2Fdocker.sock/info", "ws://127.0.0.1/",
    "javascript:alert(1)", "www.example", "http://", "http:///path", "", "http://user:word@www.example/",
    "http://www.example/\r\nHost: other", "http://[::1", "http://www.example:99999/", "http://www.example:abc/",
    "http://www.example/" + "a" * 2_000,
]  # fmt: skip


async def test_ambiguous_urls_never_reach_a_private_host() -> None:
    """A URL that one parser reads as public and another as local is not fetched."""
    assert await reached(TRICKS) == []


async def test_redirects_never_reach_a_private_host(server: PageServer) -> None:
    """Each hop is checked like the first, for every redirect status."""
    statuses = ("301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent")
    dial = Dial(server.port)
    fetching = fetcher(dial)
    for status, location in zip(cycle(statuses), filter(str.isprintable, TRICKS), strict=False):
        server.pages["/"] = answer(status=status, Location=location)
        with pytest.raises(FetchError):
            await fetching.fetch("http://www.example/")

    assert set(dial.dialled) == {(PUBLIC, 80)}


async def test_urls_cannot_inject_request_headers(server: PageServer) -> None:
    """Line breaks are refused or stay encoded."""
    fetching = fetcher(Dial(server.port))
    for path in ("/a%0d%0aX-Injected:%20y", "/a\r\nX-Injected: y", "/ä ö", "/%00", "/?q=\nX-Injected: y", "/#\r\nX: y"):
        with pytest.raises(FetchError):
            await fetching.fetch(f"http://www.example{path}")

    # One for the request line, one for each of five headers, and the empty line.
    assert {(request.count("\r\n"), "\nX" in request) for request in server.requests} == {(7, False)}


@pytest.mark.parametrize("excluded", ["", "www.example", "*"])
async def test_proxies_and_credentials_of_the_environment_are_ignored(
    server: PageServer, excluded: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Neither proxies, NO_PROXY, .netrc nor a certificate file from the environment affects a fetch."""
    netrc = tmp_path / ".netrc"
    netrc.write_text("machine www.example login canary password canary\ndefault login canary password canary\n")
    server.pages["/"] = answer(b"direct")
    async with collecting() as proxy:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://{proxy.host}")
            monkeypatch.setenv(name.lower(), f"http://{proxy.host}")
        for name, value in {"HOME": tmp_path, "NETRC": netrc, "SSL_CERT_FILE": netrc, "NO_PROXY": excluded}.items():
            monkeypatch.setenv(name, str(value))

        fetched = await fetcher(Dial(server.port)).fetch("http://www.example/")

    assert (fetched.body, proxy.connections) == (b"direct", 0)
    assert all(word not in server.requests[0].lower() for word in ("canary", "authorization", "cookie", "referer"))


async def test_sessions_share_no_cookies_caches_or_connections(server: PageServer) -> None:
    """Cookies and validators go neither to the next hop nor to another session."""
    server.pages["/"] = answer(status="302 Found", Location="/one", Set_Cookie="canary=1", ETag='"canary"')
    server.pages["/one"] = answer(b"one", Set_Cookie="canary=2", Last_Modified="canary")
    tool = ReadPage(frozenset({server.host}))

    for session in ("first", "second"):
        await tool.use({"url": f"http://{server.host}/"}, CONTEXT.model_copy(update={"session": session}))
    await tool.close()

    assert server.paths == ["/", "/one"] * 2
    assert not any("canary" in request for request in server.requests)
    assert all("\r\nConnection: close\r\n" in request for request in server.requests)


async def test_ports_of_services_are_never_dialled() -> None:
    """Temporal, its UI and metrics, and model servers are refused on local and public hosts."""
    hosts = cycle(("127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "www.example"))
    for port, host in zip(PORTS * 2, hosts, strict=False):
        assert await reached([f"http://{host}:{port}/api/v1/namespaces"], f"port {port} is not one") == []


async def test_only_hosts_the_operator_allows_are_opened(server: PageServer) -> None:
    """A host matches by its name in the URL and its port; without a port, only the web's ports are allowed."""
    cases = [
        ("wiki.internal:8080", "wiki.internal", 8080, True),
        ("WIKI.internal:8080", "wiki.INTERNAL", 8080, True),
        ("wiki.internal:8080", "wiki.internal", 80, False),
        ("wiki.internal", "wiki.internal", 443, True),
        ("wiki.internal", "wiki.internal", 8080, False),
        ("wiki.internal", "a.wiki.internal", 80, False),
        ("wiki.internal", "10.0.0.7", 80, False),
        ("10.0.0.7", "10.0.0.7", 80, True),
        ("[fd00::7]:8080", "fd00::7", 8080, True),
    ]
    limits = FetchLimits(connect=timedelta(seconds=0.2))  # nothing here answers TLS
    for allowed, host, port, is_open in cases:
        address = host if ":" in host or host[0].isdigit() else "10.0.0.7"
        dial = Dial(server.port)
        fetching = Fetcher(GuardedBackend(frozenset({allowed}), Names((address,)).resolve, dial), limits)
        url = f"{'https' if port == 443 else 'http'}://{f'[{host}]' if ':' in host else host}:{port}/"
        with pytest.raises(FetchError) as caught:
            await fetching.fetch(url)
        assert dial.dialled == ([(address, port)] if is_open else []), url
        assert ("may not be read" in str(caught.value)) is not is_open, url


async def reached(urls: Iterable[str], says: str = "") -> list[str]:
    """Fetch these URLs; return those not refused in these words, and all after a first connection was dialled."""
    dial = Dial()
    fetching, not_refused = fetcher(dial), list[str]()
    for url in urls:
        try:
            await fetching.fetch(url)
        except FetchError as refusal:
            if says in str(refusal) and not dial.dialled:
                continue
        not_refused.append(url)
    return not_refused
