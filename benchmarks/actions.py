"""Counts the actions of the main job, Temporal Cloud's billing unit, from the server's own metrics."""

import re
import tempfile
import urllib.request
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

from benchmarks import processes
from benchmarks.tables import Row
from chargehand.client import Chargehand
from tests.acceptance.test_real_wires import GOAL, settings
from tests.acceptance.workers import worker_process
from tests.scripted_provider import ScriptedProvider, canned_session

_LONG: Final = timedelta(seconds=10)
_MEASURED: Final = ((timedelta(milliseconds=200), 5), (_LONG, 5), (_LONG, 30), (_LONG, 60))
"""Durations of a model turn, each with a value of `CHARGEHAND_HEARTBEAT_TIMEOUT` in seconds."""
_DOLLARS: Final = 50 / 1_000_000
"""The highest list price of an action, November 2026."""
_FREE: Final = {"command_ModifyWorkflowProperties"}
"""Counted by the server, but not listed by Temporal Cloud as an action."""
_HEARTBEAT: Final = "grpc_RecordActivityTaskHeartbeat"


async def actions() -> tuple[Sequence[Row], Sequence[str]]:
    """Run the main job with short and long model turns, and read the server's count."""
    rows = [await _measure(turn, patience) for turn, patience in _MEASURED]
    return rows, ["Heartbeats are actions; about six go to the server within the timeout of a running call."]


async def _measure(turn: timedelta, patience_seconds: int) -> Row:
    with tempfile.TemporaryDirectory(prefix="chargehand-bench-") as name:
        folder = Path(name)
        with processes.server(folder) as server:
            client = (await Chargehand.connect(server.address)).client
            async with ScriptedProvider(canned_session(delay=turn.total_seconds())) as model:
                chosen = settings("openai_compatible", model.base_url, client, folder)
                async with worker_process(chosen | {"CHARGEHAND_HEARTBEAT_TIMEOUT": str(patience_seconds)}):
                    session = await Chargehand(client, chosen["CHARGEHAND_TASK_QUEUE"]).start(GOAL)
                    report = await session.result()
            counted = _counted((folder / "server.log").read_text())
    total = sum(counted.values())
    return {
        "model turn, s": turn.total_seconds(),
        "heartbeat timeout, s": patience_seconds,
        "turns": report.usage.turns,
        "actions": total,
        "of these heartbeats": counted[_HEARTBEAT],
        "US dollars, 1,000 sessions": total * _DOLLARS * 1_000,
    }


def _counted(log: str) -> Counter[str]:
    found = re.search(r"Metrics:\s+(http://\S+)", log)
    assert found is not None, log
    with urllib.request.urlopen(found[1]) as answer:
        metrics = answer.read().decode()
    counted: Counter[str] = Counter()
    for line in re.findall(r"^action(?:_total)?(\{.*namespace=\"default\".*)$", metrics, re.MULTILINE):
        kind = re.search(r'action_type="(\w+)"', line)
        if kind is not None and kind[1] not in _FREE:
            counted[kind[1]] += int(float(line.rsplit(" ", 1)[1]))
    return counted
