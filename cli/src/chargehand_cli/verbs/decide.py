"""Commands by which a person decides about a session that runs."""

from pathlib import Path
from typing import Annotated

import typer

from chargehand_cli import session_commands as looking
from chargehand_cli.command import connected
from chargehand_cli.options import AsJson, SessionId, Where, spread
from chargehand_cli.request_options import Typed

app = typer.Typer()


@app.command()
@spread
def cancel(session: SessionId, where: Where) -> None:
    """Ask a session to stop without a report."""
    connected(where, lambda connection: looking.cancel(connection, session))


@app.command()
@spread
def finish(session: SessionId, where: Where) -> None:
    """Have a session stop what runs and write its report from what is there."""
    connected(where, lambda connection: looking.finish(connection, session))


@app.command("raise")
@spread
def raise_(
    session: SessionId,
    *,
    turns: Annotated[int | None, typer.Option(help="Model calls in all, those made included.")] = None,
    budget: Annotated[float | None, typer.Option(help="US dollars in all, those spent included.")] = None,
    deadline: Annotated[
        str | None, typer.Option(help="Time from the session's start: 90s, 10m, 2h or ISO 8601.")
    ] = None,
    where: Where,
) -> None:
    """Raise the limits of a session that runs; one that waits for them goes on."""
    if turns is None and budget is None and deadline is None:
        raise typer.BadParameter("Say what to raise, and how far: --turns, --budget or --deadline.")
    typed = Typed(turns=turns, budget=budget, deadline=deadline)
    connected(where, lambda connection: looking.raise_limits(connection, session, typed))


@app.command()
@spread
def answer(
    session: SessionId,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The answer, as you would tell a colleague.")],
    *,
    subtask: Annotated[
        str | None, typer.Option(help="Subtask whose question is answered.", show_default="the one that asks")
    ] = None,
    where: Where,
) -> None:
    """Answer the question of a session that was started with --questions."""
    connected(where, lambda connection: looking.answer(connection, session, text, subtask))


@app.command()
@spread
def plan(
    session: SessionId,
    *,
    approve: Annotated[bool, typer.Option("--approve", help="Carry the plan out.")] = False,
    edit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Carry out this plan instead: JSON as --json shows it.")
    ] = None,
    reject: Annotated[str | None, typer.Option(metavar="REASON", help="End the session.")] = None,
    as_json: AsJson = False,
    where: Where,
) -> None:
    """Show a session's plan, or decide about one that waits for approval."""
    if sum((approve, edit is not None, reject is not None)) > 1:
        raise typer.BadParameter("--approve, --edit and --reject exclude each other.")
    decision = looking.Decision(approve=approve, edit=edit, reject=reject)
    connected(where, lambda connection: looking.plan(connection, session, decision, as_json=as_json))
