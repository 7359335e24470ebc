"""The verb `codec-server`."""

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlsplit

import typer

from chargehand.payloads.errors import ProtectionSettingsError
from chargehand.payloads.settings import protection_from
from chargehand_cli.connection import Connection
from chargehand_cli.embedded.server import WEB_UI_PORT
from chargehand_cli.embedded.state import StateDirectory
from chargehand_cli.location import NoWorkerProgram
from chargehand_cli.terminal import say
from chargehand_cli.verb import verb
from chargehand_plugins.tokens import token_from

if TYPE_CHECKING:
    from temporalio.converter import DataConverter

app = typer.Typer()

_TOKEN: Final = "CHARGEHAND_CODEC_TOKEN"  # noqa: S105  # the name of a setting
_UI_ORIGINS: Final = tuple(f"http://{host}:{WEB_UI_PORT}" for host in ("localhost", "127.0.0.1"))


@verb(app, "codec-server", location=())
async def codec_server(
    connection: Connection,
    *,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to listen on; 0 picks a free one.")] = 8081,
    host: Annotated[str, typer.Option(help="Address to listen on; anything but loopback needs TLS.")] = "127.0.0.1",
    namespace: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Namespace to serve; may be repeated.", show_default="TEMPORAL_NAMESPACE"),
    ] = None,
    ui_origin: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="Address of a Web UI that may use the server; may be repeated."),
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="TLS certificate chain, PEM.", exists=True)
    ] = None,
    private_key: Annotated[Path | None, typer.Option(metavar="FILE", help="TLS private key, PEM.", exists=True)] = None,
) -> None:
    """Decode encrypted and externally stored payloads for Temporal's Web UI and command line.

    Clients need a token: CHARGEHAND_CODEC_TOKEN, or a random one that is printed at the start.
    """
    from chargehand_plugins.codec_server.server import CodecServerSettings, serving

    storage, usual_origins = _local_codec_defaults(connection)
    namespaces = namespace or [os.environ.get("TEMPORAL_NAMESPACE") or "default"]
    token = token_from(_TOKEN)
    settings = CodecServerSettings(
        token=token,
        converters=_converters(namespaces, storage),
        origins=frozenset(_origin(each) for each in ui_origin or usual_origins),
        host=host,
        port=port,
        certificate=str(certificate) if certificate else None,
        private_key=str(private_key) if private_key else None,
    )
    async with serving(settings) as url:
        shown = f"${_TOKEN}" if os.environ.get(_TOKEN) else token
        say(f"Codec server at {url} for {', '.join(namespaces)}. Press Ctrl-C to stop.")
        say(f"  Command line: temporal … --codec-endpoint {url} --codec-auth 'Bearer {shown}'")
        say(f"  Web UI: click the glasses at the top, choose the browser's setting, and enter {url}/{shown}")
        say("Anyone who knows the token can read every session of these namespaces.")
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()


def check_settings() -> None:
    token_from(_TOKEN)


def _converters(namespaces: Sequence[str], usual_storage: str | None) -> "dict[str, DataConverter]":
    """Build the converter of each namespace.

    Raises:
        ProtectionSettingsError: none of them uses encryption or storage.
    """
    from chargehand import data_converter

    protections = {each: protection_from(os.environ, each, usual_storage=usual_storage) for each in namespaces}
    if not any(each.encryption or each.storage for each in protections.values()):
        raise ProtectionSettingsError(
            "There is nothing to decode: set CHARGEHAND_ENCRYPTION_KEYS and CHARGEHAND_ENCRYPTION_KEY_ID, or "
            "CHARGEHAND_STORAGE."
        )
    return {name: data_converter(each.encryption, each.storage) for name, each in protections.items()}


def _local_codec_defaults(connection: Connection) -> tuple[str | None, tuple[str, ...]]:
    """Find the embedded server's payload storage and Web UI, if this machine has one."""
    try:
        location = connection.location
    except NoWorkerProgram:
        return None, _UI_ORIGINS
    note = StateDirectory(location.state).read_note() if location.is_embedded else None
    named = [note.ui_url] if note else [location.ui_url] if location.ui_url else []
    origins = {_origin(each) for each in named}
    on_localhost = {each.replace("//127.0.0.1", "//localhost") for each in origins}
    return location.storage, tuple({*_UI_ORIGINS, *origins, *on_localhost})


def _origin(address: str) -> str:
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ProtectionSettingsError(f"{address} is not the address of a Web UI, such as {_UI_ORIGINS[0]}.")
    return f"{parts.scheme}://{parts.netloc}".lower()
