"""The client that the MCP conformance suite drives: `python -m tests.suites.mcp_client URL`.

It does what a worker does: reaches the server of a declaration, takes the tools' descriptions, and calls each tool.
"""

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import httpx2 as httpx
from pydantic import JsonValue

from activities.contracts.mcp_declaration import McpDeclaration, OAuthClient
from activities.contracts.tool import CallContext, NeedsInput
from chargehand_plugins.mcp.tools.server import McpServer
from chargehand_plugins.mcp.tools.tool import tools_of
from workflows.rules.forms import read_form

_CALLS: Final[Mapping[str, tuple[str, Mapping[str, JsonValue]]]] = {
    "": ("test-tool", {}),
    "tools_call": ("add_numbers", {"a": 5, "b": 3}),
    "sse-retry": ("test_reconnection", {}),
    "elicitation-sep1034-client-defaults": ("test_client_elicitation_defaults", {}),
}
"""Tool and arguments by scenario; "" is for all others."""


async def main(url: str) -> int:
    """Use the scenario's server; return 1 if it could not be reached."""
    scenario, context = (
        os.environ["MCP_CONFORMANCE_SCENARIO"],
        json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}")),
    )
    tool, arguments = _CALLS.get(scenario, _CALLS[""])
    oauth = None
    if scenario.startswith("auth/"):
        oauth = OAuthClient(issuer=await _issuer(url), client_id="ID", client_secret="SECRET")
    declared = McpDeclaration(
        name="suite", url=url, tools=(tool,), oauth=oauth, elicitation=scenario.startswith("elicitation")
    )
    server = McpServer(declared, {"ID": context.get("client_id", ""), "SECRET": context.get("client_secret", "")})
    await server.start()
    if not server.problem:
        call = CallContext(session="s", agent="a", idempotency_key="k")
        [used] = tools_of([server]).values()
        answer = await used.use(arguments, call)
        if isinstance(answer, NeedsInput):
            answers = {answer.elicitation.key: read_form(answer.elicitation.form, "{}")}
            answer = await used.use(arguments, call.model_copy(update={"answers": answers}))
        print(answer)
    print(server.problem, file=sys.stderr)
    await server.close()
    return 0 if server.digest else 1


async def _issuer(url: str) -> str:
    """Find the authorization server, which the author of a declaration would know."""
    parts = urlsplit(url)
    async with httpx.AsyncClient(trust_env=False) as http:
        found = await http.get(f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource{parts.path}")
    return str(found.json()["authorization_servers"][0])


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1])))
