"""Starts whose answer is lost, and starts by schedules: callers may simply ask again."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from uuid import uuid4

import pytest
from temporalio.client import Client

from chargehand.client import Chargehand
from chargehand.contracts import SessionRequest
from chargehand.errors import SessionNotFound
from chargehand.interface import Supervisor
from tests.scripted_model import Script, subtask
from tests.waiting import until
from tests.workflows.conftest import OpenEnvironment

pytestmark = pytest.mark.real_server

_GOAL = "What is there to know?"
_SCRIPT = Script().plan(subtask("T1"))
_PAID_TURNS = 2
"""Plan and the one subtask, whose answer is the report."""


class Wire:
    """A way to the server on which answers can get lost."""

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self._writers: list[asyncio.StreamWriter] = []
        self.loses_answers = False

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[str]:
        """Listen; gives the address."""
        listening = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        yield f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        listening.close()
        self.cut()

    def cut(self) -> None:
        """Drop every connection."""
        for writer in self._writers:
            writer.close()
        self._writers.clear()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection(*self._server)
        self._writers += [writer, to_server]
        with suppress(OSError):
            await asyncio.gather(self._carry(reader, to_server), self._carry(from_server, writer, answers=True))

    async def _carry(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, answers: bool = False
    ) -> None:
        while part := await source.read(65_536):
            if not (answers and self.loses_answers):
                target.write(part)
                await target.drain()


async def test_a_start_whose_answer_is_lost_is_asked_again_and_paid_once(
    client: Client, environment: OpenEnvironment
) -> None:
    """The server has started the session and the connection breaks before it says so: there is still one session."""
    host, _, port = client.service_client.config.target_host.rpartition(":")
    wire = Wire(host, int(port))
    session_id = f"asked-again-{uuid4().hex[:8]}"
    async with environment(_SCRIPT) as running, wire.opened() as address:
        caller = await Chargehand.connect(address, task_queue=running.chargehand.task_queue)
        wire.loses_answers = True
        starting = asyncio.create_task(caller.start(SessionRequest(goal=_GOAL), session_id=session_id))
        ended = await _result(running.chargehand, session_id)
        has_answer = starting.done()
        wire.loses_answers = False
        wire.cut()
        session = await starting
        again = await (await caller.start(SessionRequest(goal=_GOAL), session_id=session_id)).result()

    assert not has_answer
    assert (session.id, again) == (session_id, ended)
    assert running.model.replies == _PAID_TURNS


async def _result(chargehand: Chargehand, session_id: str) -> object:
    session = chargehand.session(session_id)

    async def exists() -> bool:
        try:
            await session.status()
        except SessionNotFound:
            return False
        return True

    await until(exists, 30)
    return await session.result()


async def test_an_id_that_is_used_again_is_another_session(client: Client, environment: OpenEnvironment) -> None:
    """A start with the default reuse policy, after the first session has closed, runs and reports a session anew."""
    session_id = f"used-again-{uuid4().hex[:8]}"
    async with environment(_SCRIPT) as running:
        reports = [
            await client.execute_workflow(
                Supervisor.run, SessionRequest(goal=_GOAL), id=session_id, task_queue=running.chargehand.task_queue
            )
            for _ in range(2)
        ]

    assert [each.answer for each in reports] == ["Known.", "Known."]
    assert [each.stop_reason for each in reports] == ["completed", "completed"]
    assert running.model.replies == 2 * _PAID_TURNS


@pytest.mark.slow
async def test_every_run_of_a_cron_is_another_session(client: Client, environment: OpenEnvironment) -> None:
    """The second run of a cron starts children of its own instead of losing every subtask as a duplicate."""
    session_id = f"cron-{uuid4().hex[:8]}"
    async with environment(_SCRIPT) as running:
        handle = await client.start_workflow(
            Supervisor.run,
            SessionRequest(goal=_GOAL),
            id=session_id,
            task_queue=running.chargehand.task_queue,
            cron_schedule="@every 1s",
        )

        await until(lambda: running.model.replies >= 2 * _PAID_TURNS, 30)
        await handle.terminate()
        children = [each async for each in client.list_workflows(f"WorkflowId STARTS_WITH '{session_id}/'")]

    assert len({each.id for each in children}) >= 2
