"""Serve sessions to assistants: `mcp`."""

import os
from pathlib import Path
from typing import Annotated, Final

import typer

from chargehand_cli.connection import Connection
from chargehand_cli.verb import FILES, place, verb
from chargehand_plugins.tokens import token_from

app = typer.Typer()

_TOKEN: Final = "CHARGEHAND_MCP_TOKEN"  # noqa: S105  # the name of a setting


@verb(app, location=FILES)
async def mcp(
    connection: Connection,
    *,
    docs: Annotated[
        list[Path] | None,
        typer.Option("--docs", "-d", metavar="FOLDER", parser=place, help="Folder that sessions may read; repeatable."),
    ] = None,
    http: Annotated[
        int | None,
        typer.Option(
            "--http",
            metavar="PORT",
            min=1,
            max=65_535,
            help=f"Serve http://127.0.0.1:PORT/mcp instead, to clients that send {_TOKEN} as bearer token.",
        ),
    ] = None,
) -> None:
    """Serve sessions to an assistant, as an MCP server on standard input and output, or by HTTP."""
    folders = [_folder(each) for each in docs or ()]
    if http is not None and not os.environ.get(_TOKEN):
        raise typer.BadParameter(f"Set {_TOKEN}, which clients have to send.", param_hint="--http")
    token = token_from(_TOKEN)
    connection.join()  # it starts while this process loads its modules
    from chargehand_plugins.mcp.server.server import build_server, serve_http

    server = build_server(connection, folders)
    if http is None:
        return await server.run_stdio_async()
    try:
        return await serve_http(server, http, token)
    except OSError as error:
        raise typer.BadParameter(f"The port cannot be used: {error.strerror}.", param_hint="--http") from error


def check_settings() -> None:
    token_from(_TOKEN)


def _folder(path: Path) -> Path:
    folder = path.expanduser().resolve()
    if not folder.is_dir():
        raise typer.BadParameter(f"{path} is not a folder.", param_hint="--docs")
    return folder
