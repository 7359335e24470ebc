"""Serve the MCP server by streamable HTTP, to clients with the token."""

import hmac
from typing import Final

import uvicorn
from mcp.server.mcpserver import MCPServer
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

_HOST: Final = "127.0.0.1"


class _RequiresToken:
    """Answers 401 to requests without the bearer token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = dict(scope.get("headers", ())).get(b"authorization", b"")
        if scope["type"] == "http" and not hmac.compare_digest(given, self._expected):
            refusal = PlainTextResponse(
                "Send the token: `Authorization: Bearer …`.", 401, {"WWW-Authenticate": "Bearer"}
            )
            return await refusal(scope, receive, send)
        return await self._app(scope, receive, send)


def app_of(server: MCPServer, token: str) -> ASGIApp:
    """Build the web application; the library refuses what names another host or comes from a web page."""
    return _RequiresToken(server.streamable_http_app(host=_HOST), token)


async def serve_http(server: MCPServer, port: int, token: str) -> None:
    """Serve on loopback until interrupted."""
    app = app_of(server, token)
    config = uvicorn.Config(app, host=_HOST, port=port, log_level="warning", access_log=False, server_header=False)
    await uvicorn.Server(config).serve()
