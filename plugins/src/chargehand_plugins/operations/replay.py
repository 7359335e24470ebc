"""Check that this machine's code replays a server's sessions."""

import asyncio
import gzip
import json
import os
import tempfile
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Final

from temporalio.client import Client, WorkflowHistory
from temporalio.service import RPCError, RPCStatusCode

from chargehand.history.runs import histories
from chargehand.temporal_errors import translated
from chargehand.visibility import OPEN, ROOT_SESSIONS, list_executions
from chargehand_cli.connection import Connection
from chargehand_cli.location import Location
from chargehand_cli.rendering.escaping import one_safe_line
from chargehand_cli.terminal import Exit, put_check, say
from chargehand_plugins.operations.worker_program import Checked, check

_REPLAYED: Final = 20


async def replay_sessions(
    connection: Connection,
    sessions: Sequence[str],
    last: int | None,
    save: Path | None,
    *,
    only_running: bool,
    as_json: bool,
) -> Exit:
    """Replay sessions of the server: the given ones, or else the newest or all running ones."""
    client = connection.chargehand.client
    limit = last or (None if only_running else _REPLAYED)
    query = f"{ROOT_SESSIONS} AND {OPEN}" if only_running else ROOT_SESSIONS
    ids = sessions or [each.execution.workflow_id async for each in list_executions(client, query, limit)]
    if not ids:
        say(f"There are no {'running ' if only_running else ''}sessions to replay.")
        return Exit.DONE
    with tempfile.TemporaryDirectory(prefix="chargehand-replay-") as folder:
        file = Path(folder) / "histories.json.gz"
        await _fetch(client, ids, file)
        if save:
            await asyncio.to_thread(_save, file, save)
        return await replay_file(connection.location, file, namespace=client.namespace, as_json=as_json)


async def _fetch(client: Client, sessions: Sequence[str], file: Path) -> None:
    """Write a list of `{"id", "history"}` one history at a time, since all together may be large."""
    with gzip.open(file, "wt", encoding="utf-8") as written:
        separator = "["
        for session in sessions:
            with translated(session):
                async for history in histories_of_tree(client, session, missing=_say_missing):
                    entry = {"id": history.workflow_id, "history": json.loads(history.to_json())}
                    text = separator + json.dumps(entry, separators=(",", ":"))
                    await asyncio.to_thread(written.write, text)
                    separator = ",\n"
        written.write("]" if separator != "[" else "[]")


def _say_missing(workflow_id: str) -> None:
    say(f"Skipped {one_safe_line(workflow_id)}: it is no longer on the server.")


def _save(file: Path, target: Path) -> None:
    # Histories contain user text, so the file is private.
    with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as saved:
        saved.write(file.read_bytes())
    say(f"Histories saved to {target}. They contain user text.")


async def replay_file(location: Location, file: Path, *, namespace: str | None, as_json: bool) -> Exit:
    def show(result: Checked) -> None:
        summary = f"{result['events']:>6} events  {result['type']:<10}  {one_safe_line(result['id'], 300)}"
        put_check(summary, result["problem"])

    worker = location.require_worker("replay with")
    settings = {"TEMPORAL_NAMESPACE": namespace} if namespace else {}
    results = await check(worker, "--replay", file, settings, show=None if as_json else show)
    if differing := sum(1 for each in results if each["problem"]):
        say(f"{differing} of {len(results)} histories differ: such sessions would get stuck on these workflows.")
        return Exit.FAILED
    say(f"All {len(results)} histories replay on these workflows.")
    return Exit.DONE


async def histories_of_tree(
    client: Client, workflow_id: str, run_id: str | None = None, missing: Callable[[str], object] = lambda _: None
) -> AsyncGenerator[WorkflowHistory]:
    """Fetch the histories of a workflow and its descendants, one at a time, since all together may be large.

    `missing` is called with the id of a child whose history is no longer retained.
    """
    try:
        runs = await histories(client, workflow_id, run_id)
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND or run_id is None:
            raise
        missing(workflow_id)
        return
    for history in runs:
        yield history
    for event in (event for history in runs for event in history.events):
        if event.HasField("child_workflow_execution_started_event_attributes"):
            child = event.child_workflow_execution_started_event_attributes.workflow_execution
            async for below in histories_of_tree(client, child.workflow_id, child.run_id, missing):
                yield below
