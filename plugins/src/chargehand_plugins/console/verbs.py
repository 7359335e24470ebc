"""The verb `console`, and the console served by `up` with the embedded server."""

import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from chargehand.payloads.settings import encryption_of
from chargehand_cli.connection import Connection
from chargehand_cli.location import NAME_SHARED_FILES
from chargehand_cli.terminal import say
from chargehand_cli.verb import FILES, verb
from chargehand_plugins.tokens import token_from

if TYPE_CHECKING:
    from chargehand_plugins.console.backend import Backend
    from chargehand_plugins.console.server import RunningConsole
    from chargehand_plugins.console.settings import ConsoleSettings

app = typer.Typer()

_TOKEN: Final = "CHARGEHAND_CONSOLE_TOKEN"  # noqa: S105  # the name of a setting
_PORT: Final = "CHARGEHAND_CONSOLE_PORT"
_DECISION_KEY: Final = "CHARGEHAND_DECISION_KEY"


@verb(app, location=FILES)
async def console(
    connection: Connection,
    *,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65_535, help=f"Port; 0 picks a free one ({_PORT}).", show_default="8234 if it is free"),
    ] = None,
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
    from chargehand.contracts.base import contract
    from chargehand_plugins.console.server import serving
    from chargehand_plugins.console.settings import ConsoleSettings

    if tenant is not None:
        contract(SessionRequest, goal="checks the name", tenant=tenant)
    settings = ConsoleSettings(
        token_from(_TOKEN),
        decision_key=os.environ.get(_DECISION_KEY, ""),
        host=host,
        port=_port() if port is None else port,
        certificate=str(certificate) if certificate else None,
        private_key=str(private_key) if private_key else None,
        public_url=public_url,
        requests_per_minute=rate,
    )
    await connection.open()
    async with serving(_backend(connection, tenant), settings) as running:
        say(connection.describe())
        for line in _announcement(running, settings):
            say(line)
        await connection.keep_running()


@asynccontextmanager
async def beside_up(connection: Connection) -> AsyncGenerator[Sequence[str]]:
    """Serve the embedded server's console while the context is entered; return the lines announcing it."""
    from chargehand_plugins.console.server import serving
    from chargehand_plugins.console.settings import ConsoleSettings

    settings = ConsoleSettings(token_from(_TOKEN), decision_key=os.environ.get(_DECISION_KEY, ""), port=_port())
    async with serving(_backend(connection), settings) as running:
        yield _announcement(running, settings)


def check_settings() -> None:
    token_from(_TOKEN)
    _port()


def _port() -> int | None:
    """Read the port from the environment. Raises `UnusableConsole` if it is not a port."""
    from chargehand_plugins.console.settings import UnusableConsole

    text = os.environ.get(_PORT)
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= 65_535):
        raise UnusableConsole(f"{_PORT} must be a port from 0 to 65535; 0 picks a free one.")
    return int(text)


def _announcement(console: "RunningConsole", settings: "ConsoleSettings") -> list[str]:
    token = f"${_TOKEN}" if os.environ.get(_TOKEN) else settings.token
    return [
        f"Console: {console.sign_in_link()} (signs one browser in, within an hour)",
        f"HTTP API: {console.url}/api/v1 with the token {token}",
    ]


def _backend(connection: Connection, tenant: str | None = None) -> "Backend":
    from chargehand.plugins import installed
    from chargehand_plugins.console.backend import Backend, crew_choices

    own = os.environ.get("CHARGEHAND_CREWS")
    location = connection.location
    return Backend(
        connect=lambda: connection.chargehand,
        artifacts=location.artifacts,
        no_artifacts=f"Files cannot be shared with the workers of the server set by {location.configured_by}: "
        f"{NAME_SHARED_FILES}",
        encryption=encryption_of(os.environ),
        crews=crew_choices([*installed().crews, *([Path(own)] if own else [])]),
        tenant=tenant,
        session_url=connection.session_url,
    )
