"""A command's connection to its server: a configured one, or the embedded one, which it joins and leaves."""

import asyncio
import importlib
import os
from functools import cached_property
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from chargehand import NotReachable
from chargehand.payloads.settings import protection_from
from chargehand_cli.embedded import BAD_SETTINGS, Departure, EmbeddedServer, ServerNote, last_lines
from chargehand_cli.location import Location, LocationOptions, find_own_location

if TYPE_CHECKING:
    from chargehand import Chargehand, Session

_MAX_WORKER_EXITS: Final = 3


class Connection:
    """Where a command works, and the client once the connection is open."""

    def __init__(self, options: LocationOptions | Location) -> None:
        """Remember the options only; nothing is decided or started before it is needed."""
        self._options = options
        self._server: EmbeddedServer | None = None
        self._note: ServerNote | None = None
        self._chargehand: Chargehand | None = None
        self.farewell = ""
        """Written at the end of the command if the embedded server ends with it."""

    @cached_property
    def location(self) -> Location:
        return self._options if isinstance(self._options, Location) else find_own_location(self._options)

    @property
    def chargehand(self) -> "Chargehand":
        assert self._chargehand, "open first"
        return self._chargehand

    @property
    def polling_seconds(self) -> float:
        """How often to poll a session's status."""
        return 0.25 if self._server else 1.0

    def join(self) -> None:
        """Start the embedded server if this command uses it; return at once."""
        if self.location.is_embedded and not self._server:
            server = EmbeddedServer(self.location.state, self.location.worker, temporal=self.location.temporal)
            server.join()
            self._server = server

    async def open(self) -> None:
        """Connect, unless it is done; the embedded server starts while this process loads its modules."""
        if self._chargehand:
            return
        self.join()
        if not self._server:
            self._chargehand = await self._connect_to_configured()
            return
        starting = asyncio.create_task(asyncio.to_thread(self._server.wait))
        await asyncio.sleep(0)  # let it start before this thread is busy
        importlib.import_module("chargehand.client")
        self._note = await starting
        self._chargehand = await self._connect_to_embedded(self._note.address)

    def describe(self) -> str:
        """Describe the server in one line."""
        if self._note:
            return f"Embedded Temporal server at {self._note.address}, Web UI {self._note.ui_url}"
        client = self.chargehand.client
        address = client.service_client.config.target_host
        return f"Temporal server at {address}, namespace {client.namespace} (set by {self.location.configured_by})"

    def session_url(self, session_id: str) -> str | None:
        """Return a session's address in the Web UI; None if the Web UI's address is unknown."""
        base = self._note.ui_url if self._note else self.location.ui_url
        if not base:
            return None
        return (
            f"{base.rstrip('/')}/namespaces/{self.chargehand.client.namespace}/workflows/{quote(session_id, safe='')}"
        )

    def temporal_command(self, arguments: str) -> str:
        """Write a `temporal` command line that reaches this server."""
        client = self.chargehand.client
        is_named_here = self._note or self.location.address
        address = f" --address {client.service_client.config.target_host}" if is_named_here else ""
        namespace = f" --namespace {client.namespace}" if client.namespace != "default" else ""
        return f"temporal {arguments}{address}{namespace}"

    def session(self, session_id: str) -> "Session":
        return self.chargehand.session(session_id)

    async def mend(self) -> None:
        """Start the embedded server again if it has ended."""
        if not self._server or self._server.note():
            return
        note = await asyncio.to_thread(self._server.wait)
        if self._note is None or note.address != self._note.address:
            self._chargehand = await self._connect_to_embedded(note.address)
        self._note = note

    def check_worker(self) -> None:
        """Check that the embedded worker runs.

        Raises:
            NotReachable: it exits repeatedly, or its settings are invalid.
        """
        note = self._server.note() if self._server else None
        if not note or note.worker_deaths == 0 or note.worker_pid:
            return
        has_bad_settings = note.worker_exit_code == BAD_SETTINGS
        if has_bad_settings or note.worker_deaths >= _MAX_WORKER_EXITS:
            log = self.location.worker_log
            # A worker with invalid settings writes one line; the lines before it are of earlier workers.
            lines = last_lines(log, 1 if has_bad_settings else 12)
            raise NotReachable(f"The worker keeps exiting. The end of {log}:\n{lines}")

    @property
    def running_tape(self) -> str:
        """The tape of the embedded worker, as `WorkerCommand.tape`."""
        return self._note.tape if self._note else ""

    def leave(self) -> Departure:
        """Leave the embedded server; the last command to leave waits until it has shut down."""
        return self._server.leave() if self._server else Departure.OTHERS_STAY

    async def _connect_to_configured(self) -> "Chargehand":
        from chargehand import Chargehand

        location = self.location
        return await Chargehand.connect(location.address, task_queue=location.task_queue, artifacts=location.artifacts)

    async def _connect_to_embedded(self, address: str) -> "Chargehand":
        from temporalio.client import Client

        from chargehand import Chargehand, data_converter

        protection = protection_from(os.environ, "default", usual_storage=self.location.storage)
        converter = data_converter(protection.encryption, protection.storage)
        try:
            client = await Client.connect(address, data_converter=converter)
        except RuntimeError as error:
            raise NotReachable(f"The embedded Temporal server at {address} does not answer: {error}") from error
        location = self.location
        return Chargehand(client, location.task_queue, artifacts=location.artifacts, encryption=protection.encryption)
