"""Serve sessions to assistants: `mcp`."""

from pathlib import Path
from typing import Annotated

import typer

from chargehand_cli.connection import Connection
from chargehand_cli.verb import FILES, verb

app = typer.Typer()


@verb(app, location=FILES)
async def mcp(
    connection: Connection,
    *,
    docs: Annotated[
        list[Path] | None,
        typer.Option(
            "--docs", "-d", metavar="FOLDER", help="Folder whose documents sessions may read; may be repeated."
        ),
    ] = None,
) -> None:
    """Serve sessions to an assistant, as an MCP server on standard input and output."""
    folders = [_folder(each) for each in docs or ()]
    connection.join()  # it starts while this process loads its modules
    from chargehand_plugins.mcp.server.server import build_server

    await build_server(connection, folders).run_stdio_async()


def _folder(path: Path) -> Path:
    folder = path.expanduser().resolve()
    if not folder.is_dir():
        raise typer.BadParameter(f"{path} is not a folder.", param_hint="--docs")
    return folder
