"""The status of a session, also while no worker answers for it."""

from contextlib import suppress
from decimal import Decimal
from typing import Literal

from chargehand import NotReachable, Report, SessionEnded, SessionFailed, Status
from chargehand_cli.connection import Connection
from chargehand_cli.session_files import check_finished, kept_report


async def read_status(connection: Connection, session_id: str) -> tuple[Status, bool]:
    """Read a session's status, and whether a worker runs that carries it on.

    A finished session's comes from its report; that of one that waits for a worker, or has no report, from its
    histories, without limits.
    """
    location = connection.location
    if location.is_embedded and (kept := kept_report(location.state, session_id)):
        return status_of(kept), True
    await connection.open(worker=False)
    session = connection.session(session_id)
    if connection.has_worker:
        return await session.status(), True
    is_unfinished = await connection.is_unfinished(session_id)
    if not is_unfinished:
        with suppress(SessionEnded):
            return status_of(await session.result()), True
    return await session.recorded_status(), not is_unfinished


async def open_to_query(connection: Connection, session_id: str) -> None:
    """Connect to ask a session what only a worker can answer.

    Raises:
        NotReachable: there is no worker, and to start one would resume unfinished sessions.
    """
    if not await connection.open_to_query():
        await check_finished(connection, session_id)
        raise NotReachable(
            f"Only a worker can answer for session '{session_id}', and none was started: it would resume other "
            "sessions. To start it: `chargehand up`"
        )


def state_at(ending: SessionEnded) -> Literal["failed", "cancelled"]:
    """Return the state of a session that ended without a report."""
    return "failed" if isinstance(ending, SessionFailed) else "cancelled"


def status_of(report: Report) -> Status:
    """Return the status of a finished session."""
    granted = {each.limit: each.allowed for each in report.limits}
    return Status(
        session=report.session,
        goal=report.goal,
        state="finished",
        subtasks=report.subtasks,
        routes=report.routes,
        turns=report.usage.turns,
        max_turns=int(granted.get("max_turns", 0)),
        spent_usd=report.usage.cost_usd,
        budget_usd=Decimal(str(granted.get("budget_usd", 0))),
        started_at=report.timing.started_at,
    )
