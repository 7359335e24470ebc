"""The embedded Temporal server: one per state directory, shared by its users, shut down when the last one leaves."""

from chargehand.environment import BAD_SETTINGS
from chargehand_cli.embedded.state import ServerNote, StateDirectory, WorkerCommand, last_lines
from chargehand_cli.embedded.user import (
    Departure,
    EmbeddedServer,
    EmbeddedServerFailed,
    find_temporal,
)

__all__ = [
    "BAD_SETTINGS",
    "Departure",
    "EmbeddedServer",
    "EmbeddedServerFailed",
    "ServerNote",
    "StateDirectory",
    "WorkerCommand",
    "find_temporal",
    "last_lines",
]
