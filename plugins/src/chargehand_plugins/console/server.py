"""Run the console beside other work in an event loop."""

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from chargehand_plugins.console.access import Access
from chargehand_plugins.console.app import build_app
from chargehand_plugins.console.backend import Backend
from chargehand_plugins.console.settings import ConsoleSettings, UnusableConsole
from chargehand_plugins.http_server import build_server, listen, running

_USUAL_PORT: Final = 8234


@dataclass(frozen=True)
class RunningConsole:
    url: str
    port: int
    access: Access

    def sign_in_link(self) -> str:
        """Make a link that signs one browser in."""
        return f"{self.url}/login?code={self.access.make_link_code()}"


@asynccontextmanager
async def serving(backend: Backend, settings: ConsoleSettings) -> AsyncGenerator[RunningConsole]:
    """Serve the console while the context is entered.

    Raises:
        UnusableConsole: the port is taken, or the certificate is invalid.
    """
    listening = _listen(settings)
    port = int(listening.getsockname()[1])
    access = Access(settings.token)
    app = build_app(backend, settings, access, port)
    try:
        server = build_server(app, settings.certificate, settings.private_key)
    except OSError as error:  # SSLError is one
        listening.close()
        raise UnusableConsole(f"The certificate cannot be used: {error.strerror or error}.") from error
    async with running(server, listening):
        yield RunningConsole(settings.url(port), port, access)


def _listen(settings: ConsoleSettings) -> socket.socket:
    ports = (_USUAL_PORT, 0) if settings.port is None else (settings.port,)
    for port in ports:
        try:
            return listen(settings.host, port)
        except OSError as error:
            if port == ports[-1]:
                raise UnusableConsole(
                    f"The console cannot listen on {settings.host}:{port}: {error.strerror or error}. Choose another "
                    "port with --port."
                ) from error
    raise AssertionError("there is a port")
