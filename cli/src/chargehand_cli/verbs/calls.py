"""Decide about tool calls that wait for a person: `calls`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from chargehand_cli.connection import Connection
from chargehand_cli.rendering.escaping import one_safe_line
from chargehand_cli.request import BadRequest, read_json
from chargehand_cli.terminal import put, put_json, say
from chargehand_cli.verb import AsJson, SessionId, verb

if TYPE_CHECKING:
    from chargehand import PendingCall, Status

app = typer.Typer()

_DONE: Final = {"approve": "is made as shown", "edit": "is made with your arguments", "reject": "is not made"}


@verb(app)
async def calls(
    connection: Connection,
    session: SessionId,
    call: Annotated[
        str | None, typer.Argument(metavar="[CALL]", help="Id of the call.", show_default="the only one that waits")
    ] = None,
    *,
    approve: Annotated[bool, typer.Option("--approve", help="Let the call be made as it is shown.")] = False,
    edit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Have it made with the arguments of a JSON file instead.")
    ] = None,
    reject: Annotated[
        str | None, typer.Option(metavar="REASON", help="Have it not made; the agent is told why.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the tool calls of a session that wait for approval, or approve, edit or reject one."""
    from chargehand_cli.resumed_sessions import open_to_steer
    from chargehand_cli.session_status import open_to_query

    if sum((approve, edit is not None, reject is not None)) > 1:
        raise typer.BadParameter("--approve, --edit and --reject are mutually exclusive.")
    decision = "approve" if approve else "edit" if edit else None if reject is None else "reject"
    await (open_to_query if decision is None else open_to_steer)(connection, session)
    status = await connection.session(session).status()
    if decision is None:
        _show(status, call, as_json=as_json)
        return
    chosen = _chosen(status, call)
    if reject is not None:
        await connection.session(session).reject_call(chosen, reject)
    else:
        await connection.session(session).approve_call(chosen, read_json(str(edit)) if edit else None)
    say(f"Session {session}: call {chosen.id} of {one_safe_line(chosen.tool)} {_DONE[decision]}.")


def _show(status: "Status", call: str | None, *, as_json: bool) -> None:
    shown = status.calls if call is None else (_chosen(status, call),)
    if as_json:
        put_json(json.dumps([each.model_dump(mode="json") for each in shown], indent=2))
    elif not shown:
        say(f"No call of session {status.session} waits for approval; its state is {status.state}.")
    for each in () if as_json else shown:
        put(f"{each.id} {one_safe_line(each.tool)}, by {one_safe_line(each.agent)} for {one_safe_line(each.subtask)}")
        for name, value in each.arguments.items():
            put(f"    {one_safe_line(name)}: {one_safe_line(json.dumps(value, ensure_ascii=False), 2_000)}")
        if each.is_doubtful:
            put("    made before, and possibly applied; --approve makes it again")
        put(f"    denied at {each.open_until.astimezone():%Y-%m-%d %H:%M:%S} without a decision\n")


def _chosen(status: "Status", call: str | None) -> "PendingCall":
    """Find the call to decide about."""
    from chargehand.converter import join_problems

    matching = [each for each in status.calls if call in (None, each.id)]
    if len(matching) == 1:
        return matching[0]
    if not status.calls:
        raise BadRequest(f"No call of session {status.session} waits for approval; its state is {status.state}.")
    known = join_problems(f"{each.id}: {each.tool} of {each.subtask}" for each in status.calls)
    problem = "Several calls wait" if call is None else f"Call {one_safe_line(call)} does not wait"
    raise BadRequest(f"{problem}. Choose one by its id: {known}")
