"""Steer a running session: `plan`, `answer`, `raise`, `finish` and `cancel`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chargehand import AlreadyEnded
from chargehand_cli.connection import Connection
from chargehand_cli.rendering.escaping import one_safe_line
from chargehand_cli.request import BadRequest, build_raised_limits, read_model
from chargehand_cli.resumed_sessions import open_to_steer
from chargehand_cli.terminal import put, put_json, say
from chargehand_cli.verb import AsJson, SessionId, verb

if TYPE_CHECKING:
    from chargehand import Question, Status

app = typer.Typer()


@verb(app)
async def plan(
    connection: Connection,
    session: SessionId,
    *,
    approve: Annotated[bool, typer.Option("--approve", help="Approve the plan.")] = False,
    edit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Replace the plan by a JSON file in the format of --json.")
    ] = None,
    reject: Annotated[str | None, typer.Option(metavar="REASON", help="Reject the plan and end the session.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show a session's plan, or approve, replace or reject it."""
    from chargehand import Plan
    from chargehand_cli.session_status import open_to_query

    if sum((approve, edit is not None, reject is not None)) > 1:
        raise typer.BadParameter("--approve, --edit and --reject are mutually exclusive.")
    edited = read_model(Plan, edit, "plan") if edit else None
    if approve or edited or reject is not None:
        await open_to_steer(connection, session)
    if approve:
        await connection.session(session).approve()
        say(f"Session {session}: the plan was approved.")
        return
    if edited:
        await connection.session(session).edit(edited)
        say(f"Session {session}: the plan was replaced and approved.")
        return
    if reject is not None:
        await connection.session(session).reject(reject)
        say(f"Session {session}: the plan was rejected.")
        return
    await open_to_query(connection, session)
    found = await connection.session(session).plan()
    if found is None:
        say(f"Session {session} has no plan yet.")
    elif as_json:
        put_json(found.model_dump_json(indent=2))
    else:
        from chargehand_cli.rendering.progress import plan_lines

        put("\n".join(plan_lines(found)))


@verb(app)
async def answer(
    connection: Connection,
    session: SessionId,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The answer.")],
    *,
    subtask: Annotated[
        str | None, typer.Option(help="Subtask that asks.", show_default="the only one that asks")
    ] = None,
) -> None:
    """Answer a question of a session that was started with --questions."""
    await open_to_steer(connection, session)
    question = _open_question(await connection.session(session).status(), subtask)
    await connection.session(session).answer(subtask=question.subtask, text=text)
    say(f"Session {session}: {one_safe_line(question.subtask)} continues with your answer.")


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
    await open_to_steer(connection, session)
    now = await connection.session(session).send(Messages.raise_limits, raised)
    until = f", until {now.deadline_at.astimezone():%Y-%m-%d %H:%M:%S}" if now.deadline_at else ""
    say(f"New limits of session {session}: {now.max_turns} turns, {dollars(float(now.budget_usd))}{until}.")


@verb(app)
async def finish(connection: Connection, session: SessionId) -> None:
    """Stop a session's work and have it write its report from the results so far."""
    await open_to_steer(connection, session)
    await connection.session(session).finish_now()
    say(f"Session {session} is writing its report from the results so far: `chargehand result {session}`")


@verb(app)
async def cancel(connection: Connection, session: SessionId) -> None:
    """Stop a session without a report."""
    from chargehand_cli.live_session import ends_soon

    has_ended = False
    try:
        await open_to_steer(connection, session)
        await connection.session(session).cancel()
        has_ended = await ends_soon(connection, session)
    except AlreadyEnded:
        has_ended = True
    if has_ended:
        connection.farewell = ""
    say(f"Session {session} {'has ended' if has_ended else 'is stopping'}.")


def _open_question(status: "Status", subtask: str | None) -> "Question":
    """Find the question to answer."""
    matching = [question for question in status.questions if subtask in (None, question.subtask)]
    if len(matching) == 1:
        return matching[0]
    if not status.questions:
        raise BadRequest(f"Session {status.session} has no open question; its state is {status.state}.")
    known = "; ".join(f"{one_safe_line(each.subtask)}: {one_safe_line(each.text)}" for each in status.questions)
    problem = "Several questions are open" if subtask is None else f"Subtask {one_safe_line(subtask)} asks no question"
    raise BadRequest(f"{problem}. Choose one with --subtask: {known}")
