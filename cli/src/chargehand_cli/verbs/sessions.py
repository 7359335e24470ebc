"""Find sessions: `list` and `thread`."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Final

import typer

from chargehand.state_words import STOP_REMEDIES
from chargehand_cli.connection import Connection
from chargehand_cli.rendering.escaping import one_safe_line
from chargehand_cli.run_options import BadRequest
from chargehand_cli.terminal import put_json, put_row, say
from chargehand_cli.verb import AsJson, SessionId, verb

if TYPE_CHECKING:
    from chargehand import SessionSummary

app = typer.Typer()

_AGE: Final = re.compile(r"(\d{1,6})(s|m|h|d|w)")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_MOST_DEPTH: Final = 8
"""Maximum levels of indentation."""


@verb(app, "list")
async def list_sessions(
    connection: Connection,
    *,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1_000, help="Maximum number of sessions.")] = 20,
    in_state: Annotated[
        str | None,
        typer.Option(
            "--state",
            metavar="STATE",
            help="Only sessions in this state: running, executing, finished, failed, …",
            show_default="any",
        ),
    ] = None,
    waiting: Annotated[bool, typer.Option("--waiting", help="Only sessions waiting for a person.")] = False,
    crew: Annotated[str | None, typer.Option(help="Only sessions of this crew.", show_default="any")] = None,
    tenant: Annotated[str | None, typer.Option(help="Only sessions of this tenant.", show_default="any")] = None,
    since: Annotated[
        str | None, typer.Option(help="Started since: 2h, 3d, 1w, or a date such as 2026-11-22.", show_default="ever")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the newest sessions, each with its follow-ups below it."""
    started = None if since is None else read_moment(since)
    await connection.open(worker=False)
    listing = connection.chargehand.list(
        limit, state=in_state, crew=crew, tenant=tenant, waiting=waiting, since=started
    )
    summaries = [each async for each in listing]
    if as_json:
        put_json("[" + ",\n ".join(each.model_dump_json() for each in summaries) + "]")
        return
    if not summaries:
        is_filtered = waiting or any((in_state, crew, tenant, since))
        say("No session matches." if is_filtered else "There are no sessions.")
    for line in session_lines(summaries, has_worker=connection.has_worker):
        put_row(line)
    if await connection.chargehand.missing_search_attributes():
        say(
            "Crew, cost and state of running sessions are not known: the namespace lacks search attributes. "
            "Register them with `chargehand setup`."
        )


@verb(app)
async def thread(connection: Connection, session: SessionId, *, as_json: AsJson = False) -> None:
    """List a session with those that it follows and those that follow it."""
    await connection.open(worker=False)
    summaries = await connection.session(session).thread()
    if as_json:
        put_json("[" + ",\n ".join(each.model_dump_json() for each in summaries) + "]")
        return
    for line in session_lines(summaries):
        put_row(line)


def session_lines(found: "Sequence[SessionSummary]", *, has_worker: bool = True) -> Iterator[str]:
    """Write a line per session, and one for what it waits for; follow-ups are below the session they follow."""
    from chargehand_cli.rendering.text import dollars

    words = {each.id: each.standing.words if has_worker or each.ended_at else "no worker" for each in found}
    state_width = max(map(len, words.values()), default=0)
    crew_width = max((len(each.crew) for each in found), default=0)
    for each, depth in _threads(found):
        indent = "  " * (depth - 1) + "↳ " if depth else ""
        cost = "" if each.cost_usd is None else f"{'' if each.is_cost_final else '≥ '}{dollars(each.cost_usd)}"
        columns = [
            f"{each.started_at.astimezone():%Y-%m-%d %H:%M}",
            f"{words[each.id]:<{state_width}}",
            f"{cost:>9}",
            *([f"{each.crew:<{crew_width}}"] if crew_width else []),
            f"{indent}{one_safe_line(each.id)}",
            one_safe_line(each.goal),
        ]
        yield "  ".join(columns).rstrip()
        if each.failure:
            yield f"    {one_safe_line(each.failure.cause)} {one_safe_line(each.failure.remedy)}"
        elif remedy := STOP_REMEDIES.get(each.stop_reason):
            yield f"    {remedy}"
        if each.waiting_for:
            yield f"    waits for {one_safe_line(each.waiting_for)}: `chargehand status {one_safe_line(each.id)}`"


def _threads(found: "Sequence[SessionSummary]") -> "Iterator[tuple[SessionSummary, int]]":
    """Order sessions by thread, the thread of the newest one first, each with its depth in the thread."""
    by_id = {each.id: each for each in found}

    def path(summary: "SessionSummary") -> "list[SessionSummary]":
        steps = [summary]
        while (before := by_id.get(steps[0].follows)) and before not in steps:
            steps.insert(0, before)
        return steps

    paths = [path(each) for each in sorted(found, key=lambda each: each.started_at)]
    newest = {steps[0].id: steps[-1].started_at for steps in paths}
    paths.sort(key=lambda steps: (newest[steps[0].id], steps[0].id), reverse=True)
    of_thread: dict[str, list[list[SessionSummary]]] = {}
    for steps in paths:
        of_thread.setdefault(steps[0].id, []).append(steps)
    for members in of_thread.values():
        members.sort(key=lambda steps: [each.started_at for each in steps])
        yield from ((steps[-1], min(len(steps) - 1, _MOST_DEPTH)) for steps in members)


def read_moment(typed: str, option: str = "--since") -> datetime:
    """Parse an age such as `2h`, or a date or time in ISO 8601, in local time unless it names a zone.

    Raises:
        BadRequest: it is neither.
    """
    try:
        if age := _AGE.fullmatch(typed.strip()):
            return datetime.now(UTC) - timedelta(**{_UNITS[age[2]]: int(age[1])})
        return datetime.fromisoformat(typed.strip()).astimezone()
    except (ValueError, OverflowError) as error:
        raise BadRequest(
            f"{option}: '{typed}' is neither an age such as 2h or 3d nor a date such as 2026-11-22"
        ) from error
