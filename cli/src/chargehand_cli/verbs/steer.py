"""Steer what runs: `tell`, `interrupt` and `edit`."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from chargehand_cli.connection import Connection
from chargehand_cli.rendering.escaping import one_safe_line
from chargehand_cli.run_options import build_plan_edit
from chargehand_cli.terminal import say
from chargehand_cli.verb import SessionId, verb

app = typer.Typer()


@verb(app)
async def tell(
    connection: Connection,
    session: SessionId,
    subtask: Annotated[str, typer.Argument(metavar="[SUBTASK]", help="Its id, or T2/T1 below a nested session.")],
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="What the agent reads at its next turn.", show_default=False)
    ] = None,
) -> None:
    """Write to an agent, or to all that run or begin later."""
    from chargehand.messages import Messages

    message = Messages.tell.content(text=text or subtask, subtask=subtask if text else None)
    await connection.open_to_steer(session)
    await connection.session(session).send(Messages.tell, message)
    readers = one_safe_line(message.subtask) if message.subtask else "every agent"
    say(f"Session {session}: {readers} reads your message at the next turn.")


@verb(app)
async def interrupt(
    connection: Connection,
    session: SessionId,
    subtask: Annotated[
        str | None, typer.Argument(metavar="[SUBTASK]", help="Its id, or T2/T1.", show_default="all that run")
    ] = None,
) -> None:
    """End the tools that agents are using; they go on with their next turn."""
    await connection.open_to_steer(session)
    await connection.session(session).interrupt(subtask=subtask)
    say(f"Session {session}: the tools are ending, and the agents go on.")


@verb(app)
async def edit(
    connection: Connection,
    session: SessionId,
    *,
    add: Annotated[
        list[str] | None, typer.Option(metavar="ID:AGENT=TEXT", help="Add a subtask; its inputs by --after.")
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(metavar="ID", help="Leave a subtask out.")] = None,
    reword: Annotated[
        list[str] | None, typer.Option(metavar="ID=TEXT", help="Give a subtask another instruction.")
    ] = None,
    reroute: Annotated[
        list[str] | None, typer.Option(metavar="ID=AGENT", help="Give a subtask to another agent.")
    ] = None,
    after: Annotated[
        list[str] | None,
        typer.Option(metavar="ID=IDS", help="Make other subtasks its inputs: T4=T1,T2, or T4= for none."),
    ] = None,
    before: Annotated[
        list[str] | None, typer.Option(metavar="ID=ID", help="Start a subtask before another if both are ready.")
    ] = None,
    file: Annotated[
        str | None, typer.Option(metavar="FILE", help='Read {"edits": […]} from a JSON file, or - for standard input.')
    ] = None,
) -> None:
    """Change what has not begun of a plan: repeat options as you need; all changes are made, or none."""
    typed = {"add": add, "drop": drop, "reword": reword, "reroute": reroute, "after": after, "before": before}
    if file is None and not any(typed.values()):
        raise typer.BadParameter(f"Give at least one of {', '.join(f'--{name}' for name in typed)} and --file.")
    changes = build_plan_edit(_edits(typed), file)
    await connection.open_to_steer(session)
    plan = await connection.session(session).edit_plan(edits=changes.edits)
    say(f"Session {session}: the plan is now {', '.join(one_safe_line(each.id) for each in plan.subtasks)}.")


def _edits(typed: Mapping[str, list[str] | None]) -> list[dict[str, Any]]:
    """Read the changes as typed."""
    pairs = {name: [_pair(name, each) for each in typed[name] or ()] for name in typed if name != "drop"}
    inputs = {id_: [each.strip() for each in needed.split(",") if each.strip()] for id_, needed in pairs["after"]}
    places = dict(pairs["before"])
    edits: list[dict[str, Any]] = [{"edit": "drop", "subtask": id_} for id_ in typed["drop"] or ()]
    for name, text in pairs["add"]:
        id_, _, agent = name.partition(":")
        new = {"id": id_, "agent": agent, "instruction": text, "depends_on": inputs.pop(id_, [])}
        edits.append({"edit": "add", "subtask": new, "before": places.pop(id_, None)})
    edits.extend({"edit": "reword", "subtask": id_, "instruction": text} for id_, text in pairs["reword"])
    edits.extend({"edit": "reroute", "subtask": id_, "agent": agent} for id_, agent in pairs["reroute"])
    edits.extend(
        {"edit": "reorder", "subtask": id_, "depends_on": inputs.get(id_), "before": places.get(id_)}
        for id_ in dict.fromkeys((*inputs, *places))
    )
    return edits


def _pair(option: str, typed: str) -> tuple[str, str]:
    name, equals, value = typed.partition("=")
    if not equals or (option == "add" and ":" not in name):
        shape = "T6:reader=Find out …" if option == "add" else f"T2={'…' if option == 'reword' else 'T1'}"
        raise typer.BadParameter(f"--{option} takes {shape}, not '{one_safe_line(typed)}'.")
    return name.strip(), value
