"""Connections to public addresses only. Runs in the activity; imported when the first page is read."""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, TypeAlias

from httpcore2 import AnyIOBackend, AsyncNetworkBackend, AsyncNetworkStream, ConnectError, ConnectTimeout

from activities.pages.addresses import AddressRefusedError, reason_to_refuse

PORTS: Final = frozenset({80, 443})
_ADDRESSES_TRIED: Final = 3
_READ_BYTES: Final = 8_192

Resolve: TypeAlias = Callable[[str, int], Awaitable[tuple[str, ...]]]
"""Finds the IP addresses of a host."""

SocketOption: TypeAlias = tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]


async def resolve_by_system(host: str, port: int) -> tuple[str, ...]:
    """Ask the operating system's resolver, which also reads numbers in every spelling it knows."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(address[0]) for *_, address in found))


class GuardedBackend(AsyncNetworkBackend):
    """Resolve a host once, refuse it if any of its addresses is not public, connect to an address that was checked.

    Checking where the connection is made covers redirects, spellings and names that change their address
    between the check and the connection. TLS still verifies the host's name.
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
        allowed = self._is_allowed(host, port)
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
        addresses = addresses[:_ADDRESSES_TRIED]
        return _SmallReads(await self._connect_to_first(addresses, port, timeout, local_address, socket_options))

    async def connect_unix_socket(
        self,
        path: str,  # noqa: ARG002  # the signature is httpcore2's
        timeout: float | None = None,  # noqa: ARG002, ASYNC109
        socket_options: Iterable[SocketOption] | None = None,  # noqa: ARG002
    ) -> AsyncNetworkStream:
        raise AddressRefusedError("web pages are not served from files")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def _is_allowed(self, host: str, port: int) -> bool:
        name = f"[{host}]" if ":" in host else host.lower()
        return f"{name}:{port}" in self._allowed_hosts or (port in PORTS and name in self._allowed_hosts)

    async def _connect_to_first(
        self,
        addresses: tuple[str, ...],
        port: int,
        seconds: float | None,
        local_address: str | None,
        socket_options: Iterable[SocketOption] | None,
    ) -> AsyncNetworkStream:
        *others, last = addresses
        for address in others:
            try:
                return await self._dial.connect_tcp(address, port, seconds, local_address, socket_options)
            except (ConnectError, ConnectTimeout):
                continue
        return await self._dial.connect_tcp(last, port, seconds, local_address, socket_options)


class _SmallReads(AsyncNetworkStream):
    """A connection that is read a little at a time.

    Between two reads everything that came is parsed without a pause: 64 KB in chunks of one byte would keep the event
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
