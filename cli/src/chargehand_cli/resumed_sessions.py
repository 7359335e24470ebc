"""The unfinished sessions that a command resumes, since it starts the embedded worker."""

from typing import Final

from chargehand_cli.connection import Connection
from chargehand_cli.rendering.escaping import one_safe_line

_MAX_SHOWN: Final = 5
_MAX_COUNTED: Final = 50


async def resumed_lines(connection: Connection, session_id: str | None = None) -> list[str]:
    """List the sessions of earlier commands that resume with the embedded server."""
    if not connection.location.is_embedded:
        return []
    resumed = [each.id async for each in connection.chargehand.list(_MAX_COUNTED) if each.ended_at is None]
    resumed = [one_safe_line(each) for each in resumed if each != session_id]
    lines = [f"Resumed session: {each} (chargehand watch {each})" for each in resumed[:_MAX_SHOWN]]
    if len(resumed) > _MAX_SHOWN:
        lines.append(f"… and {len(resumed) - _MAX_SHOWN} more (chargehand list)")
    return lines
