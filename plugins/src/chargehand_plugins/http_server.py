"""Runs an ASGI application in a shared event loop, for plug-ins that serve HTTP."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from typing import Final

import uvicorn
from starlette.types import ASGIApp

_MOST_CONNECTIONS: Final = 500
_GRACE_SECONDS: Final = 1
_BACKLOG: Final = 128


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave signals to the command."""
        yield


def listen(host: str, port: int) -> socket.socket:
    """Bind a port; 0 is any. Raises `OSError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    # asyncio does so only for sockets with a protocol; otherwise all responses but a connection's first are
    # delayed by 40 ms, until the client has acknowledged the head.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def build_server(
    app: ASGIApp, certificate: str | None, private_key: str | None, *, has_lifespan: bool = False
) -> uvicorn.Server:
    """Build a server that logs nothing. Raises `OSError` for an invalid certificate."""
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL + 1)  # its log would contain requests
    config = uvicorn.Config(
        app,
        loop="none",
        http="h11",
        ws="none",
        lifespan="on" if has_lifespan else "off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        ssl_certfile=certificate,
        ssl_keyfile=private_key,
    )
    config.load()
    return _Server(config)


@asynccontextmanager
async def running(server: uvicorn.Server, listening: socket.socket) -> AsyncGenerator[None]:
    """Serve while the context is entered."""
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield
    finally:
        server.should_exit = True
        await serving
