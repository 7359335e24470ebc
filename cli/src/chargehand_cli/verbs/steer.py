"""Steer a running session: `tell`, `interrupt`, `edit`, `plan`, `answer`, `raise`, `finish`, `cancel` and `calls`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from chargehand import AlreadyEnded
from chargehand_cli.connection import Connection
from chargehand_cli.rendering.escaping import one_safe_line
from chargehand_cli.run_options import BadRequest, build_plan_edit, build_raised_limits, read_json, read_plan
from chargehand_cli.terminal import put, put_json, say
from chargehand_cli.verb import AsJson, SessionId, verb

if TYPE_CHECKING:
    from chargehand import PendingCall, Question, Status

app = typer.Typer()

_DECIDED: Final = {"approve": "approved", "edit": "replaced and approved", "reject": "rejected"}
_DONE: Final = {"approve": "is made as shown", "edit": "is made with your arguments", "reject": "is not made"}


@verb(app)
async def tell(
    connection: Connection,
    session: SessionId,
    subtask: Annotated[str, typer.Argument(metavar="[SUBTASK]", help="Subtask id, or T2/T1 below a nested session.")],
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="What the agent reads at its next turn.", show_default=False)
    ] = None,
) -> None:
    """Message an agent, or all that run or start later."""
    from chargehand.messages import Messages

    message = Messages.tell.content(text=text or subtask, subtask=subtask if text else None)
    steered = await connection.open_to_steer(session)
    await steered.send(Messages.tell, message)
    readers = one_safe_line(message.subtask) if message.subtask else "every agent"
    say(f"Session {session}: {readers} reads your message at the next turn.")


@verb(app)
async def interrupt(
    connection: Connection,
    session: SessionId,
    subtask: Annotated[
        str | None, typer.Argument(metavar="[SUBTASK]", help="Subtask id, or T2/T1.", show_default="all that run")
    ] = None,
) -> None:
    """Stop running tool calls; agents continue with their next turn."""
    steered = await connection.open_to_steer(session)
    await steered.interrupt(subtask=subtask)
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
    """Edit subtasks that have not started. Options may be repeated; all edits apply, or none."""
    typed = {"add": add, "drop": drop, "reword": reword, "reroute": reroute, "after": after, "before": before}
    if file is None and not any(typed.values()):
        raise typer.BadParameter(f"Give at least one of {', '.join(f'--{name}' for name in typed)} and --file.")
    changes = build_plan_edit(_edits(typed), file)
    steered = await connection.open_to_steer(session)
    plan = await steered.edit_plan(edits=changes.edits)
    say(f"Session {session}: the plan is now {', '.join(one_safe_line(each.id) for each in plan.subtasks)}.")


@verb(app)
async def plan(
    connection: Connection,
    session: SessionId,
    *,
    approve: Annotated[bool, typer.Option("--approve", help="Approve the plan.")] = False,
    edit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Replace the plan with a JSON file in the format of --json.")
    ] = None,
    reject: Annotated[str | None, typer.Option(metavar="REASON", help="Reject the plan and end the session.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show a session's plan, or approve, replace or reject it."""
    from chargehand_cli.session_files import open_to_query

    decision = _decision(approve=approve, edit=edit, reject=reject)
    edited = read_plan(edit) if edit else None
    if decision:
        steered = await connection.open_to_steer(session)
        if edited:
            await steered.edit(edited)
        else:
            await (steered.approve() if reject is None else steered.reject(reject))
        say(f"Session {session}: the plan was {_DECIDED[decision]}.")
        return
    await open_to_query(connection, session)
    current_plan = await connection.session(session).plan()
    if current_plan is None:
        say(f"Session {session} has no plan yet.")
    elif as_json:
        put_json(current_plan.model_dump_json(indent=2))
    else:
        from chargehand_cli.rendering.progress import plan_lines

        put("\n".join(plan_lines(current_plan)))


@verb(app)
async def answer(
    connection: Connection,
    session: SessionId,
    text: Annotated[str | None, typer.Argument(metavar="TEXT", help="The answer.", show_default=False)] = None,
    *,
    subtask: Annotated[
        str | None, typer.Option(help="Subtask that asks.", show_default="the only one that asks")
    ] = None,
    decline: Annotated[bool, typer.Option("--decline", help="Decline to answer.")] = False,
) -> None:
    """Answer a question of a session that was started with --questions."""
    if decline == (text is not None):
        raise BadRequest("Give either TEXT or --decline.")
    steered = await connection.open_to_steer(session)
    question = _open_question(await steered.status(), subtask)
    await steered.answer(subtask=question.subtask, text=text, decision="decline" if decline else "answer")
    with_it = "without an" if decline else "with your"
    say(f"Session {session}: {one_safe_line(question.subtask)} continues {with_it} answer.")


@verb(app, "raise")
async def raise_limits(
    connection: Connection,
    session: SessionId,
    *,
    turns: Annotated[int | None, typer.Option(help="New total of model calls.")] = None,
    budget: Annotated[float | None, typer.Option(help="New total budget in US dollars.")] = None,
    deadline: Annotated[
        str | None, typer.Option(help="New total duration since the start: 90s, 10m, 2h or ISO 8601.")
    ] = None,
) -> None:
    """Raise a running session's limits; a paused session continues."""
    from chargehand.messages import Messages
    from chargehand_cli.rendering.text import dollars

    raised = build_raised_limits(turns, budget, deadline)
    steered = await connection.open_to_steer(session)
    now = await steered.send(Messages.raise_limits, raised)
    until = f", until {now.deadline_at.astimezone():%Y-%m-%d %H:%M:%S}" if now.deadline_at else ""
    say(f"New limits of session {session}: {now.max_turns} turns, {dollars(now.budget_usd)}{until}.")


@verb(app)
async def finish(connection: Connection, session: SessionId) -> None:
    """Stop a session's work and have it write its report from the results so far."""
    steered = await connection.open_to_steer(session)
    await steered.finish_now()
    say(f"Session {session} is writing its report from the results so far: `chargehand result {session}`")


@verb(app)
async def cancel(connection: Connection, session: SessionId) -> None:
    """Stop a session without a report."""
    from chargehand_cli.live_session import ends_soon

    try:
        steered = await connection.open_to_steer(session)
        await steered.cancel()
        has_ended = await ends_soon(steered)
    except AlreadyEnded:
        has_ended = True
    if has_ended:
        connection.farewell = ""
    say(f"Session {session} {'has ended' if has_ended else 'is stopping'}.")


@verb(app)
async def calls(
    connection: Connection,
    session: SessionId,
    call: Annotated[
        str | None, typer.Argument(metavar="[CALL]", help="Id of the call.", show_default="the only one that waits")
    ] = None,
    *,
    approve: Annotated[bool, typer.Option("--approve", help="Approve the call as shown.")] = False,
    edit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Approve the call with the arguments of a JSON file.")
    ] = None,
    reject: Annotated[
        str | None, typer.Option(metavar="REASON", help="Reject the call; the agent is told why.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the tool calls of a session that wait for approval, or approve, edit or reject one."""
    from chargehand_cli.session_files import open_to_query

    decision = _decision(approve=approve, edit=edit, reject=reject)
    await (open_to_query(connection, session) if decision is None else connection.open_to_steer(session))
    steered = connection.session(session)
    status = await steered.status()
    if decision is None:
        _show_calls(status, call, as_json=as_json)
        return
    chosen = _chosen_call(status, call)
    if reject is not None:
        await steered.reject_call(chosen, reject)
    else:
        await steered.approve_call(chosen, read_json(str(edit)) if edit else None)
    say(f"Session {session}: call {chosen.id} of {one_safe_line(chosen.tool)} {_DONE[decision]}.")


def _edits(typed: Mapping[str, list[str] | None]) -> list[dict[str, Any]]:
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


def _decision(*, approve: bool, edit: Path | None, reject: str | None) -> str | None:
    typed = {"approve": approve, "edit": edit is not None, "reject": reject is not None}
    if sum(typed.values()) > 1:
        raise typer.BadParameter("--approve, --edit and --reject are mutually exclusive.")
    return next((name for name, is_typed in typed.items() if is_typed), None)


def _open_question(status: "Status", subtask: str | None) -> "Question":
    matching = [question for question in status.questions if subtask in (None, question.subtask)]
    if len(matching) == 1:
        return matching[0]
    if not status.questions:
        raise BadRequest(f"Session {status.session} has no open question; its state is {status.standing.words}.")
    known = "; ".join(f"{one_safe_line(each.subtask)}: {one_safe_line(each.text)}" for each in status.questions)
    problem = "Several questions are open" if subtask is None else f"Subtask {one_safe_line(subtask)} asks no question"
    raise BadRequest(f"{problem}. Choose one with --subtask: {known}")


def _show_calls(status: "Status", call: str | None, *, as_json: bool) -> None:
    from chargehand_cli.rendering.progress import argument_lines

    shown = status.calls if call is None else (_chosen_call(status, call),)
    if as_json:
        put_json(json.dumps([each.model_dump(mode="json") for each in shown], indent=2))
    elif not shown:
        say(f"No call of session {status.session} waits for approval; its state is {status.standing.words}.")
    for each in () if as_json else shown:
        put(f"{each.id} {one_safe_line(each.tool)}, by {one_safe_line(each.agent)} for {one_safe_line(each.subtask)}")
        for line in argument_lines(each):
            put(f"    {line}")
        if each.is_doubtful:
            put("    made before, and possibly applied; --approve makes it again")
        if each.why:
            put(f"    not made without you: {one_safe_line(each.why)}")
        put(f"    denied at {each.open_until.astimezone():%Y-%m-%d %H:%M:%S} without a decision\n")


def _chosen_call(status: "Status", call: str | None) -> "PendingCall":
    from chargehand.contracts.problems import join_problems

    matching = [each for each in status.calls if call in (None, each.id)]
    if len(matching) == 1:
        return matching[0]
    if not status.calls:
        raise BadRequest(
            f"No call of session {status.session} waits for approval; its state is {status.standing.words}."
        )
    known = join_problems(f"{each.id}: {each.tool} of {each.subtask}" for each in status.calls)
    problem = "Several calls wait" if call is None else f"Call {one_safe_line(call)} does not wait"
    raise BadRequest(f"{problem}. Choose one by its id: {known}")
