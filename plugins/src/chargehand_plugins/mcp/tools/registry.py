"""The MCP servers declared by a worker's crews, started in parallel and ended with the worker."""

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from contextlib import AsyncExitStack
from importlib import import_module
from importlib.util import find_spec
from typing import Final

from activities.backends import Choice, SettingsError
from activities.contracts.mcp_declaration import McpDeclaration
from activities.contracts.tool import Tool
from activities.crews.files import mcp_declarations
from activities.documents.artifacts import Artifacts
from chargehand_cli.rendering.text import count
from chargehand_plugins.mcp.tools.server import McpServer
from chargehand_plugins.mcp.tools.tool import tools_of
from worker.composition import crew_folders
from worker.parts import WorkerParts
from worker.settings import Settings

_PATIENCE: Final = 20.0
"""Time that `doctor` waits for all servers."""


async def mcp_tools(
    declared: Mapping[str, Iterable[McpDeclaration]],
    environment: Mapping[str, str],
    closing: AsyncExitStack,
    *,
    taken: Collection[str] = (),
    start: bool = True,
    artifacts: Artifacts | None = None,
) -> dict[str, Tool]:
    """Start the servers declared by crews, by crew name, and build their tools.

    A server that is not up in time does not block the worker's start; its tools report it when used.
    Without `start`, no server is needed, as when replaying a tape.

    Raises:
        SettingsError: the `mcp` package or a variable is missing, two crews mean different servers by one name, or a
            tool has a name that is `taken`.
    """
    servers = await _built(declared, environment) if start else [McpServer(each, {}) for each in _once_each(declared)]
    for server in servers if start else ():
        closing.push_async_callback(server.close)
    if start:
        await asyncio.gather(*(server.start() for server in servers))
    tools = dict[str, Tool](tools_of(servers, artifacts))
    if both := sorted(set(tools).intersection(taken)):
        raise SettingsError(f"There is another tool '{both[0]}'; give the MCP server of that tool another name.")
    return tools


async def add_parts(parts: WorkerParts) -> None:
    """Add the tools of declared servers to a worker's crews."""
    declared = mcp_declarations(parts.crew_folders)
    added = await mcp_tools(
        declared,
        parts.environment,
        parts.closing,
        taken=parts.tools,
        start=parts.starts_servers,
        artifacts=parts.artifacts,
    )
    parts.of_crews.update(added)


async def examine_declared(settings: Settings, environment: Mapping[str, str]) -> list[Choice]:
    return await examine(mcp_declarations(crew_folders(settings)), environment)


async def examine(declared: Mapping[str, Iterable[McpDeclaration]], environment: Mapping[str, str]) -> list[Choice]:
    """Start each server once, and report its tools and problems."""
    hasty = {
        crew: [each.model_copy(update={"start_seconds": min(each.start_seconds, _PATIENCE)}) for each in servers]
        for crew, servers in declared.items()
    }
    servers = await _built(hasty, environment)
    await asyncio.gather(*(server.start() for server in servers))
    await asyncio.gather(*(server.close() for server in servers))
    return [
        Choice(
            f"mcp {server.declared.name}",
            "stdio" if server.declared.command else "http",
            f"{count(len(server.declared.tools), 'tool')} allowed"
            + (f"; digest {server.digest}" if server.digest else ""),
            server.problem,
        )
        for server in servers
    ]


async def _built(declared: Mapping[str, Iterable[McpDeclaration]], environment: Mapping[str, str]) -> list[McpServer]:
    servers = [McpServer(each, _values(each, environment)) for each in _once_each(declared)]
    if not servers:
        return []
    if find_spec("mcp") is None:
        raise SettingsError("A crew declares MCP servers; install what they need with `pip install 'chargehand[mcp]'`.")
    await asyncio.to_thread(import_module, ".connection", __package__)  # takes a second, so not on the event loop
    if not logging.getLogger().isEnabledFor(logging.DEBUG):
        # The library logs servers' messages and session ids.
        logging.getLogger("mcp").setLevel(logging.CRITICAL)
    return servers


def _once_each(declared: Mapping[str, Iterable[McpDeclaration]]) -> list[McpDeclaration]:
    """List the servers of all crews; crews with the same declaration share a server."""
    servers: dict[str, McpDeclaration] = {}
    for crew, declarations in declared.items():
        for each in declarations:
            if servers.setdefault(each.name, each) != each:
                raise SettingsError(
                    f"Crew '{crew}': another crew declares the MCP server '{each.name}' differently; give it another "
                    "name, or declare it the same in both."
                )
    return [*servers.values()]


def _values(declared: McpDeclaration, environment: Mapping[str, str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for variable in declared.variables:
        value = environment.get(variable, "").strip()
        if not value:
            raise SettingsError(f"{variable} is not set, but the MCP server '{declared.name}' of a crew needs it.")
        values[variable] = value
    return values
