"""Every message of the table is a tool of the MCP server."""

from typing import Any

import pytest

from chargehand.messages import MESSAGES, Row
from chargehand_cli.connection import Connection
from chargehand_cli.location import LocationOptions
from chargehand_plugins.mcp.server.position import ENDED, NEXT
from chargehand_plugins.mcp.server.server import build_server


async def _tools() -> dict[str, Any]:
    server = build_server(Connection(LocationOptions()), ())
    return {tool.name: tool for tool in await server.list_tools()}


def _fields(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a schema, without the titles that are made up from names."""
    return {
        name: {key: value for key, value in field.items() if key != "title"}
        for name, field in schema["properties"].items()
    }


@pytest.mark.parametrize("row", MESSAGES.values(), ids=MESSAGES)
async def test_the_server_has_its_tool(row: Row) -> None:
    """The tool has the row's name and summary, and takes a session and the fields of the contract as they are."""
    tool = (await _tools())[row.name]
    taken = _fields(tool.input_schema)
    contract: dict[str, Any] = row.takes.model_json_schema() if row.takes else {"properties": {}}

    assert tool.description.startswith(f"{row.summary}.")
    assert taken.pop("session")["description"]
    if row.name == "status":
        taken.pop("wait_seconds")
    assert taken == _fields(contract)
    assert set(tool.input_schema["required"]) == {"session", *contract.get("required", ())}


async def test_assistants_are_pointed_to_tools_that_exist() -> None:
    """What a session waits for is named as a tool."""
    named = {name for words in (*NEXT.values(), ENDED) for name in words.split(" or ")}

    assert named <= set(await _tools())
