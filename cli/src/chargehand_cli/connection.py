"""A command's connection to its server: a configured one, or the embedded one, which it joins and leaves."""

import asyncio
import importlib
import os
import time
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final, NoReturn
from urllib.parse import quote

from chargehand import AlreadyEnded, NotReachable
from chargehand.environment import BAD_SETTINGS
from chargehand_cli.embedded.state import ServerNote, last_lines
from chargehand_cli.embedded.user import Departure, EmbeddedServer
from chargehand_cli.location import Location, LocationOptions, find_own_location
from chargehand_cli.rendering.escaping import one_safe_line
from chargehand_cli.terminal import say
from chargehand_cli.worker_settings import WrongSettings, check_settings

if TYPE_CHECKING:
    from chargehand import Chargehand, Session

_MAX_WORKER_EXITS: Final = 3
WORKER_SECONDS: Final = 15
"""Time within which a worker polls unless it is slow or busy."""
_MAX_RESUMED_SHOWN: Final = 5
_MAX_RESUMED_COUNTED: Final = 50


class Connection:
    """A command's location, and the client once connected."""

    def __init__(self, options: LocationOptions | Location) -> None:
        """Store the options; decisions and starts are deferred until needed."""
        self._options = options
        self._server: EmbeddedServer | None = None
        self._note: ServerNote | None = None
        self._chargehand: Chargehand | None = None
        self.farewell = ""
        """Text to print at the end of the command if the embedded server ends with it."""
        self.linger_seconds = 0
        """How long the embedded server stays up without a worker after the command."""

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

    @property
    def is_open(self) -> bool:
        """Whether there is a connection; stored reports are read without one."""
        return self._chargehand is not None

    @property
    def has_worker(self) -> bool:
        """Whether a worker runs, as far as known; configured servers are assumed to have one."""
        note = self._server.note() if self._server else None
        return self._server is None or (note is not None and note.has_worker)

    def join(self, *, worker: bool = True) -> None:
        """Start the embedded server if this command uses it; return at once."""
        if self.location.is_embedded and not self._server:
            program = self.location.worker if worker else None
            server = EmbeddedServer(self.location.state, program, temporal=self.location.temporal)
            server.join()
            self._server = server

    async def open(self, *, worker: bool = True) -> None:
        """Connect if not connected; the embedded server starts while this process loads its modules.

        The embedded worker resumes all unfinished sessions and their costs, so read-only commands do not start one.
        """
        if self._chargehand:
            if worker:
                await self._add_worker()
            return
        if worker:
            await self.check_settings()
        self.join(worker=worker)
        if not self._server:
            from chargehand import Chargehand

            place, queue, artifacts = self.location.address, self.location.task_queue, self.location.artifacts
            self._chargehand = await Chargehand.connect(place, task_queue=queue, artifacts=artifacts)
            return
        starting = asyncio.create_task(asyncio.to_thread(self._server.wait))
        await asyncio.sleep(0)  # let it start before this thread gets busy
        importlib.import_module("chargehand.client")
        await self._reconnect(await starting)

    async def open_with_worker(self) -> None:
        """Connect, and wait until the embedded worker polls or is slow to start; raises like `check_worker`."""
        await self.open()
        await self.until_worker_polls()

    async def open_to_query(self) -> bool:
        """Connect, with a worker if that resumes no session; return whether a worker runs."""
        from chargehand.visibility import OPEN, ROOT_SESSIONS, list_executions

        await self.open(worker=False)
        if self.has_worker:
            return True
        async for _ in list_executions(self.chargehand.client, f"{ROOT_SESSIONS} AND {OPEN}", 1):
            return False
        await self.open()
        return True

    async def open_to_steer(self, session_id: str) -> "Session":
        """Connect to change a session, and return it; the embedded worker is started only for an unfinished one.

        Raises:
            SessionNotFound: the session does not exist.
            AlreadyEnded: it has ended.
            NotReachable, WrongSettings: the embedded worker cannot start.
        """
        await self.open(worker=False)
        if not await self.is_unfinished(session_id):
            raise AlreadyEnded(session_id, await self.session(session_id).ending())
        await self.open_with_worker()
        await self.say_resumed(session_id)
        self.farewell = (
            "The embedded worker ended with this command, so that the session waits. To resume it: "
            f"`chargehand watch {session_id}`"
        )
        return self.session(session_id)

    async def say_resumed(self, session_id: str | None = None) -> None:
        """Print the sessions of earlier commands that this command's worker resumes."""
        for line in await self.resumed_lines(session_id):
            say(line)

    async def resumed_lines(self, session_id: str | None = None) -> list[str]:
        """Return lines naming the resumed sessions, except the command's own."""
        if not self._server or not self._server.started_worker:
            return []
        listing = self.chargehand.list(_MAX_RESUMED_COUNTED)
        resumed = [one_safe_line(each.id) async for each in listing if each.ended_at is None and each.id != session_id]
        lines = [f"Resumed session: {each} (chargehand watch {each})" for each in resumed[:_MAX_RESUMED_SHOWN]]
        if len(resumed) > _MAX_RESUMED_SHOWN:
            lines.append(f"… and {len(resumed) - _MAX_RESUMED_SHOWN} more (chargehand list)")
        return lines

    async def is_unfinished(self, session_id: str) -> bool:
        """Return whether a session is open; needs no worker.

        Raises:
            SessionNotFound: the session does not exist.
        """
        from chargehand.temporal_errors import translated
        from chargehand.visibility import describe, is_open

        with translated(session_id):
            description = await describe(self.chargehand.client, session_id)
        return is_open(description.workflow_execution_info)

    async def check_settings(self) -> None:
        """Check the settings of the worker that this command may start, before starting anything.

        Raises:
            WrongSettings: the settings are invalid.
        """
        if self.location.is_embedded and self.location.worker:
            await check_settings(self.location.worker, self.location.state)

    async def _add_worker(self) -> None:
        if not self._server or not self.location.worker or self.has_worker:
            return
        await self.check_settings()
        self._server.require_worker(self.location.worker)
        await self._reconnect(await asyncio.to_thread(self._server.wait))

    async def _reconnect(self, note: ServerNote) -> None:
        if self._note is None or note.address != self._note.address:
            self._chargehand = await self._connect_to_embedded(note.address)
        self._note = note

    def describe(self) -> str:
        if self._note:
            return f"Embedded Temporal server at {self._note.address}, Web UI {self._note.ui_url}"
        client = self.chargehand.client
        address = client.service_client.config.target_host
        return f"Temporal server at {address}, namespace {client.namespace} (set by {self.location.configured_by})"

    def session_url(self, session_id: str) -> str | None:
        """Return a session's address in the Web UI; None if that is unknown."""
        base = self._workflows_url
        return f"{base}/{quote(session_id, safe='')}" if base else None

    def sessions_url(self) -> str | None:
        """Return the Web UI's address of the list of sessions without subtasks."""
        from chargehand.visibility import ROOT_RUNS

        base = self._workflows_url
        return f"{base}?query={quote(ROOT_RUNS)}" if base else None

    @property
    def _workflows_url(self) -> str | None:
        base = self._note.ui_url if self._note else self.location.ui_url
        return f"{base.rstrip('/')}/namespaces/{self.chargehand.client.namespace}/workflows" if base else None

    def temporal_command(self, arguments: str) -> str:
        """Build a `temporal` command line that reaches this server."""
        client = self.chargehand.client
        is_named_here = self._note or self.location.address
        address = f" --address {client.service_client.config.target_host}" if is_named_here else ""
        namespace = f" --namespace {client.namespace}" if client.namespace != "default" else ""
        return f"temporal {arguments}{address}{namespace}"

    def session(self, session_id: str) -> "Session":
        return self.chargehand.session(session_id)

    async def mend(self) -> None:
        """Restart the embedded server if it has ended."""
        if not self._server or self._server.note():
            return
        await self._reconnect(await asyncio.to_thread(self._server.wait))

    async def keep_running(self) -> NoReturn:
        """Restart the embedded server whenever it ends, until cancelled; raises like `check_worker`."""
        while True:
            await self.mend()
            self.check_worker()
            await asyncio.sleep(self.polling_seconds)

    def check_worker(self) -> None:
        """Check that the embedded worker runs.

        Raises:
            NotReachable: it exits repeatedly.
            WrongSettings: its settings are invalid.
        """
        note = self._server.note() if self._server else None
        if not note or note.worker_deaths == 0 or note.worker_pid:
            return
        log = self.location.worker_log
        if note.worker_exit_code == BAD_SETTINGS:
            raise WrongSettings(last_lines(log, 1))
        if note.worker_deaths >= _MAX_WORKER_EXITS:
            raise NotReachable(f"The worker keeps exiting. The end of {log}:\n{last_lines(log)}")

    async def until_worker_polls(self) -> None:
        """Wait until this command's embedded worker, if any, polls or is slow to start; raises like `check_worker`."""
        from chargehand.visibility import pollers

        give_up_at = time.monotonic() + WORKER_SECONDS
        while self._server and time.monotonic() < give_up_at:
            self.check_worker()
            if await pollers(self.chargehand.client, self.location.task_queue):
                return
            await asyncio.sleep(0.1)

    @property
    def running_variant(self) -> str:
        """The running embedded worker's variant, as in `WorkerCommand.variant`."""
        return self._note.variant if self._note else ""

    def hand_over(self, command: Sequence[str]) -> None:
        """Start a background command that keeps the embedded server and its worker running."""
        if self._server:
            self._server.hand_over(command)

    def leave(self) -> Departure:
        """Leave the embedded server; the last command waits until it has shut down, or lets it linger."""
        return self._server.leave(linger_seconds=self.linger_seconds) if self._server else Departure.OTHERS_STAY

    async def _connect_to_embedded(self, address: str) -> "Chargehand":
        """Connect as to any other server, but without Temporal's settings, which are meant for one."""
        from chargehand import Chargehand
        from chargehand.connect import connect

        location = self.location
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("TEMPORAL_")}
        own = {"TEMPORAL_CONFIG_FILE": os.devnull, "CHARGEHAND_STORAGE": location.storage or ""}
        client, encryption, _ = await connect(address, None, None, inherited | own)
        return Chargehand(client, location.task_queue, artifacts=location.artifacts, encryption=encryption)
