"""The guard of all routes: hosts, origins, sign-in, rates, sizes and headers.

The API accepts a bearer token but no cookie, so no page can use it through a browser. Pages accept a cookie but no
token; changes must come from a page of the same origin and include a form token.
"""

import asyncio
import sys
import traceback
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import FormData, Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request, cookie_parser
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from chargehand_cli.rendering.text import size
from chargehand_cli.terminal import say
from chargehand_plugins.console.access import Access, Rates, digest
from chargehand_plugins.console.operations import path_for_routes
from chargehand_plugins.console.problems import Problem
from chargehand_plugins.console.settings import ConsoleSettings
from chargehand_plugins.console.uploads import read_form
from chargehand_plugins.opentelemetry.caller_trace import received_trace

API: Final = "/api/"
_PUBLIC: Final = ("/health", "/decide/", "/login", "/static/", "/favicon.ico", "/.well-known/agent-card.json")
_SIGN_IN: Final = ("login", "static", "favicon.ico")
_STARTS: Final = ("/api/v1/sessions", "/api/v1/conversations", "/sessions", "/conversations")
_TAKE_FILES: Final = ("/api/v1/sessions", "/sessions")
"""Paths that accept large forms with files."""
_READING: Final = ("GET", "HEAD")
_FORM_BYTES: Final = 2_000_000
_BODY_SECONDS: Final = 600
_CLOSE: Final = {"Connection": "close"}
_MOST_DRAINED: Final = 1 << 20
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # With `no-referrer`, browsers would hide the origin of our own forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}

Refuse = Callable[[Request, Problem, FormData], Response]


class Guard:
    """Admits requests; refuses unacceptable ones before they reach a route."""

    def __init__(
        self, app: ASGIApp, settings: ConsoleSettings, access: Access, origins: frozenset[str], refuse: Refuse
    ) -> None:
        self._app = app
        self._settings = settings
        self._access = access
        self._origins = origins
        self._hosts = frozenset(urlsplit(origin).netloc for origin in origins)
        self._refuse = refuse
        self._requests = Rates(settings.requests_per_minute)
        self._starts = Rates(settings.starts_per_minute)
        self.cookie = cookie_name(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request; failures are answered without a traceback and logged without the request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        scope["path"] = path_for_routes(scope["raw_path"])
        stream = _BoundedStream(scope, receive, send, self._settings)
        request = Request(scope)
        try:
            self._admit(scope, Headers(scope=scope))
            stream.check_length()
            with received_trace(request.headers.get("traceparent", ""), request.headers.get("tracestate", "")):
                await self._app(scope, stream.receive, stream.send)
        except Problem as problem:
            if not stream.has_answered:
                form = await stream.begun_form(request) if getattr(request.state, "is_own_page", False) else FormData()
                await stream.drain()
                await self._refuse(request, problem, form)(scope, receive, stream.send)
        except (OSError, ClientDisconnect):
            pass  # the client disconnected or reads too slowly; includes TimeoutError
        except Exception as error:  # noqa: BLE001  # the last handler: neither client nor log may see the request
            say(f"console: {type(error).__name__} at {_place(error)}")
            if not stream.has_answered:
                problem = Problem(HTTPStatus.INTERNAL_SERVER_ERROR, "The console failed; its log says where.")
                await self._refuse(request, problem, FormData())(scope, receive, stream.send)

    def _admit(self, scope: Scope, headers: Headers) -> None:
        if len(hosts := headers.getlist("host")) != 1 or hosts[0].lower() not in self._hosts:
            raise Problem(HTTPStatus.MISDIRECTED_REQUEST, "This host name is not the console's.")
        path: str = scope["path"]
        self._check_origin(scope["method"], headers, is_api=path.startswith(API))
        scope.setdefault("state", {})["is_own_page"] = scope["method"] == "POST" and not path.startswith(
            (API, "/login")
        )
        client = self._client(scope, headers, path)
        if client:
            self._limit(self._requests, client)
        if scope["method"] == "POST" and path.rstrip("/") in _STARTS:
            self._limit(self._starts, client)
        # For plug-ins' routes, where one path may both start and read sessions.
        scope["state"]["count_start"] = partial(self._limit, self._starts, client)

    def _check_origin(self, method: str, headers: Headers, *, is_api: bool) -> None:
        site, origin = headers.get("sec-fetch-site", ""), headers.get("origin")
        is_own = origin in self._origins
        if method in _READING:
            is_embedded = headers.get("sec-fetch-mode", "navigate") != "navigate"
            is_allowed = (origin is None or is_own) and not (site in ("cross-site", "same-site") and is_embedded)
        else:
            is_allowed = is_own or (origin is None and (is_api or site == "same-origin"))
            is_allowed = is_allowed and site in ("", "none", "same-origin")
        if not is_allowed:
            raise Problem(HTTPStatus.FORBIDDEN, "Requests by other web pages are refused.")

    def _client(self, scope: Scope, headers: Headers, path: str) -> str:
        """Return the client's identity; empty while signing in, so that strangers cannot use up the owner's rate.

        Raises:
            Problem: the client has not presented the token.
        """
        if path.startswith(API):
            scheme, _, token = headers.get("authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not self._access.is_token(token.strip()):
                self._limit(self._requests, "wrong tokens")
                raise Problem(
                    HTTPStatus.UNAUTHORIZED,
                    "The token is missing or wrong: send `Authorization: Bearer TOKEN`.",
                    headers={"WWW-Authenticate": "Bearer"},
                )
            return "token"
        cookie = cookie_parser(headers.get("cookie", "")).get(self.cookie, "")
        if cookie and self._access.is_signed_in(cookie):
            scope["state"] |= {"cookie": cookie, "form_token": self._access.form_token(cookie)}
            return digest(cookie)
        if not path.startswith(_PUBLIC):
            raise Problem(HTTPStatus.UNAUTHORIZED, "This browser is not signed in.")
        first = path.split("/")[1]
        return "" if first in _SIGN_IN else f"strangers at {first}"

    def _limit(self, rates: Rates, client: str) -> None:
        if wait := rates.wait_seconds(client):
            raise Problem(
                HTTPStatus.TOO_MANY_REQUESTS,
                f"Too many requests; try again in {wait} s.",
                headers={"Retry-After": str(wait)},
            )


def cookie_name(origins: frozenset[str]) -> str:
    """Build the cookie's name, which includes the port, since browsers share cookies between ports."""
    first = urlsplit(sorted(origins)[0])
    return "__Host-chargehand" if first.scheme == "https" else f"chargehand-{first.port}"


class _BoundedStream:
    """A request's two directions, bounded in bytes and time."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, settings: ConsoleSettings) -> None:
        headers = Headers(scope=scope)
        self._receive = receive
        self._send = send
        self._idle_seconds = settings.idle_seconds
        self._is_tls = scope.get("scheme") == "https" or (settings.public_url or "").startswith("https:")
        is_form = headers.get("content-type", "").lower().startswith("multipart/form-data")
        self._most = settings.most_body_bytes if is_form and scope["path"] in _TAKE_FILES else _FORM_BYTES
        self._stated = headers.get("content-length", "0")
        self._read = 0
        self._has_all = False
        self._ends_at = asyncio.get_running_loop().time() + _BODY_SECONDS
        self.has_answered = False

    def check_length(self) -> None:
        if int(self._stated[:20] or 0) > self._most:  # the server has refused non-numbers
            raise self._too_large()

    async def receive(self) -> Message:
        if self._has_all:  # only a disconnect can follow
            return await self._receive()
        now = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(min(self._idle_seconds, max(0, self._ends_at - now))):
                message = await self._receive()
        except TimeoutError:
            raise Problem(
                HTTPStatus.REQUEST_TIMEOUT, "The body of the request did not arrive in time.", headers=_CLOSE
            ) from None
        self._read += len(message.get("body", b""))
        self._has_all = message["type"] != "http.request" or not message.get("more_body", False)
        if self._read > self._most:
            raise self._too_large()
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.has_answered = True
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            if self._is_tls:
                headers.setdefault("Strict-Transport-Security", "max-age=31536000")
        async with asyncio.timeout(self._idle_seconds):
            await self._send(message)

    async def begun_form(self, request: Request) -> FormData:
        """Read the texts of a refused form, up to the first large file; none if they were read before."""
        boundary = request.headers.get("content-type", "").rpartition("boundary=")[2].strip('"')
        end = f"\r\n--{boundary}--\r\n".encode() if boundary else b""

        async def receive() -> Message:
            message = await self.receive()
            is_cut = self._read >= _MOST_DRAINED and message.get("more_body", False)
            return {**message, "body": message["body"] + end, "more_body": False} if is_cut else message

        if self._read:
            return FormData()
        try:
            form = await read_form(Request(request.scope, receive))
        except (Problem, OSError, ClientDisconnect):
            return FormData()
        await form.close()
        return form

    async def drain(self) -> None:
        """Read the small body of a refused request, since closing with unread bytes can lose the response."""
        if self._has_all or not self._stated.isdigit() or int(self._stated[:20]) > _MOST_DRAINED:
            return
        try:
            while not self._has_all:
                await self.receive()
        except Problem:
            pass

    def _too_large(self) -> Problem:
        return Problem(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"The request may have {size(self._most)} at most.",
            headers=_CLOSE,
        )


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(sys.exc_info()[2] if error.__traceback__ is None else error.__traceback__)
    return f"{frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else "an unknown place"
