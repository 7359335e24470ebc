"""`replay`: find out whether the workflows installed here would decide as sessions have decided.

This package knows no workflows, so the application's own program replays: here histories are fetched and results shown.
"""

import asyncio
import gzip
import json
import os
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from chargehand.errors import SessionNotFound
from chargehand_cli.connection import Connection
from chargehand_cli.exit_codes import Exit
from chargehand_cli.location import Place
from chargehand_cli.rendering.escaping import one_safe_line
from chargehand_cli.terminal import put, say
from chargehand_cli.worker_program import Checked, check, require_application

if TYPE_CHECKING:
    from temporalio.client import Client, WorkflowHistory

_USUAL: Final = 20


@dataclass(frozen=True)
class Chosen:
    """Which sessions are replayed; the newest ones if none is named."""

    sessions: Sequence[str] = ()
    last: int | None = None
    running: bool = False
    save: Path | None = None
    """Where the histories are kept, beside being replayed."""
    as_json: bool = False


async def replay_sessions(connection: Connection, chosen: Chosen) -> Exit:
    """Fetch the histories of sessions, with everything below them, and replay them."""
    require_application(connection.place)
    await connection.open()
    client = connection.chargehand.client
    ids = list(chosen.sessions) or [each async for each in _newest(client, chosen)]
    if not ids:
        say(f"No session {'runs' if chosen.running else 'is'} here to replay.")
        return Exit.DONE
    async with AsyncExitStack() as closing:
        folder = closing.enter_context(tempfile.TemporaryDirectory(prefix="chargehand-replay-"))
        file = Path(folder) / "histories.json.gz"
        await _fetch(client, ids, file)
        if chosen.save:
            await asyncio.to_thread(_keep, file, chosen.save)
        return await _replay(connection.place, file, namespace=client.namespace, as_json=chosen.as_json)


async def replay_file(place: Place, file: Path, *, as_json: bool) -> Exit:
    """Replay the histories of a file; needs no server."""
    return await _replay(place, file, namespace=None, as_json=as_json)


async def _newest(client: "Client", chosen: Chosen) -> AsyncIterator[str]:
    from chargehand.visibility import OPEN, list_executions  # noqa: PLC0415  # slow to load
    from chargehand.wire import WorkflowType  # noqa: PLC0415  # beside its only use

    query = f"WorkflowType = '{WorkflowType.SUPERVISOR}' AND ParentWorkflowId IS NULL"
    if chosen.running:
        query += f" AND {OPEN}"
    limit = chosen.last or (None if chosen.running else _USUAL)
    async for execution in list_executions(client, query, limit):
        yield execution.execution.workflow_id


async def _fetch(client: "Client", sessions: Sequence[str], file: Path) -> None:
    """Write a list of `{"id", "history"}`, one history at a time: together they may be large."""
    with gzip.open(file, "wt", encoding="utf-8") as written:
        separator = "["
        for session in sessions:
            async for history in _tree(client, session, None):
                entry = {"id": history.workflow_id, "history": json.loads(history.to_json())}
                text = separator + json.dumps(entry, separators=(",", ":"))
                await asyncio.to_thread(written.write, text)
                separator = ",\n"
        written.write("]" if separator != "[" else "[]")


async def _tree(client: "Client", workflow_id: str, run_id: str | None) -> AsyncIterator["WorkflowHistory"]:
    from temporalio.service import RPCError, RPCStatusCode  # noqa: PLC0415  # slow to load

    try:
        history = await client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        if run_id is None:
            raise SessionNotFound(workflow_id) from error
        say(f"{one_safe_line(workflow_id)} is no longer on the server, and is left out.")
        return
    yield history
    for event in history.events:
        if event.HasField("child_workflow_execution_started_event_attributes"):
            child = event.child_workflow_execution_started_event_attributes.workflow_execution
            async for below in _tree(client, child.workflow_id, child.run_id):
                yield below


def _keep(file: Path, target: Path) -> None:
    # Histories hold what users asked and were told, so nobody else may read them.
    with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as kept:
        kept.write(file.read_bytes())
    say(f"The histories are kept in {target}. They hold what users asked and were told.")


async def _replay(place: Place, file: Path, *, namespace: str | None, as_json: bool) -> Exit:
    settings = {"TEMPORAL_NAMESPACE": namespace} if namespace else {}
    results = await check(place, "--replay", file, settings, show=None if as_json else _put)
    if as_json:
        put(json.dumps(results, indent=1))
    differing = sum(1 for each in results if each["problem"])
    if differing:
        say(f"{differing} of {len(results)} histories differ: with these workflows such sessions would not go on.")
        return Exit.FAILED
    say(f"All {len(results)} histories replay on the workflows of {place.application}.")
    return Exit.DONE


def _put(result: Checked) -> None:
    mark = "✘" if result["problem"] else "✔"
    put(f"{mark} {result['events']:>6} events  {result['type']:<10}  {one_safe_line(result['id'], 300)}")
    if result["problem"]:
        put(f"    {one_safe_line(result['problem'], 600)}")
