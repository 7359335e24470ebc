"""Commands for whoever runs Chargehand for others."""

from pathlib import Path
from typing import Annotated

import typer

from chargehand_cli import payload_commands as protecting
from chargehand_cli import replay as replaying
from chargehand_cli.command import connected, end_with
from chargehand_cli.connection import decide
from chargehand_cli.doctor import examine
from chargehand_cli.findings import Findings
from chargehand_cli.interrupts import run_interruptible
from chargehand_cli.options import AsJson, Here, Where, WhereFilesAre, spread
from chargehand_cli.run_commands import stay_up

app = typer.Typer()


@app.command()
@spread
def replay(
    sessions: Annotated[list[str] | None, typer.Argument(metavar="SESSION", help="Ids of sessions.")] = None,
    *,
    last: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="How many, the newest first.", show_default="20")
    ] = None,
    running: Annotated[
        bool, typer.Option("--running", help="Only sessions that run now; all, without --last.")
    ] = False,
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Histories from --save or from Temporal's tools instead.")
    ] = None,
    save: Annotated[Path | None, typer.Option(metavar="FILE", help="Keep the histories, to replay them later.")] = None,
    as_json: AsJson = False,
    where: Where,
) -> None:
    """Replay sessions on the workflows installed here: would they go on after an upgrade? 1 if one would not."""
    named = bool(sessions)
    if sum((named, last is not None or running, file is not None)) > 1 or (file and save):
        raise typer.BadParameter("Name sessions, or choose by --last and --running, or name a --file; --save fetches.")
    if file:
        end_with(run_interruptible(replaying.replay_file(decide(where), file.absolute(), as_json=as_json)))
        return
    chosen = replaying.Chosen(sessions or (), last, running, save, as_json)
    connected(where, lambda connection: replaying.replay_sessions(connection, chosen))


@app.command()
@spread
def doctor(where: WhereFilesAre) -> None:
    """Look at everything a session needs, and say what is wrong."""
    connected(where, lambda connection: examine(connection, Findings()))


@app.command()
@spread
def up(here: Here) -> None:
    """Run the embedded server and a worker until Ctrl-C."""
    connected(here, stay_up)


@app.command()
def codec_server(
    *,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to listen on; 0 takes any.")] = 8081,
    host: Annotated[str, typer.Option(help="Address to listen on; other than loopback needs TLS.")] = "127.0.0.1",
    namespace: Annotated[
        list[str] | None, typer.Option(help="Namespace to serve; may be repeated.", show_default="TEMPORAL_NAMESPACE")
    ] = None,
    ui_origin: Annotated[
        list[str] | None, typer.Option(help="Address of a Web UI that may ask; may be repeated.")
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Certificate chain for TLS, PEM.", exists=True)
    ] = None,
    private_key: Annotated[Path | None, typer.Option(metavar="FILE", help="Its private key, PEM.", exists=True)] = None,
) -> None:
    """Show encrypted and stored payloads to Temporal's Web UI and command line, for those who know the token.

    The token is CHARGEHAND_CODEC_TOKEN, or made up and shown at the start.
    """
    wishes = protecting.CodecServerWishes(host, port, namespace or (), ui_origin or (), certificate, private_key)
    run_interruptible(protecting.serve_codec(wishes))


@app.command()
@spread
def clean(
    *,
    older_than: Annotated[str, typer.Option(help="Age of what is deleted: 12h, 30d or 4w.")] = "30d",
    delete: Annotated[bool, typer.Option("--delete", help="Delete; without it, only say what would be.")] = False,
    where: Where,
) -> None:
    """Delete stored payloads that no session on the server needs any more."""
    age = protecting.age(older_than)
    connected(where, lambda connection: protecting.clean(connection, age, delete=delete))
