"""Run experiments: `python -m chaos [NAME …] [--scale full] [--seed 7] [--write docs/durability.md]`."""

import argparse
import asyncio
import json
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from typing import Final

from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter

from chaos.catalogue import ALONE, EXPERIMENTS
from chaos.page import enter, page
from chaos.result import Result, Scale

_LANES: Final = 3
"""Concurrent experiments, of those that mostly wait or tolerate interference."""


async def _run(name: str, scale: Scale, seed: int, folder: Path) -> Result:
    try:
        async with asyncio.timeout(2 * 3_600):
            return await EXPERIMENTS[name](scale, random.Random(f"{seed}/{name}"), folder)
    except Exception as error:  # noqa: BLE001  # one broken experiment must not hide the others
        traceback.print_exc()
        return Result(name, "", problems=[f"it broke off: {type(error).__name__}: {error}"])


def quiet() -> None:
    """Suppress the client's warnings about each call that it retries while the server is down on purpose."""
    logging = LoggingConfig(filter=TelemetryFilter(core_level="ERROR", other_level="ERROR"))
    Runtime.set_default(Runtime(telemetry=TelemetryConfig(logging=logging)))


def tell(name: str, result: Result) -> None:
    """Print a result."""
    verdict = "skipped" if result.skipped else "held" if not result.problems else "BROKEN"
    print(
        f"{verdict:8} {name}: {result.sessions} sessions, {result.lost} lost, {result.stuck} stuck, "
        f"{result.faults} faults, {result.extra_calls} extra calls, {result.seconds:.0f} s",
        flush=True,
    )
    for what, figure in result.figures.items():
        print(f"         {what}: {figure}", flush=True)
    for problem in result.problems[:10]:
        print(f"         ✘ {problem}", flush=True)


def main() -> int:
    """Run the requested experiments."""
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"experiments; all if none: {', '.join(EXPERIMENTS)}")
    parser.add_argument("--scale", choices=["short", "full", "nightly"], default="full")
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    parser.add_argument("--write", type=Path, help="enter the results into this page and the figures behind it")
    parser.add_argument("--keep", type=Path, help="keep what the experiments leave behind in this folder")
    chosen = parser.parse_args()
    unknown = set(chosen.names) - set(EXPERIMENTS)
    if unknown:
        parser.error(f"no such experiment: {', '.join(sorted(unknown))}")
    quiet()
    print(f"seed {chosen.seed}, scale {chosen.scale}", flush=True)
    return _all(chosen.names or list(EXPERIMENTS), chosen.scale, chosen.seed, chosen.keep, chosen.write)


def _all(names: Sequence[str], scale: Scale, seed: int, keep: Path | None, write: Path | None) -> int:
    with tempfile.TemporaryDirectory(prefix="chargehand-chaos-") as temporary:

        def run(name: str) -> tuple[str, Result]:
            folder = (keep or Path(temporary)) / name
            folder.mkdir(parents=True)
            return name, asyncio.run(_run(name, scale, seed, folder))

        def conclude(name: str, result: Result) -> bool:
            tell(name, result)
            if result.problems and not keep:
                _keep_failing(name, result, scale=scale, seed=seed, left=Path(temporary) / name)
            if write:
                enter(name, result, scale=scale, seed=seed)
                write.write_text(page(), encoding="utf-8")
            return not result.problems

        with ThreadPoolExecutor(_LANES) as lanes:
            together = [lanes.submit(run, name) for name in names if name not in ALONE]
            held = [conclude(*each.result()) for each in as_completed(together)]
        held += [conclude(*run(name)) for name in names if name in ALONE]
    return int(not all(held))


def _keep_failing(name: str, result: Result, *, scale: Scale, seed: int, left: Path) -> None:
    kept = Path(tempfile.mkdtemp(prefix=f"chargehand-chaos-{name}-"))
    shutil.move(left, kept / name)
    failing = {"name": name, "seed": seed, "scale": scale, "result": asdict(result)}
    (kept / "failing.json").write_text(json.dumps(failing, indent=2), encoding="utf-8")
    print(f"         what it left behind is in {kept}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
