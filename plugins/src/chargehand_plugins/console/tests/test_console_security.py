"""Who can use the console: programs with the token, and its own pages in signed-in browsers."""

import asyncio
import os
import re
import socket
from collections.abc import AsyncIterator, Awaitable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from httpx2 import AsyncClient, Response, TransportError
from temporalio.client import Client

from chargehand.errors import SessionCancelled
from chargehand.shared_files import safe_name
from chargehand_plugins.console.access import Access, Rates
from chargehand_plugins.console.api import OPERATIONS
from chargehand_plugins.console.backend import Backend, crew_choices
from chargehand_plugins.console.pages import PAGES
from chargehand_plugins.console.server import serving
from chargehand_plugins.console.settings import ConsoleSettings, UnusableConsole
from chargehand_plugins.console.tests.conftest import TOKEN, OpenConsole, open_console
from chargehand_plugins.http_server import listen
from tests.scripted_model import Script, subtask

STRANGERS = (
    *("evil.example", "127.0.0.1", "127.0.0.1.evil.example:{port}"),
    *("", "localhost:1", "[::1]:{port}", "127.1:{port}"),
)
_WORDS = ("0", "-1", "1e9", "9" * 20, "9" * 5_000, "a" * 5_000, "%00", "%ff", "%ED%A0%80", "..%2F..", "%C2%B2")


@pytest.mark.slow
async def test_no_path_segment_causes_a_server_error(browser: AsyncClient) -> None:
    """Any text in place of a session or number is refused as not found or not allowed."""
    token = {"Authorization": f"Bearer {TOKEN}"}
    failed: list[tuple[int, str, str]] = []
    for word in _WORDS:
        for method, path in sorted({*everything(word, word), *everything("any", word)}):
            answered = await browser.request(method, path, headers=token if "/api/" in path else {})
            failed += [(answered.status_code, method, path[:80])] if answered.status_code >= 500 else []

    assert failed == []


@pytest.fixture(scope="module")
async def console(client: Client, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[OpenConsole]:
    folder = tmp_path_factory.mktemp("guarded")
    limits: dict[str, Any] = {"most_body_bytes": 3_000_000, "idle_seconds": 0.5, "requests_per_minute": 100_000}
    async with open_console(client, folder, Script().plan(subtask("T1")), **limits) as opened:
        yield opened


@pytest.fixture
async def browser(console: OpenConsole) -> AsyncIterator[AsyncClient]:
    async with console.browser() as opened:
        yield opened


@pytest.fixture
async def stranger(console: OpenConsole) -> AsyncIterator[AsyncClient]:
    """A client that can reach the console and is not signed in."""
    async with AsyncClient(base_url=console.running.url, trust_env=False) as opened:
        yield opened


def everything(session: str = "any", number: str = "1") -> list[tuple[str, str]]:
    """List the method and path of every request that the console serves."""
    of_api = [(each.method, f"/api/v1{each.path}") for each in OPERATIONS]
    of_pages = [(method, each.path) for each in PAGES for method in sorted(each.methods or ()) if method != "HEAD"]
    filled = {"{session}": session, "{number}": number, "{action}": "finish_now"}
    found: list[tuple[str, str]] = []
    for method, path in (*of_api, ("GET", "/api/v1/openapi.json"), *of_pages):
        found.append((method, re.sub(r"\{\w+\}", lambda hole: filled[hole[0]], path)))
    return found


async def test_every_page_and_operation_requires_the_token(console: OpenConsole, stranger: AsyncClient) -> None:
    """All but the sign-in page refuse a request without the token or with a wrong one."""
    guess = {"Authorization": f"Bearer {TOKEN}x", "Cookie": f"chargehand-{console.running.port}={TOKEN}"}
    guarded = [each for each in everything() if each[1] != "/login"]
    for (method, path), headers in [*((each, {}) for each in guarded), *((each, guess) for each in guarded[::8])]:
        answered = await stranger.request(method, path, headers={"Origin": console.running.url, **headers})
        is_asked_in = answered.status_code == 303 and answered.headers["location"] == "/login"
        assert answered.status_code == 401 or is_asked_in, (method, path)


async def test_requests_for_another_host_name_are_refused(console: OpenConsole) -> None:
    """A name that resolves to this machine is refused even with the token."""
    for host in STRANGERS:
        name = host.format(port=console.running.port)
        answered = await console.api.get("/api/v1/spend", headers={"Host": name})
        assert answered.status_code in (400, 421), name


async def test_requests_from_another_site_are_refused(console: OpenConsole, browser: AsyncClient) -> None:
    """The browser's cookie does not help another site's request, nor a form without a valid CSRF token."""
    own = console.running.url
    foreign = [
        *({"Origin": each} for each in ("http://evil.example", "null", own.replace("http:", "https:"), f"{own}/")),
        {"Origin": own, "Sec-Fetch-Site": "cross-site"},
        {"Origin": own, "Sec-Fetch-Site": "same-site"},
        {},
    ]
    del browser.headers["Origin"]
    for headers, path in product(foreign, ("/sessions", "/login")):
        answered = await browser.post(path, headers=headers, data={"goal": "Leak it.", "token": TOKEN})
        assert answered.status_code == 403, (headers, path)
    without = await browser.post("/sessions", headers={"Origin": own}, data={"goal": "Leak it."})
    forged = await browser.post("/sessions", headers={"Origin": own}, data={"goal": "Leak it.", "csrf": "0" * 64})

    assert (without.status_code, forged.status_code) == (403, 403)
    for site, mode, status in (("cross-site", "cors", 403), ("none", "navigate", 200)):
        answered = await browser.get("/", headers={"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode})
        assert answered.status_code == status


async def test_a_form_sent_twice_starts_one_session(console: OpenConsole, browser: AsyncClient) -> None:
    """A second click starts nothing, a changed form does; a goal of `-` is text, not standard input."""
    fields = dict(re.findall(r'name="(csrf|key)" value="([^"]*)"', (await browser.get("/")).text))

    async def send(goal: str) -> Response:
        return await browser.post("/sessions", data=fields | {"goal": goal, "approval": "plan"})

    first, second, other = [await send(goal) for goal in ("Once, please.", "Once, please.", "Another one.")]
    dash = await send("-")

    assert first.status_code == 303
    assert first.headers["location"] == second.headers["location"] != other.headers["location"]
    assert dash.status_code == 422
    for each in (first, other):
        session = console.environment.chargehand.session(each.headers["location"].rpartition("/")[2].partition("?")[0])
        await session.cancel()
        with pytest.raises(SessionCancelled):
            await session.result()
    assert ">Once, please.</h1>" in (await browser.get(first.headers["location"])).text


async def test_a_sign_in_link_works_once(console: OpenConsole, stranger: AsyncClient) -> None:
    """It gives one browser an HttpOnly, SameSite=Strict cookie, and is then used up."""
    link = console.running.sign_in_link()
    cookie = (await stranger.get(link)).headers["set-cookie"]
    stranger.cookies.clear()
    again = await stranger.get(link)

    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert "set-cookie" not in again.headers


async def test_every_response_has_security_headers(browser: AsyncClient) -> None:
    """Pages, errors and refusals allow no foreign script, no framing and no content sniffing."""
    for path in ("/", "/sessions", "/spend", "/login", "/static/console.js", "/nowhere", "/sessions/unknown"):
        headers = (await browser.get(path)).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in headers


async def refusal(answering: Awaitable[Response]) -> int:
    """Return the status of a refusal; 413 if the response is lost while a large body is being sent."""
    try:
        return (await answering).status_code
    except TransportError:
        return 413


async def test_oversized_requests_are_refused(console: OpenConsole, stranger: AsyncClient) -> None:
    """Bodies, files and fields are bounded, whether or not their size is announced."""
    large = b"x" * 2_500_000

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield large

    json_type = {"Content-Type": "application/json"}
    many = [("documents", (f"{number}.txt", b"x")) for number in range(201)]
    fields = {f"field{number}": "x" for number in range(2_001)} | {"request": "{}"}
    announced = await console.api.post("/api/v1/sessions", content=large, headers=json_type)
    crowded = await console.api.post("/api/v1/sessions", data={"request": "{}"}, files=many)
    wordy = await console.api.post("/api/v1/sessions", data=fields, files=many[:1])

    own = {"Origin": console.running.url}
    unasked = await refusal(stranger.post("/login", headers=own, data={"token": "x"}, files={"file": large}))
    urlencoded = own | {"Content-Type": "application/x-www-form-urlencoded"}
    separators = await stranger.post("/login", headers=urlencoded, content="&" * 1_000_000)
    endless_status = await refusal(console.api.post("/api/v1/sessions", content=endless(), headers=json_type))

    assert (announced.status_code, unasked, endless_status) == (413, 413, 413)
    assert (crowded.status_code, wordy.status_code) == (422, 422)
    assert "200" in crowded.json()["detail"]
    assert (separators.status_code, "more than 2000 fields" in separators.text) == (422, True)


async def test_a_client_that_stalls_mid_request_is_dropped(console: OpenConsole) -> None:
    """A body that does not arrive is answered with 408."""
    reader, writer = await asyncio.open_connection("127.0.0.1", console.running.port)
    head = f"POST /api/v1/sessions HTTP/1.1\r\nHost: 127.0.0.1:{console.running.port}\r\n"
    head += f"Authorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n"
    writer.write(f'{head}\r\n{{"goal'.encode())
    answered = await reader.read()
    writer.close()

    assert answered.startswith(b"HTTP/1.1 408")


async def test_paths_cannot_escape_their_folder(console: OpenConsole) -> None:
    """No path or file name reaches a static file or a session above its folder."""
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/sessions/..%2f..%2fetc"):
        assert (await console.api.get(path)).status_code in (303, 404), path
    assert {safe_name(name) for name in ("..", "../x", "/etc/x", "a\\..\\x", ".x")} == {"file", "x"}


def test_a_client_that_asks_too_often_is_told_how_long_to_wait() -> None:
    """A client can burst up to one minute's worth, which refills at the rate."""
    now = [0.0]
    rates = Rates(60, lambda: now[0])

    waits = [rates.wait_seconds("a") for _ in range(62)]
    now[0] += 2

    assert waits == [0] * 60 + [1, 1]
    assert [rates.wait_seconds("a") for _ in range(3)] == [0, 0, 1]
    assert rates.wait_seconds("b") == 0


async def test_wrong_tokens_do_not_lock_out_the_owner(client: Client, tmp_path: Path) -> None:
    """After any number of them, the owner's browser signs in and programs with the token are served."""
    async with open_console(client, tmp_path, Script(), requests_per_minute=5) as opened:
        own = {"Origin": opened.running.url}
        async with AsyncClient(base_url=opened.running.url, headers=own, trust_env=False) as sending:

            async def list_with(token: str) -> int:
                headers = {"Authorization": f"Bearer {token}"}
                return (await sending.get("/api/v1/sessions", headers=headers)).status_code

            async def enter_with(token: str) -> int:
                return (await sending.post("/login", data={"token": token})).status_code

            refused = [await list_with("wrong") for _ in range(10)]
            signing = {await enter_with("wrong") for _ in range(10)}
            entered, served = await enter_with(TOKEN), await list_with(TOKEN)

    assert (refused[0], refused[-1], signing) == (401, 429, {401})
    assert (entered, served) == (200, 200)


async def test_consoles_behind_a_proxy_share_sign_ins_and_forms(console: OpenConsole) -> None:
    """A browser signed in at one is signed in at the other; a form sent to both starts one session."""
    backend = Backend(lambda: console.environment.chargehand, None)
    settings = ConsoleSettings(TOKEN, port=0, public_url="https://console.example")
    headers = {"Host": "console.example", "Origin": "https://console.example"}
    async with (
        serving(backend, settings) as one,
        serving(backend, settings) as other,
        AsyncClient(headers=headers, trust_env=False, timeout=60) as browser,
    ):
        first, second = (f"http://127.0.0.1:{each.port}" for each in (one, other))
        entered = await browser.post(f"{first}/login", data={"token": TOKEN})
        browser.headers["Cookie"] = entered.headers["set-cookie"].partition(";")[0]
        shown = await browser.get(f"{second}/")
        fields = dict(re.findall(r'name="(csrf|key)" value="([^"]*)"', shown.text)) | {"goal": "Once, please."}
        started = [await browser.post(f"{each}/sessions", data=fields) for each in (first, second)]
        places = {each.headers["location"] for each in started}
        listed = await browser.get(f"{second}/sessions?q=once")

    assert (shown.status_code, [each.status_code for each in started], len(places)) == (200, [303, 303], 1)
    assert listed.status_code == 200


def test_a_sign_in_survives_a_restart_and_expires() -> None:
    """Consoles with one token share cookies, forms and links; a changed, ended or 12 hours old cookie is refused."""
    now = [0.0]
    before, after, other = (Access(token, lambda: now[0]) for token in (TOKEN, TOKEN, f"{TOKEN}-other"))
    cookie, code, ended = before.sign_in(), before.make_link_code(), before.sign_in()
    before.sign_out(ended)
    changed = [f"9{cookie}", cookie.replace(".", ".x", 1), cookie[:-1], code, ended, "", "..", "é.é.é"]

    assert after.is_signed_in(cookie)
    assert after.is_form_token(cookie, before.form_token(cookie))
    assert not after.is_form_token(cookie, before.form_token(ended))
    assert [each for each in changed if before.is_signed_in(each)] == []
    assert not other.is_signed_in(cookie)
    assert [after.take_link_code(each) for each in (cookie, code, code)] == [False, True, False]
    now[0] = 12 * 3_600
    assert not after.is_signed_in(cookie)


@pytest.mark.parametrize(
    "settings",
    [
        {"token": TOKEN, "host": "0.0.0.0"},
        {"token": TOKEN, "host": "0.0.0.0", "certificate": "c.pem", "private_key": "k.pem"},
        {"token": TOKEN, "certificate": "c.pem"},
        {"token": TOKEN, "public_url": "http://console.example"},
        {"token": TOKEN, "public_url": "https://console.example/path"},
    ],
)
def test_insecure_settings_are_refused(settings: dict[str, str]) -> None:
    """The console is never exposed without TLS by mistake."""
    with pytest.raises(UnusableConsole):
        ConsoleSettings(**settings)  # pyright: ignore[reportArgumentType]  # strings only


def test_responses_are_sent_without_delay() -> None:
    """TCP_NODELAY avoids the 40 ms wait for the client to acknowledge the head."""
    with (
        listen("127.0.0.1", 0) as listening,
        socket.create_connection(listening.getsockname()),
        listening.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_an_unreadable_crew_file_is_not_offered(tmp_path: Path) -> None:
    """A pipe, a deep table and a key that takes a minute to parse neither stop nor delay the console."""
    (tmp_path / "deep.toml").write_text("a = " + "[" * 9_000)
    (tmp_path / "key.toml").write_text("a." * 50_000 + "a = 1")
    os.mkfifo(tmp_path / "pipe.toml")

    assert crew_choices([tmp_path]) == crew_choices([])
