"""The routes of the A2A agent: its card, and the endpoint for JSON-RPC. Importing the library takes half a second."""

import json
import logging
from collections.abc import Callable
from importlib.metadata import version
from typing import Final

from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.types import a2a_pb2 as a2a
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from chargehand import Chargehand
from chargehand.contracts import Message
from chargehand.contracts.problems import LONGEST_REASON, printable
from chargehand.strict_json import AmbiguousJson, refuse_ambiguous_json, refuse_excess
from chargehand_plugins.a2a.tasks import Tasks

PATH: Final = "/api/a2a"
_PARSE_ERROR: Final = -32700
CARD_PATH: Final = "/.well-known/agent-card.json"


def a2a_routes(connect: Callable[[], Chargehand], url: str) -> list[Route]:
    """Build the routes of the agent at a URL; the caller has to check access."""
    logging.getLogger("a2a").setLevel(logging.CRITICAL)  # its log would contain requests
    tasks = Tasks(connect)
    return [
        *create_agent_card_routes(_card(f"{url.rstrip('/')}{PATH}"), card_url=CARD_PATH),
        *map(_strict, create_jsonrpc_routes(tasks, PATH)),
        # Also served for clients that treat the address as a base URL.
        *map(_strict, create_jsonrpc_routes(tasks, f"{PATH}/")),
    ]


def _strict(route: Route) -> Route:
    """Refuse input that would cause an internal error in the library: deep JSON, overlong numbers."""

    async def handle(request: Request) -> Response:
        body = await request.body()
        try:
            refuse_excess(body, Message.largest_bytes, Message.most_values)
            refuse_ambiguous_json(body)
            if _starts(json.loads(body)):
                request.state.count_start()
        except AmbiguousJson as error:
            place = ".".join(("input", *error.where))
            told = {"code": _PARSE_ERROR, "message": printable(f"{place}: {error}", LONGEST_REASON)}
            return JSONResponse({"jsonrpc": "2.0", "id": None, "error": told})
        return await route.endpoint(request)

    return Route(route.path, handle, methods=["POST"])


def _starts(call: object) -> bool:
    """Whether a call sends a message without a task."""
    match call:
        case {"method": "SendMessage", "params": {"message": {"taskId": str(task)} | {"task_id": str(task)}}}:
            return not task
        case {"method": "SendMessage"}:
            return True
        case _:
            return False


def _card(url: str) -> a2a.AgentCard:
    research = a2a.AgentSkill(
        id="research",
        name="Research with sources",
        description="Plans a task, has a crew of agents work on it, and writes a report that cites what they read.",
        tags=["research", "documents", "report"],
    )
    bearer = a2a.SecurityScheme(http_auth_security_scheme=a2a.HTTPAuthSecurityScheme(scheme="Bearer"))
    return a2a.AgentCard(
        name="Chargehand",
        description="Durable multi-agent sessions under limits of money and time.",
        version=version("chargehand"),
        supported_interfaces=[a2a.AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="1.0")],
        capabilities=a2a.AgentCapabilities(streaming=False, push_notifications=False),
        default_input_modes=["text/plain"],
        default_output_modes=["text/markdown"],
        skills=[research],
        security_schemes={"bearer": bearer},
        security_requirements=[a2a.SecurityRequirement(schemes={"bearer": a2a.StringList()})],
    )
