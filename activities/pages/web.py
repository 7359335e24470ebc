"""One GET to the web: each address is checked when it is connected to, and each redirect like the first address."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from typing import Final, TypeVar

import httpcore2
from httpx2 import URL, InvalidURL, create_ssl_context

from activities.pages.addresses import AddressRefusedError
from activities.pages.network import GuardedBackend

_URL_CHARACTERS: Final = 2_000
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})

T = TypeVar("T")
Take = Callable[[URL, Mapping[str, str], AsyncIterator[bytes]], Awaitable[T]]
"""Takes an answer of status 200: where it was found, its headers by their names in small letters, its body."""


class UnreachableError(Exception):
    """An address gives nothing; the message says why, for whoever named it."""


@dataclass(frozen=True)
class Endurance:
    """How long a GET may go on."""

    connect: timedelta
    """Time for one attempt to connect."""
    total: timedelta
    """Time for everything: resolving, connecting, redirects and body."""
    redirects: int


class Web:
    """Asks for one thing at a time, and keeps nothing: no cookies, no connections, no settings of the environment."""

    def __init__(self, backend: GuardedBackend, endurance: Endurance, **headers: str) -> None:
        """Ask with these headers, whose names are written with underscores."""
        self._backend = backend
        self._endurance = endurance
        named = [(name.replace("_", "-").title(), value) for name, value in headers.items()]
        self._headers = [*named, ("Connection", "close")]
        self._tls: ssl.SSLContext | None = None

    async def get(self, address: str, check: Callable[[URL], None], take: Take[T]) -> T:
        """Follow redirects to an answer, and take it.

        Args:
            check: refuses addresses that may not be asked, by an error of its own.

        Raises:
            UnreachableError: there is no answer.
        """
        seconds = self._endurance.total.total_seconds()
        try:
            async with asyncio.timeout(seconds):
                return await self._follow(_parsed(address, check), check, take)
        except TimeoutError:
            raise UnreachableError(f"{address} took longer than {seconds:g} seconds") from None
        except AddressRefusedError as refused:
            raise UnreachableError(f"{address} may not be read: {refused}") from refused
        except httpcore2.TimeoutException as error:
            raise UnreachableError(f"{address} did not answer in time") from error
        except (httpcore2.NetworkError, httpcore2.ProtocolError, ssl.SSLError) as error:
            raise UnreachableError(f"{address} could not be reached: {error or type(error).__name__}") from error

    async def _follow(self, url: URL, check: Callable[[URL], None], take: Take[T]) -> T:
        if self._tls is None:
            self._tls = await asyncio.to_thread(create_ssl_context, trust_env=False)
        async with httpcore2.AsyncConnectionPool(ssl_context=self._tls, network_backend=self._backend) as pool:
            for _ in range(self._endurance.redirects + 1):
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
                        raise UnreachableError(f"{url} answered {_named(response.status)}")
                url = _next(url, headers, check)
        raise UnreachableError(f"{url} was reached by more than {self._endurance.redirects} redirects; it was not read")

    def _timeouts(self) -> dict[str, float]:
        connect, total = self._endurance.connect.total_seconds(), self._endurance.total.total_seconds()
        return {"connect": connect, "read": total, "write": total, "pool": total}


def _parsed(address: str, check: Callable[[URL], None]) -> URL:
    if len(address) > _URL_CHARACTERS:
        raise UnreachableError(f"the URL is longer than {_URL_CHARACTERS} characters")
    try:
        url = URL(address)
    except InvalidURL as error:
        raise UnreachableError(f"{address} is not a URL: {error}") from error
    if url.userinfo:
        raise UnreachableError("the URL contains a user name or password; leave them out")
    check(url)
    return url


def _next(url: URL, headers: Mapping[str, str], check: Callable[[URL], None]) -> URL:
    location = headers.get("location")
    if not location:
        raise UnreachableError(f"{url} redirects without saying where to")
    try:
        return _parsed(str(url.join(location)), check)
    except InvalidURL as error:
        raise UnreachableError(f"{url} redirects to something that is not a URL") from error


def _named(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)
