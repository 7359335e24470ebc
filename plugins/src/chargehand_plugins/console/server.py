"""Run the console beside other work in an event loop."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import uvicorn

from chargehand_plugins.console.access import Access
from chargehand_plugins.console.app import build_app
from chargehand_plugins.console.backend import Backend
from chargehand_plugins.console.settings import ConsoleSettings, UnusableConsole

_MOST_CONNECTIONS: Final = 500
_GRACE_SECONDS: Final = 1
_USUAL_PORT: Final = 8234
_BACKLOG: Final = 128


@dataclass(frozen=True)
class RunningConsole:
    """A console that listens."""

    url: str
    port: int
    access: Access

    def sign_in_link(self) -> str:
        """Make a link that signs one browser in."""
        return f"{self.url}/login?code={self.access.make_link_code()}"


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave signals to the command."""
        yield


@asynccontextmanager
async def serving(backend: Backend, settings: ConsoleSettings) -> AsyncGenerator[RunningConsole]:
    """Serve the console while the context is entered.

    Raises:
        UnusableConsole: the port is taken, or the certificate is invalid.
    """
    listening = _listen(settings)
    port = int(listening.getsockname()[1])
    access = Access(settings.token)
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL + 1)  # what it would log has the request in it
    config = uvicorn.Config(
        build_app(backend, settings, access, port),
        loop="none",
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        ssl_certfile=settings.certificate,
        ssl_keyfile=settings.private_key,
    )
    try:
        config.load()
    except OSError as error:  # SSLError is one
        listening.close()
        raise UnusableConsole(f"The certificate cannot be used: {error.strerror or error}.") from error
    server = _Server(config)
    serving_task = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield RunningConsole(settings.url(port), port, access)
    finally:
        server.should_exit = True
        await serving_task


def _listen(settings: ConsoleSettings) -> socket.socket:
    ports = (_USUAL_PORT, 0) if settings.port is None else (settings.port,)
    for port in ports:
        try:
            family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
            return socket.create_server((settings.host, port), family=family, backlog=_BACKLOG)
        except OSError as error:
            if port == ports[-1]:
                raise UnusableConsole(
                    f"The console cannot listen on {settings.host}:{port}: {error.strerror or error}. Choose another "
                    "port with --port."
                ) from error
    raise AssertionError("there is a port")
