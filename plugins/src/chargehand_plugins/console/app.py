"""The console as an ASGI application: the API, the pages, and the guard in front of both."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
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
from chargehand_plugins.console.settings import ConsoleSettings
from chargehand_plugins.console.streams import Streams
from chargehand_plugins.webhooks.links import Links

_STATIC: Final = Path(__file__).with_name("static")

Handler = Callable[[Request], Awaitable[Response]]


def build_app(backend: Backend, settings: ConsoleSettings, access: Access, port: int) -> Guard:
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
    routes = installed().functions(Hook.CONSOLE_ROUTES)
    return [route for build in routes for route in build(backend.connect, url)]


def _routes(backend: Backend, settings: ConsoleSettings) -> Iterator[Route]:
    """Yield a route for each path, so that a refusal of other methods names all that there are."""
    by_path: dict[str, dict[str, Operation]] = {}
    for each in OPERATIONS:
        by_path.setdefault(PREFIX + each.path, {})[each.method] = each
    for path, operations in by_path.items():

        async def handle(request: Request, operations: Mapping[str, Operation] = operations) -> Response:
            operation = operations["GET" if request.method == "HEAD" else request.method]
            return await operation.handle(Call(request, backend, settings))

        yield Route(path, handle, methods=[*operations])


def refuse(request: Request, problem: Problem) -> Response:
    """Answer a request that cannot be done: problem details for programs, a page for people."""
    if request.url.path.startswith(API):
        return JSONResponse(problem.body(), problem.status, problem.headers, "application/problem+json")
    return error_page(request, problem)


async def _on_error(request: Request, error: Exception) -> Response:
    match error:
        case Problem():
            return refuse(request, error)
        case HTTPException(status_code=status, detail=detail, headers=headers):
            return refuse(request, Problem(HTTPStatus(status), detail, headers=dict(headers or {})))
        case _:
            assert isinstance(error, ChargehandError)
            return refuse(request, problem_of(error))
