"""Tell plug-ins how a session ended."""

from chargehand.plugins import Hook, installed
from workflows.state.session import Session


async def announce_end(session: Session, *, stop_reason: str = "", error: str = "") -> None:
    """Call what plug-ins do at the end of a session, in the order of their names."""
    for announce in installed().functions(Hook.SESSION_ENDED):
        await announce(session, stop_reason, error)
