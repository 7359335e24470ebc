"""A managed MCP server, which is restarted after it ends, and held to its approved descriptions."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from pydantic import JsonValue
from temporalio.exceptions import ApplicationError

from activities.contracts.mcp_declaration import McpDeclaration
from activities.contracts.rounds import Elicitation
from chargehand.wire import ErrorType
from chargehand_plugins.mcp.tools.definitions import Definition, UnusableTool, define, digest_together

if TYPE_CHECKING:
    from mcp_types import CallToolResult

    from chargehand_plugins.mcp.tools.connection import Connection

_FIRST_WAIT: Final = 0.5
_LONGEST_WAIT: Final = 30.0
_logger: Final = logging.getLogger("chargehand.mcp")


class WithdrawnTool(Exception):  # noqa: N818  # reads as a statement of fact
    """A tool is currently withdrawn; the message says why, for the agent."""


class McpServer:
    """A server and its approved tools.

    Before each call, its tools are listed again, and a tool is called only if its definition is approved: by the digest
    in the crew file or, without one, as first seen by this worker.
    """

    def __init__(self, declared: McpDeclaration, environment: Mapping[str, str]) -> None:
        """Take the values of the declared variables."""
        self.declared = declared
        self.digest = ""
        """Digest of the tools as last listed; empty before."""
        self._problem = "it has not answered yet"
        self._environment = dict(environment)
        self._approved: dict[str, Definition] = {}
        self._unusable: dict[str, str] = {}
        self._connection: Connection | None = None
        self._connecting = asyncio.Lock()
        self._failures = 0
        self._not_before = 0.0

    @property
    def problem(self) -> str:
        """Explain why the server or one of its tools is unusable; empty if all are usable."""
        return self._problem or " ".join(filter(None, map(self._withdrawal, self.declared.tools)))

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values of the variables passed to the server."""
        return tuple(value for value in self._environment.values() if len(value) >= 6)

    def definition(self, tool: str) -> Definition | None:
        return self._approved.get(tool)

    async def start(self) -> None:
        """Start the server and list its tools; an unusable server is retried at its first call."""
        try:
            await self._list_tools()
        except ApplicationError as error:
            _logger.warning(error.message)
            return
        if self.problem:
            _logger.warning(self.problem)

    @asynccontextmanager
    async def connected(self, credentials: Mapping[str, str], tool: str = "") -> "AsyncGenerator[Connection]":
        """Return a connection for one call, exclusive if calls carry the user's credentials or the server may ask back.

        Raises:
            WithdrawnTool: the tool's definition is not approved.
            ApplicationError: the server is currently unusable.
        """
        from chargehand_plugins.mcp.tools.connection import Connection, ServerUnusable

        is_own = bool(self.declared.credentials) or self.declared.elicitation
        connection = Connection(self.declared, self._environment, credentials) if is_own else await self._list_tools()
        try:
            if is_own:
                await connection.open()
                self._review(await connection.tools())
            if problem := self._withdrawal(tool):
                raise WithdrawnTool(problem)
            yield connection
        except ServerUnusable as error:
            raise self._unavailable(f"{error}, during a call") from error
        finally:
            if is_own:
                await asyncio.shield(connection.close())

    async def call(
        self,
        connection: "Connection",
        tool: str,
        arguments: Mapping[str, JsonValue],
        answers: Mapping[str, Mapping[str, JsonValue] | None],
    ) -> "tuple[CallToolResult, Elicitation | None]":
        """Call a tool once with a person's answers; also return the server's questions to a person.

        Raises:
            ValueError: an argument is invalid; the message says what to correct.
            ServerUnusable: the answer is lost.
            MCPError: the server refuses the call.
        """
        server_arguments = self._approved[tool].arguments(arguments)
        if not self.declared.elicitation:
            return await connection.call(tool, server_arguments), None
        return await connection.call_answering(tool, server_arguments, answers)

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    async def _list_tools(self) -> "Connection":
        """Return a connection with freshly listed tools."""
        from chargehand_plugins.mcp.tools.connection import ServerUnusable

        connection = self._connection
        if connection is not None and connection.is_open:
            try:
                self._review(await connection.tools())
            except ServerUnusable as error:
                if connection.running:
                    # It may serve calls one at a time, and a restart would lose running ones.
                    raise self._unavailable(str(error)) from error
                _logger.warning("MCP server is started again", extra={"server": self.declared.name, "why": str(error)})
            else:
                return connection
        return await self._reconnect(connection)

    async def _reconnect(self, broken: "Connection | None") -> "Connection":
        from chargehand_plugins.mcp.tools.connection import Connection, ServerUnusable

        async with self._connecting:
            if self._connection is not None and self._connection is not broken:
                return self._connection  # another call was faster
            await self.close()
            wait = self._not_before - asyncio.get_running_loop().time()
            if wait > 0:
                raise self._unavailable(self._problem, after=wait)
            connection = Connection(self.declared, self._environment)
            try:
                await connection.open()
                self._review(await connection.tools())
            except ServerUnusable as error:
                self._failures += 1
                wait = min(_FIRST_WAIT * 2**self._failures, _LONGEST_WAIT)
                self._not_before = asyncio.get_running_loop().time() + wait
                self._problem = str(error)
                raise self._unavailable(self._problem, after=wait) from error
            else:
                self._failures = 0
                self._connection = connection
                return connection
            finally:
                # A call may be cancelled while the server lists its tools.
                if self._connection is not connection:
                    await asyncio.shield(connection.close())

    def _review(self, listed: list[dict[str, Any]]) -> None:
        """Compare the server's tool definitions with the approved ones."""
        known: dict[str, Definition] = {}
        self._unusable = {}
        for tool in listed:
            name = tool["name"]
            if name not in self.declared.tools:
                continue
            if name in known or name in self._unusable:
                self._unusable[name] = "its server lists it twice"
                continue
            try:
                known[name] = define(self.declared.name, tool)
            except UnusableTool as error:
                self._unusable[name] = str(error)
        self._problem = ""
        self.digest = digest_together(known.values())
        for name in self.declared.tools:
            if name in known and name not in self._approved and self.declared.digest in {None, self.digest}:
                self._approved[name] = known[name]
            approved = self._approved.get(name)
            if name not in known:
                self._unusable.setdefault(name, "its server does not list it")
            elif approved is None:
                self._unusable[name] = (
                    f"its server's descriptions have the digest {self.digest}, which is not the approved one"
                )
            elif approved.digest != known[name].digest:
                self._unusable[name] = "its server changed its description after it was approved"

    def _withdrawal(self, tool: str) -> str:
        """Explain why a tool is withdrawn; empty if it is not."""
        if why := self._unusable.get(tool):
            return (
                f"The tool '{tool}' of the MCP server '{self.declared.name}' is withdrawn: {why}. Go another way, or "
                "name the gap; the operator has to look at it."
            )
        return ""

    def _unavailable(self, why: str, *, after: float = 0.0) -> ApplicationError:
        return ApplicationError(
            f"the MCP server '{self.declared.name}' cannot be used: {why}",
            type=ErrorType.TOOL_UNAVAILABLE,
            next_retry_delay=timedelta(seconds=after) if after else None,
        )
