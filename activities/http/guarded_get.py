"""The guarded GET: every connection goes to a checked public address, and every redirect is checked like the first URL.

Used for web pages and for documents from the web. Importing it loads the HTTP client, which takes 0.2 s.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from http import HTTPStatus
from http.client import responses
from typing import Any, Final, TypeAlias, TypeVar

import httpcore2
from httpcore2 import AnyIOBackend, AsyncNetworkBackend, AsyncNetworkStream, ConnectError, ConnectTimeout
from httpx2 import URL, InvalidURL, create_ssl_context

from activities.http.addresses import AddressRefusedError, reason_to_refuse
from activities.http.page import FetchError, FetchLimits

PORTS: Final = frozenset({80, 443})
_ADDRESSES_TRIED: Final = 3
_READ_BYTES: Final = 8_192
_URL_CHARACTERS: Final = 2_000
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})

T = TypeVar("T")
Take: TypeAlias = Callable[[URL, Mapping[str, str], AsyncIterator[bytes]], Awaitable[T]]
"""Reads a response of status 200: its final URL, its headers by lower-case names, its body."""
Resolve: TypeAlias = Callable[[str, int], Awaitable[tuple[str, ...]]]
SocketOption: TypeAlias = tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]


class GuardedGet:
    """Sends single GET requests without cookies, persistent connections, or proxies from the environment."""

    def __init__(self, backend: "GuardedBackend", limits: FetchLimits, **headers: str) -> None:
        """Configure the headers to send; their names are written with underscores."""
        self._backend = backend
        self._limits = limits
        named = [(name.replace("_", "-").title(), value) for name, value in headers.items()]
        self._headers = [*named, ("Connection", "close")]
        self._tls: ssl.SSLContext | None = None

    async def get(self, address: str, check: Callable[[URL], None], take: Take[T]) -> T:
        """Follow redirects to a response of status 200 and return the result of `take`. Raises `FetchError`.

        `check` raises `FetchError` for URLs that must not be requested.
        """
        seconds = self._limits.total.total_seconds()
        try:
            async with asyncio.timeout(seconds):
                return await self._follow(_parse(address, check), check, take)
        except TimeoutError:
            raise FetchError(f"{address} took longer than {seconds:g} seconds") from None
        except AddressRefusedError as refused:
            raise FetchError(f"{address} may not be read: {refused}") from refused
        except httpcore2.TimeoutException as error:
            raise FetchError(f"{address} did not answer in time") from error
        except (httpcore2.NetworkError, httpcore2.ProtocolError, ssl.SSLError) as error:
            raise FetchError(f"{address} could not be reached: {error or type(error).__name__}") from error

    async def _follow(self, url: URL, check: Callable[[URL], None], take: Take[T]) -> T:
        if self._tls is None:
            self._tls = await asyncio.to_thread(create_ssl_context, trust_env=False)
        async with httpcore2.AsyncConnectionPool(ssl_context=self._tls, network_backend=self._backend) as pool:
            for _ in range(self._limits.redirects + 1):
                async with pool.stream(
                    "GET",
                    httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
                    headers=[("Host", url.netloc.decode("ascii")), *self._headers],
                    extensions={"timeout": self._timeouts()},
                ) as response:
                    headers = {
                        name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers
                    }
                    if response.status == HTTPStatus.OK:
                        return await take(url, headers, response.aiter_stream())
                    if response.status not in _REDIRECTS:
                        raise FetchError(
                            f"{url} answered {response.status} {responses.get(response.status, '')}".rstrip()
                        )
                url = _next(url, headers, check)
        raise FetchError(f"{url} was reached by more than {self._limits.redirects} redirects; it was not read")

    def _timeouts(self) -> dict[str, float]:
        connect, total = self._limits.connect.total_seconds(), self._limits.total.total_seconds()
        return {"connect": connect, "read": total, "write": total, "pool": total}


async def resolve_by_system(host: str, port: int) -> tuple[str, ...]:
    """Ask the operating system's resolver, which also understands numeric addresses in every notation."""
    addresses = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(address[0]) for *_, address in addresses))


class GuardedBackend(AsyncNetworkBackend):
    """Resolve a host once, refuse it if any of its addresses is not public, and connect to a checked address.

    Checking at connection time covers redirects, unusual notations, and DNS names that change between check and
    connection. TLS still verifies the host name. `allowed_hosts` are internal servers that the operator allows.
    """

    def __init__(
        self,
        allowed_hosts: frozenset[str] = frozenset(),
        resolve: Resolve = resolve_by_system,
        dial: AsyncNetworkBackend | None = None,
    ) -> None:
        self._allowed_hosts = frozenset(host.strip().lower() for host in allowed_hosts)
        self._resolve = resolve
        self._dial = dial or AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  # the signature is httpcore2's
        local_address: str | None = None,
        socket_options: Iterable[SocketOption] | None = None,
    ) -> AsyncNetworkStream:
        allowed = self.is_internal(host, port)
        if port not in PORTS and not allowed:
            raise AddressRefusedError(f"port {port} is not one that web pages are served from (80 and 443)")
        try:
            addresses = await self._resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise ConnectError(f"the host {host} could not be found") from error
        if not addresses:
            raise ConnectError(f"the host {host} has no address")
        if not allowed:
            for address in addresses:
                if why := reason_to_refuse(address):
                    raise AddressRefusedError(f"the host {host} is at {address}: {why}")
        *others, last = addresses[:_ADDRESSES_TRIED]
        for address in others:
            with suppress(ConnectError, ConnectTimeout):
                return _SmallReads(await self._dial.connect_tcp(address, port, timeout, local_address, socket_options))
        return _SmallReads(await self._dial.connect_tcp(last, port, timeout, local_address, socket_options))

    def is_internal(self, host: str, port: int) -> bool:
        """Whether a host is internal and allowed by the operator."""
        name = f"[{host}]" if ":" in host else host.lower()
        return f"{name}:{port}" in self._allowed_hosts or (port in PORTS and name in self._allowed_hosts)


class _SmallReads(AsyncNetworkStream):
    """A connection that is read in small pieces.

    The data of one read is parsed without a pause: 64 KB in HTTP chunks of one byte would block the event
    loop for a second.
    """

    def __init__(self, stream: AsyncNetworkStream) -> None:
        self._stream = stream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109  # the signature is httpcore2's
        return await self._stream.read(min(max_bytes, _READ_BYTES), timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> AsyncNetworkStream:
        return _SmallReads(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _parse(address: str, check: Callable[[URL], None]) -> URL:
    if len(address) > _URL_CHARACTERS:
        raise FetchError(f"the URL is longer than {_URL_CHARACTERS} characters")
    try:
        url = URL(address)
    except InvalidURL as error:
        raise FetchError(f"{address} is not a URL: {error}") from error
    if url.userinfo:
        raise FetchError("the URL contains a user name or password; leave them out")
    check(url)
    return url


def _next(url: URL, headers: Mapping[str, str], check: Callable[[URL], None]) -> URL:
    location = headers.get("location")
    if not location:
        raise FetchError(f"{url} redirects without saying where to")
    try:
        return _parse(str(url.join(location)), check)
    except InvalidURL as error:
        raise FetchError(f"{url} redirects to something that is not a URL") from error
