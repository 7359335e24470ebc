"""Record the histories of every shape of session: `python -m tests.replay.record`.

Each shape becomes one file, `histories/VERSION/SHAPE.json.gz`: a list of `{"id", "history"}`, the session's own first.
VERSION is that of the project; files of released versions are never written again.
"""

import asyncio
import gzip
import json
import logging
import re
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Final

from pydantic import JsonValue
from temporalio.client import Client, WorkflowHistory

from chargehand_plugins.operations.replay import histories_of_tree
from chargehand_plugins.webhooks.activity import WebhookActivities, WebhookRules
from tests.conftest import local_server
from tests.environment import open_environment
from tests.replay.shapes import WEBHOOK_HOST, Shape, ended, shapes
from workflows import run_end

HISTORIES: Final = Path(__file__).parent / "histories"
CURRENT: Final = HISTORIES / version("chargehand")
RECORDED: Final = {
    f"{file.parent.name}-{file.name.split('.')[0]}": file for file in sorted(HISTORIES.glob("*/*.json.gz"))
}
"""The files by version and shape."""
_CREWS: Final = Path(__file__).parent / "crews"
_MOST_EVENTS: Final = run_end.MOST_EVENTS
_PROCESS: Final = re.compile(r"\d+@[\w.-]+")


async def record(client: Client, folder: Path, name: str, shape: Shape) -> bytes:
    run_end.MOST_EVENTS = shape.most_events or _MOST_EVENTS
    rules = WebhookRules(frozenset({WEBHOOK_HOST}), b"secret")
    async with open_environment(
        client,
        folder,
        shape.script,
        own_crews=(_CREWS,),
        request_checks=[rules.check],
        added=[WebhookActivities(rules).call_webhook],
    ) as environment:
        session = environment.chargehand.session(f"recorded-{name}")
        if shape.talk:
            await shape.talk(await environment.chargehand.converse(agent="reader", conversation_id=session.id))
        else:
            await environment.chargehand.start(shape.request, session_id=session.id)
            if shape.meanwhile:
                await shape.meanwhile(session)
            await ended(session)
        roots = [session.id, *([await shape.afterwards(session)] if shape.afterwards else [])]
        entries: list[JsonValue] = [
            {"id": history.workflow_id, "history": json.loads(history.to_json())}
            for root in roots
            async for history in histories_of_tree(client, root)
        ]
    text = json.dumps(_scrubbed(entries), separators=(",", ":"))
    return gzip.compress(text.encode(), mtime=0)


def histories_in(file: Path) -> list[WorkflowHistory]:
    recorded = json.loads(gzip.decompress(file.read_bytes()))
    return [WorkflowHistory.from_json(entry["id"], entry["history"]) for entry in recorded]


def _scrubbed(part: JsonValue) -> JsonValue:
    """Remove the names of machines, processes and folders everywhere."""
    if isinstance(part, list):
        return [_scrubbed(item) for item in part]
    if isinstance(part, dict):
        return {key: "" if key == "stackTrace" else _scrubbed(value) for key, value in part.items()}
    return _PROCESS.sub("recorder", part) if isinstance(part, str) else part


async def _main() -> None:
    logging.disable(logging.WARNING)  # shapes that are cancelled log a traceback for each activity
    CURRENT.mkdir(parents=True, exist_ok=True)
    for stale in CURRENT.glob("*.json.gz"):
        stale.unlink()
    async with local_server() as client:
        for name, shape in shapes().items():
            with tempfile.TemporaryDirectory() as folder:
                data = await record(client, Path(folder), name, shape)
            (CURRENT / f"{name}.json.gz").write_bytes(data)
            sys.stdout.write(f"{name}: {len(data)} bytes\n")


if __name__ == "__main__":
    asyncio.run(_main())
