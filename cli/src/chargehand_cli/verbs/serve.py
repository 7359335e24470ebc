"""Serve: `up`, the embedded server with a worker and the console, and `console`, the console of any server."""

import asyncio
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from chargehand.payloads.settings import encryption_of
from chargehand_cli.connection import Connection
from chargehand_cli.location import NAME_SHARED_FILES
from chargehand_cli.resumed_sessions import resumed_lines
from chargehand_cli.terminal import say
from chargehand_cli.verb import FILES, LOCAL, verb

if TYPE_CHECKING:
    from chargehand_cli.console.backend import Backend
    from chargehand_cli.console.server import RunningConsole
    from chargehand_cli.console.settings import ConsoleSettings

app = typer.Typer()

_TOKEN: Final = "CHARGEHAND_CONSOLE_TOKEN"  # noqa: S105  # the name of a setting

_Port = Annotated[
    int | None,
    typer.Option(min=0, max=65_535, help="Port of the console; 0 picks a free one.", show_default="8234 if it is free"),
]


@verb(app, location=LOCAL)
async def up(connection: Connection, *, port: _Port = None) -> None:
    """Run the embedded server, a worker and the console until Ctrl-C."""
    await stay_up(connection, port)


async def stay_up(connection: Connection, port: int | None = None) -> None:
    """Keep the embedded server, its worker and the console running until Ctrl-C."""
    from chargehand_cli.console.server import serving
    from chargehand_cli.console.settings import ConsoleSettings

    await connection.open()
    settings = ConsoleSettings(_token(), port=port)
    async with serving(_backend(connection), settings) as console:
        say(connection.describe())
        for line in await resumed_lines(connection):
            say(line)
        say(f"Worker log: {connection.location.worker_log}")
        say(f"Sessions in the Web UI: {connection.sessions_url()}")
        _announce(console, settings)
        say("Ctrl-C shuts all of it down, unless another command uses it; running sessions resume the next time.")
        try:
            while True:
                await asyncio.sleep(1)
                await connection.mend()
                connection.check_worker()
        except asyncio.CancelledError:
            say("Waiting for in-flight calls, then shutting down …")


@verb(app, location=FILES)
async def console(
    connection: Connection,
    *,
    port: _Port = None,
    host: Annotated[str, typer.Option(help="Address to listen on; anything but loopback needs TLS.")] = "127.0.0.1",
    public_url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Address that browsers use, if it is another: behind a proxy, or with TLS."),
    ] = None,
    certificate: Annotated[Path | None, typer.Option(metavar="FILE", help="TLS certificate chain, PEM.")] = None,
    private_key: Annotated[Path | None, typer.Option(metavar="FILE", help="TLS private key, PEM.")] = None,
    rate: Annotated[int, typer.Option(min=1, help="Requests per minute of one client.")] = 600,
    tenant: Annotated[
        str | None, typer.Option(help="Start, list and show sessions of this tenant only.", show_default="any")
    ] = None,
) -> None:
    """Serve the web page and the HTTP API of a server's sessions until Ctrl-C.

    Clients need a token: CHARGEHAND_CONSOLE_TOKEN, or a random one that is printed at the start.
    """
    from chargehand import SessionRequest
    from chargehand.arguments import contract
    from chargehand_cli.console.server import serving
    from chargehand_cli.console.settings import ConsoleSettings

    if tenant is not None:
        contract(SessionRequest, goal="checks the name", tenant=tenant)
    settings = ConsoleSettings(
        _token(),
        host=host,
        port=port,
        certificate=str(certificate) if certificate else None,
        private_key=str(private_key) if private_key else None,
        public_url=public_url,
        requests_per_minute=rate,
    )
    await connection.open()
    async with serving(_backend(connection, tenant), settings) as running:
        say(connection.describe())
        _announce(running, settings)
        while True:
            await asyncio.sleep(1)
            await connection.mend()
            connection.check_worker()


def _token() -> str:
    return os.environ.get(_TOKEN) or secrets.token_urlsafe(24)


def _announce(console: "RunningConsole", settings: "ConsoleSettings") -> None:
    shown = f"${_TOKEN}" if os.environ.get(_TOKEN) else settings.token
    say(f"Console: {console.sign_in_link()} (signs one browser in, within an hour)")
    say(f"HTTP API: {console.url}/api/v1 with the token {shown}")


def _backend(connection: Connection, tenant: str | None = None) -> "Backend":
    from chargehand_cli.console.backend import Backend

    location = connection.location
    return Backend(
        connect=lambda: connection.chargehand,
        artifacts=location.artifacts,
        no_artifacts=f"Files cannot be shared with the workers of the server set by {location.configured_by}: "
        f"{NAME_SHARED_FILES}",
        encryption=encryption_of(os.environ),
        tenant=tenant,
        session_url=connection.session_url,
    )
