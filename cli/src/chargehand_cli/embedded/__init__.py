"""The embedded Temporal server: one per state directory, shared by its users, gone when the last one leaves."""

from chargehand_cli.embedded.state import ServerNote, StateDirectory
from chargehand_cli.embedded.user import (
    Departure,
    EmbeddedServer,
    EmbeddedServerFailed,
    WorkerCommand,
    embedded,
    find_temporal,
)

__all__ = [
    "Departure",
    "EmbeddedServer",
    "EmbeddedServerFailed",
    "ServerNote",
    "StateDirectory",
    "WorkerCommand",
    "embedded",
    "find_temporal",
]
