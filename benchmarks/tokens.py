"""The cost of sessions by purpose, in tokens and dollars, for the hand-played tasks."""

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.played.stage import Played, open_stage
from benchmarks.played.tasks import TASKS
from benchmarks.tables import Row
from chargehand.contracts import SpendLine, Usage
from tests.conftest import local_server

_ALL: Final = "all tasks"


async def tokens() -> tuple[Sequence[Row], Sequence[str]]:
    """Play every task, and add up its calls by purpose."""
    with tempfile.TemporaryDirectory(prefix="chargehand-bench-") as folder:
        async with local_server() as client, open_stage(client, Path(folder)) as stage:
            played = {name: await stage.play(task) for name, task in TASKS.items()}
    rows = [row for name, one in played.items() for row in _rows(name, one.report.spend)]
    rows += _rows(_ALL, [line for one in played.values() for line in one.report.spend])
    return rows, [_note(name, one) for name, one in played.items()]


def _rows(task: str, spend: Iterable[SpendLine]) -> list[Row]:
    by_purpose: dict[str, Usage] = {}
    for line in spend:
        if line.usage.turns:
            by_purpose[line.purpose] = by_purpose.get(line.purpose, Usage()) + line.usage
    return [_row(task, purpose, usage) for purpose, usage in by_purpose.items()]


def _row(task: str, purpose: str, usage: Usage) -> Row:
    return {
        "": task,
        "purpose": purpose,
        "turns": usage.turns,
        "input tokens": usage.input_tokens,
        "of them cached": usage.cached_input_tokens,
        "output tokens": usage.output_tokens,
        "US cents": round(float(usage.cost_usd) * 100, 2),
    }


def _note(name: str, played: Played) -> str:
    reserved = median(turn.reserved / turn.cost for turn in played.turns)
    needed = median(turn.needed / turn.cost for turn in played.turns)
    return (
        f"{name}: {played.report.stop_reason}, {len(played.pages)} pages read, "
        f"{sum(turn.must_answer for turn in played.turns)} forced answers, reserved {reserved:.1f} times the cost, "
        f"{needed:.1f} times of it without which a turn is not taken (medians)"
    )
