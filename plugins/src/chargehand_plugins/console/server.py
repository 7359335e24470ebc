"""The console as an ASGI application, with the guard in front of API and pages, and its server."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from chargehand import ChargehandError
from chargehand.plugins import Hook, installed
from chargehand_plugins.console.access import Access
from chargehand_plugins.console.api import OPERATIONS, PREFIX
from chargehand_plugins.console.backend import Backend
from chargehand_plugins.console.decide import ROUTES
from chargehand_plugins.console.openapi import openapi_document
from chargehand_plugins.console.operations import Call, Operation
from chargehand_plugins.console.pages import PAGES, error_page
from chargehand_plugins.console.problems import Problem, problem_of
from chargehand_plugins.console.security import API, Guard, cookie_name
from chargehand_plugins.console.settings import ConsoleSettings, UnusableConsole
from chargehand_plugins.console.streams import Streams
from chargehand_plugins.http_server import build_server, listen, running
from chargehand_plugins.webhooks.links import Links

_USUAL_PORT: Final = 8234
_STATIC: Final = Path(__file__).with_name("static")

Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True)
class RunningConsole:
    url: str
    port: int
    access: Access

    def sign_in_link(self) -> str:
        """Create a link that signs in one browser."""
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
    app = _build_app(backend, settings, access, port)
    try:
        server = build_server(app, settings.certificate, settings.private_key)
    except OSError as error:  # SSLError is one
        listening.close()
        raise UnusableConsole(f"The certificate cannot be used: {error.strerror or error}.") from error
    reading = asyncio.create_task(_read_ahead(backend))
    try:
        async with running(server, listening):
            yield RunningConsole(settings.url(port), port, access)
    finally:
        reading.cancel()


async def _read_ahead(backend: Backend) -> None:
    """Preload the index of the word search."""
    with suppress(ChargehandError):
        await backend.known.find(backend.list, ())


def _listen(settings: ConsoleSettings) -> socket.socket:
    if settings.port is None:
        with suppress(OSError):  # it is taken, for example by another console
            return listen(settings.host, _USUAL_PORT)
    port = settings.port or 0
    try:
        return listen(settings.host, port)
    except OSError as error:
        raise UnusableConsole(
            f"The console cannot listen on {settings.host}:{port}: {error.strerror or error}. Choose another port with "
            "--port."
        ) from error


def _build_app(backend: Backend, settings: ConsoleSettings, access: Access, port: int) -> Guard:
    """Build the application that listens on a port."""
    origins, url = settings.origins(port), settings.url(port)
    document = openapi_document(OPERATIONS, PREFIX, url)

    async def openapi(_: Request) -> Response:
        return JSONResponse(document)

    async def health(_: Request) -> Response:
        return JSONResponse({"status": "up"})

    app = Starlette(
        routes=[
            Route("/health", health),
            Mount("/static", StaticFiles(directory=_STATIC)),
            Route(f"{PREFIX}/openapi.json", openapi),
            *_routes(backend, settings),
            *PAGES,
            *ROUTES,
            *([] if backend.tenant else _plugin_routes(backend, url)),
        ],
        exception_handlers=dict.fromkeys((Problem, ChargehandError, HTTPException), _on_error),
    )
    app.state.backend = backend
    app.state.settings = settings
    app.state.access = access
    app.state.links = Links(url, settings.decision_key.encode())
    app.state.cookie = cookie_name(origins)
    app.state.streams = Streams(settings.most_streams)
    return Guard(app, settings, access, origins, refuse)


def _plugin_routes(backend: Backend, url: str) -> list[Route]:
    added = installed().hooks.get(Hook.CONSOLE_ROUTES, ())
    return [route for each in added for route in each.list_of(Route, "routes", backend.connect, url)]


def _routes(backend: Backend, settings: ConsoleSettings) -> Iterator[Route]:
    """Yield one route per path, so that a refused method lists all allowed ones."""
    by_path: dict[str, dict[str, Operation]] = {}
    for each in OPERATIONS:
        by_path.setdefault(PREFIX + each.path, {})[each.method] = each
    for path, operations in by_path.items():

        async def handle(request: Request, operations: Mapping[str, Operation] = operations) -> Response:
            operation = operations["GET" if request.method == "HEAD" else request.method]
            return await operation.handle(Call(request, backend, settings))

        yield Route(path, handle, methods=[*operations])


def refuse(request: Request, problem: Problem, form: FormData) -> Response:
    """Respond to a failed request with problem details for programs or a page for people."""
    if request.url.path.startswith(API):
        return JSONResponse(problem.body(), problem.status, problem.headers, "application/problem+json")
    return error_page(request, problem, form)


async def _on_error(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        problem = Problem(HTTPStatus(error.status_code), error.detail, headers=dict(error.headers or {}))
        return refuse(request, problem, FormData())
    assert isinstance(error, ChargehandError | Problem)
    return refuse(request, problem_of(error), FormData())
