"""What the record of effects costs: entries written to and read from a directory, beside the bare write."""

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from benchmarks.tables import Row
from chargehand.contracts import Usage
from chargehand.record import Activity, CallBegun, CallEnded, Charge, Record
from chargehand.tools import ToolAnswer

_REPETITIONS: Final = 300


async def record() -> tuple[Sequence[Row], Sequence[str]]:
    """Write and read the entries of acting calls and of model calls, each under a key of its own."""
    with tempfile.TemporaryDirectory(prefix="chargehand-bench-") as name:
        kept, at, bare = Record(name), datetime.now(UTC), Path(name) / "bare"
        calls = [
            CallBegun(
                session="s", agent="clerk", tool="refund", arguments={"order": n}, key=f"k{n}", attempt="a", at=at
            )
            for n in range(_REPETITIONS)
        ]
        ended = CallEnded(answer=ToolAnswer(output={"text": "Refunded."}), at=at)
        model = {"agent": "clerk", "model": "m", "purpose": "work", "usage": Usage(turns=1), "session": "s"}
        charges = [
            Charge.model_validate(model | Activity("s", "r", f"t{n}")._asdict() | {"scheduled_at": at, "attempt": 1})
            for n in range(_REPETITIONS)
        ]
        text = calls[0].model_dump_json().encode()
        rows = [
            _row("intent of an acting call", lambda n: kept.begin_call(calls[n])),
            _row("result of an acting call", lambda n: kept.end_call(calls[n], ended)),
            _row("lookup of a recorded call", lambda n: kept.last_call("s", f"k{n}")),
            _row("lookup of an unknown call", lambda n: kept.last_call("s", f"unknown-{n}")),
            _row("charge of a model call", lambda n: kept.add_charge(charges[n])),
            _row("bare: one file of an intent's size, flushed", lambda n: _write(bare.with_suffix(f".{n}"), text)),
        ]
    return rows, [
        "An acting call writes an intent and a result, a model call a charge. In a bucket, each is one request."
    ]


def _write(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _row(what: str, act: Callable[[int], object]) -> Row:
    times: list[float] = []
    for number in range(_REPETITIONS):
        began = time.perf_counter()
        act(number)
        times.append((time.perf_counter() - began) * 1_000)
    p99 = statistics.quantiles(times, n=100)[-1]
    return {"": what, "median, ms": statistics.median(times), "p99, ms": p99, "most, ms": max(times)}
