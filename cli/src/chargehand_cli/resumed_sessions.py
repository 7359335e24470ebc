"""The unfinished sessions that a command resumes, since it starts the embedded worker."""

from typing import Final

from chargehand import AlreadyEnded
from chargehand_cli.connection import Connection
from chargehand_cli.rendering.escaping import one_safe_line
from chargehand_cli.terminal import say

_MAX_SHOWN: Final = 5
_MAX_COUNTED: Final = 50


async def open_to_steer(connection: Connection, session_id: str) -> None:
    """Connect to change a session; the embedded worker is started only for one that it can carry on.

    Raises:
        SessionNotFound: there is no such session.
        AlreadyEnded: it has ended.
    """
    await connection.open(worker=False)
    if not await connection.is_unfinished(session_id):
        raise AlreadyEnded(session_id)
    await connection.open()
    for line in await resumed_lines(connection, session_id):
        say(line)
    connection.farewell = (
        "The embedded worker ended with this command, so that the session waits. To resume it: "
        f"`chargehand watch {session_id}`"
    )


async def resumed_lines(connection: Connection, session_id: str | None = None) -> list[str]:
    """List the sessions of earlier commands that resume with the embedded server."""
    if not connection.started_worker:
        return []
    resumed = [each.id async for each in connection.chargehand.list(_MAX_COUNTED) if each.ended_at is None]
    resumed = [one_safe_line(each) for each in resumed if each != session_id]
    lines = [f"Resumed session: {each} (chargehand watch {each})" for each in resumed[:_MAX_SHOWN]]
    if len(resumed) > _MAX_SHOWN:
        lines.append(f"… and {len(resumed) - _MAX_SHOWN} more (chargehand list)")
    return lines
