"""A tool of an MCP server for agents; its results are capped and treated as data."""

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from pydantic import JsonValue
from temporalio.exceptions import ApplicationError

from activities.contracts.rounds import MOST_PICTURES
from activities.contracts.tool import (
    OUTPUT_CAP_CHARACTERS,
    CallContext,
    NeedsInput,
    Tool,
    ToolAnswer,
    ToolContext,
    ToolSpec,
    object_schema,
)
from activities.credentials import hide
from activities.documents.artifacts import Artifacts
from activities.documents.tool_pictures import store_picture
from chargehand.contracts import Capability, Source
from chargehand.tools import failed
from chargehand_plugins.mcp.tools.definitions import MOST_SPEC_BYTES, readable
from chargehand_plugins.mcp.tools.server import McpServer, WithdrawnTool

if TYPE_CHECKING:
    from mcp_types import CallToolResult

_SERVER_ERROR_CHARACTERS: Final = 1_500
_TEXT_CHARACTERS: Final = OUTPUT_CAP_CHARACTERS - 500


class McpTool:
    def __init__(self, name: str, server: McpServer, tool: str, artifacts: Artifacts | None = None) -> None:
        """Take the tool's names for agents and for the server; pictures are shown if they can be stored."""
        self._artifacts = artifacts
        self._name = name
        self._server = server
        self._tool = tool
        self.capabilities: frozenset[Capability] = frozenset(server.declared.capabilities)

    @property
    def spec(self) -> ToolSpec:
        """The approved description; until there is one, space for it is reserved in its agent's prompts."""
        declared, definition = self._server.declared, self._server.definition(self._tool)
        return ToolSpec(
            name=self._name,
            description=definition.description if definition else "Its server has not described it yet.",
            parameters=definition.parameters if definition else object_schema(),
            acts=self._tool in declared.acts,
            approval=self._tool in declared.approval,
            reads_elsewhere="reads_private" in declared.capabilities,
            own_step=declared.elicitation,
            credentials=declared.credentials,
            time_limit_seconds=declared.call_seconds + 2 * declared.start_seconds,
            reserved_bytes=0 if definition else MOST_SPEC_BYTES,
        )

    async def use(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> ToolAnswer:
        """Call the tool; the server learns nothing about the session except credentials declared for it."""
        from mcp import MCPError

        is_called = False
        try:
            async with self._server.connected(context.credentials, self._tool) as connection:
                is_called = True
                answers = context.answers if isinstance(context, CallContext) else {}
                result, question = await self._server.call(connection, self._tool, arguments, answers)
        except (WithdrawnTool, ValueError) as refused:
            return failed(str(refused))
        except MCPError as error:
            return failed(
                f"The server refused the call: {_clean(self._server, error.message, _SERVER_ERROR_CHARACTERS)}"
            )
        except ApplicationError as error:
            # Another attempt at an acting call would have to assume that this one was applied.
            if self.spec.acts and not is_called:
                return failed(f"Nothing was done: {error.message}.")
            raise
        if question is not None:
            return NeedsInput(output={"error": "Its server asks a person, who has not answered."}, elicitation=question)
        return await self._answer(arguments, result)

    async def _answer(self, given: Mapping[str, JsonValue], result: "CallToolResult") -> ToolAnswer:
        text, left_out = _text(result)
        if result.is_error:
            words = _clean(self._server, text, _SERVER_ERROR_CHARACTERS)
            return failed(words or "The tool failed, and its server does not say why.")
        pictures, unread = await self._pictures(result)
        text = "\n\n".join(filter(None, (text, *(description for _, description in pictures))))
        left_out += [f"image ({unread})"] if unread else []
        answer = _answer(self._server, self._name, self._tool, given, text=text, left_out=left_out)
        return answer.model_copy(update={"pictures": tuple(name for name, _ in pictures)})

    async def _pictures(self, result: "CallToolResult") -> tuple[list[tuple[str, str]], int]:
        """Store the first pictures of a result; return them, and the number omitted."""
        images = [block.data for block in result.content if block.type == "image"]
        stored = [await self._store(data) for data in images[:MOST_PICTURES]]
        pictures = [each for each in stored if each]
        return pictures, len(images) - len(pictures)

    async def _store(self, data: str) -> tuple[str, str] | None:
        try:
            content = base64.b64decode(data, validate=True)
        except ValueError:
            return None
        return await store_picture(content, self._artifacts) if self._artifacts else None


class ReadResource:
    """Reads the declared resources of a server."""

    def __init__(self, server: McpServer) -> None:
        self._server = server
        self.capabilities: frozenset[Capability] = frozenset(server.declared.capabilities)
        self.spec = ToolSpec(
            name=server.declared.resource_tool,
            description=f"Read a text that the MCP server '{server.declared.name}' has.",
            parameters=object_schema(uri={"type": "string", "enum": [*server.declared.resources]}),
            reads_elsewhere="reads_private" in self.capabilities,
            credentials=server.declared.credentials,
            time_limit_seconds=server.declared.call_seconds + 2 * server.declared.start_seconds,
        )

    async def use(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> ToolAnswer:
        from mcp import MCPError

        uri = arguments.get("uri")
        if uri not in self._server.declared.resources:
            return failed(f"There is no such resource; there are {', '.join(self._server.declared.resources)}.")
        try:
            async with self._server.connected(context.credentials) as connection:
                result = await connection.read(str(uri))
        except MCPError as error:
            return failed(f"The server refused it: {_clean(self._server, error.message, _SERVER_ERROR_CHARACTERS)}")
        texts = [text for each in result.contents if isinstance(text := getattr(each, "text", None), str)]
        left_out = ["what is no text"] if len(texts) < len(result.contents) else []
        return _answer(self._server, self.spec.name, str(uri), arguments, text="\n\n".join(texts), left_out=left_out)


def _answer(
    server: McpServer, name: str, what: str, given: Mapping[str, JsonValue], *, text: str, left_out: list[str]
) -> ToolAnswer:
    """Turn a server's result into a quoted source, truncated for the model."""
    quote = _clean(server, text, _TEXT_CHARACTERS)
    output: dict[str, JsonValue] = {}
    if len(text) > _TEXT_CHARACTERS:
        output["note"] = f"Cut after {_TEXT_CHARACTERS:,} of {len(text):,} characters: ask for less at once."
    if left_out:
        output["left_out"] = ", ".join(left_out)
    if not quote.strip():
        return ToolAnswer(output={**output, "note": "The tool returned no text."})
    key = json.dumps([dict(given), quote], sort_keys=True)
    digest = hashlib.sha256(key.encode()).hexdigest()[:12]
    title = f"{what} by the MCP server '{server.declared.name}'"
    source = Source(ref=f"mcp:{name}:{digest}", title=title, quote=quote)
    return ToolAnswer(output=output, sources=(source,))


def _clean(server: McpServer, text: str, most: int) -> str:
    """Truncate a server's text, removing invisible characters and its credentials."""
    for secret in server.secrets:
        text = text.replace(secret, "[credential]")
    return readable(hide(text), most)


def _text(result: "CallToolResult") -> tuple[str, list[str]]:
    """Return the text of a result, and the kinds of omitted content."""
    texts: list[str] = []
    others: set[str] = set()
    for block in result.content:
        match block.type:
            case "text":
                texts.append(block.text)
            case "resource" if hasattr(block.resource, "text"):
                texts.append(f"{block.resource.uri}\n{getattr(block.resource, 'text', '')}")
            case "resource_link":
                texts.append(f"{block.name}: {block.uri}")
            case "image":
                pass  # shown separately
            case kind:
                others.add(kind)
    if not texts and result.structured_content is not None:
        texts.append(json.dumps(result.structured_content, ensure_ascii=False))
    return "\n\n".join(texts), sorted(others)


def tools_of(servers: Iterable[McpServer], artifacts: Artifacts | None = None) -> dict[str, Tool]:
    """Build the tools of servers by their names for agents; pictures are shown if they can be stored."""
    tools = dict[str, Tool]()
    for server in servers:
        tools |= {name: McpTool(name, server, tool, artifacts) for name, tool in server.declared.tool_names.items()}
        if server.declared.resources:
            tools[server.declared.resource_tool] = ReadResource(server)
    return tools
