"""Commands that begin a session or follow one to its report."""

from pathlib import Path

import typer

from chargehand_cli import run_commands as running
from chargehand_cli import session_commands as looking
from chargehand_cli.command import connected
from chargehand_cli.embedded import Departure
from chargehand_cli.options import AsJson, Quiet, SessionId, Where, WhereFilesAre, spread
from chargehand_cli.request_options import Typed
from chargehand_cli.terminal import say

app = typer.Typer()


@app.command()
@spread
def run(typed: Typed, *, as_json: AsJson = False, quiet: Quiet = False, where: WhereFilesAre) -> None:
    """Carry out a request, show how it goes, and put the report out."""
    paths = _checked(typed)
    output = running.Output(as_json, quiet)
    connected(where, lambda connection: running.run(connection, typed, running.upload(connection, paths), output))


@app.command()
@spread
def start(typed: Typed, where: WhereFilesAre) -> None:
    """Start a session, put out its id, and leave it to the worker."""
    paths = _checked(typed)
    departure = connected(where, lambda connection: running.start(connection, typed, running.upload(connection, paths)))
    if departure is not Departure.OTHERS_STAY:
        say("The embedded server has ended with this command. The session goes on whenever there is one again:")
        say("  chargehand up    or    chargehand watch SESSION")


@app.command()
@spread
def status(session: SessionId, *, as_json: AsJson = False, where: Where) -> None:
    """Say where a session stands: its plan with states, turns and dollars."""
    connected(where, lambda connection: looking.status(connection, session, as_json=as_json))


@app.command()
@spread
def watch(session: SessionId, *, as_json: AsJson = False, quiet: Quiet = False, where: Where) -> None:
    """Show a session until it ends, and put its report out. Ctrl-C leaves the session alone."""
    connected(where, lambda connection: running.watch(connection, session, running.Output(as_json, quiet)))


@app.command()
@spread
def result(session: SessionId, *, as_json: AsJson = False, where: Where) -> None:
    """Wait for a session's report and put it out."""
    connected(where, lambda connection: looking.result(connection, session, running.Output(as_json)))


def _checked(typed: Typed) -> tuple[Path, ...]:
    """Refuse what can be seen to be wrong before anything is started."""
    if (typed.goal is None) == (typed.input is None):
        raise typer.BadParameter("Say what you want to know: either GOAL, or --input FILE with a request as JSON.")
    paths = tuple(typed.docs or ())
    running.require_documents(paths)
    return paths
