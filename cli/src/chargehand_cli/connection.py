"""A command's connection: to the server that is configured, or to the embedded one, which it joins and leaves."""

import asyncio
import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from chargehand.errors import NotReachable
from chargehand.payloads.settings import protection_from
from chargehand_cli.embedded import Departure, EmbeddedServer, ServerNote
from chargehand_cli.embedded.order import SETTINGS_CANNOT_BE_USED
from chargehand_cli.embedded.state import last_lines
from chargehand_cli.location import Place, Wishes, decide_place

if TYPE_CHECKING:
    from chargehand.client import Chargehand, Session

_DEATHS_IN_A_ROW: Final = 3


class Connection:
    """Where a command works, and the client once it is open."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._server = EmbeddedServer(place.state, place.worker, temporal=place.temporal) if place.is_embedded else None
        self._note: ServerNote | None = None
        self._chargehand: Chargehand | None = None

    @property
    def chargehand(self) -> "Chargehand":
        assert self._chargehand, "open first"
        return self._chargehand

    @property
    def polling_seconds(self) -> float:
        """How often it is fair to ask how a session does."""
        return 0.25 if self._server else 1.0

    def begin(self) -> None:
        """Have the embedded server started, if it is to be used; returns at once."""
        if self._server:
            self._server.join()

    async def open(self) -> None:
        """Connect; the embedded server starts while this process still loads its modules."""
        if not self._server:
            from temporalio.envconfig import ClientConfig  # noqa: PLC0415  # slow to load, and the server starts meanwhile

            from chargehand.client import Chargehand  # noqa: PLC0415  # as above

            namespace = ClientConfig.load_client_connect_config().get("namespace") or "default"
            protection = protection_from(os.environ, namespace)
            self._chargehand = await Chargehand.connect(
                self.place.address,
                task_queue=self.place.task_queue,
                encryption=protection.encryption,
                storage=protection.storage,
            )
            return
        starting = asyncio.create_task(asyncio.to_thread(self._server.wait))
        await asyncio.sleep(0)  # let it start before this thread is busy
        importlib.import_module("chargehand.client")
        self._note = await starting
        self._chargehand = await self._connect(self._note.address)

    def describe(self) -> str:
        """Say in one line which server this is."""
        client = self.chargehand.client
        at = f"{client.service_client.config.target_host} (namespace {client.namespace})"
        if self._note:
            return f"Embedded Temporal at {self._note.address}, Web UI {self._note.ui_url}"
        return f"Temporal at {at}, named by {self.place.configured_by}"

    def session_url(self, session_id: str) -> str | None:
        """Say where the Web UI shows a session; None if nobody said where the Web UI is."""
        base = self._note.ui_url if self._note else self.place.ui_url
        if not base:
            return None
        return (
            f"{base.rstrip('/')}/namespaces/{self.chargehand.client.namespace}/workflows/{quote(session_id, safe='')}"
        )

    def temporal_command(self, arguments: str) -> str:
        """Write a call of Temporal's own program that reaches this server."""
        client = self.chargehand.client
        is_named_here = self._note or self.place.address
        address = f" --address {client.service_client.config.target_host}" if is_named_here else ""
        namespace = f" --namespace {client.namespace}" if client.namespace != "default" else ""
        return f"temporal {arguments}{address}{namespace}"

    def session(self, session_id: str) -> "Session":
        return self.chargehand.session(session_id)

    async def mend(self) -> None:
        """Have the embedded server started again if it has gone."""
        if not self._server or self._server.note():
            return
        note = await asyncio.to_thread(self._server.wait)
        if self._note is None or note.address != self._note.address:
            self._chargehand = await self._connect(note.address)
        self._note = note

    def check_worker(self) -> None:
        """Look after the embedded worker.

        Raises:
            NotReachable: it ends again and again, or its settings cannot be used.
        """
        note = self._server.note() if self._server else None
        if not note or note.worker_deaths == 0 or note.worker_pid:
            return
        if note.worker_exit_code == SETTINGS_CANNOT_BE_USED or note.worker_deaths >= _DEATHS_IN_A_ROW:
            log = self.place.worker_log
            # A worker that cannot use its settings says so in one line; what stands before it is of workers before.
            lines = 1 if note.worker_exit_code == SETTINGS_CANNOT_BE_USED else 12
            raise NotReachable(f"The worker does not stay up. The end of {log}:\n{last_lines(log, lines)}")

    def end(self) -> Departure:
        """Leave the embedded server; the last one to leave waits until it has ended."""
        return self._server.leave() if self._server else Departure.OTHERS_STAY

    async def _connect(self, address: str) -> "Chargehand":
        from temporalio.client import Client  # noqa: PLC0415  # slow to load, and the server starts meanwhile

        from chargehand.client import Chargehand  # noqa: PLC0415  # as above
        from chargehand.converter import data_converter  # noqa: PLC0415  # as above

        protection = protection_from(os.environ, "default", usual_storage=self.place.storage)
        converter = data_converter(protection.encryption, protection.storage)
        try:
            client = await Client.connect(address, data_converter=converter)
        except RuntimeError as error:
            raise NotReachable(f"The embedded Temporal server at {address} does not answer: {error}") from error
        return Chargehand(client, self.place.task_queue)


def decide(wishes: Wishes) -> Place:
    """Decide by this process's own environment and directory."""
    return decide_place(wishes, os.environ, Path.cwd(), Path.home())
