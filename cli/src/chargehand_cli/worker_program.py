"""Have the application's own program check something: this package knows no workflows and opens no documents."""

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from chargehand.errors import NotReachable
from chargehand_cli.location import Place, application_command
from chargehand_cli.request_options import BadRequest

Checked = dict[str, Any]
"""What is said of one thing; `problem` is empty if nothing is wrong with it."""


def require_application(place: Place) -> Path:
    """Say where the application is.

    Raises:
        NotReachable: there is none here.
    """
    if place.application is None:
        raise NotReachable(
            "There is no checkout of Chargehand here whose program could do this. Name one: --application DIR or "
            "CHARGEHAND_APPLICATION."
        )
    return place.application


async def check(
    place: Place,
    option: str,
    file: Path,
    settings: dict[str, str],
    *,
    show: Callable[[Checked], None] | None,
) -> list[Checked]:
    """Run `worker_main.py OPTION FILE`, and show what it says of each thing as it says it.

    Raises:
        NotReachable: there is no application here.
        BadRequest: the file or the worker's settings cannot be used.
    """
    application = require_application(place)
    process = await asyncio.create_subprocess_exec(
        *application_command(application, option, str(file)),
        cwd=application,
        env=os.environ | worker_settings(place) | settings,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout, "it is a pipe"
    assert process.stderr, "it is a pipe"
    failing = asyncio.create_task(process.stderr.read())
    results: list[Checked] = []
    try:
        async for line in process.stdout:
            results.append(cast("Checked", json.loads(line)))
            if show:
                show(results[-1])
    except BaseException:
        process.terminate()
        raise
    finally:
        await process.wait()
    said = (await failing).decode(errors="replace").strip()
    if process.returncode != (1 if any(each["problem"] for each in results) else 0):
        raise BadRequest(f"{said[-2_000:]} ({option[2:]}: the program ended with code {process.returncode})".lstrip())
    return results


def worker_settings(place: Place) -> dict[str, str]:
    """Say where the worker's files are, as far as it is known here."""
    if place.worker:
        return {**place.worker.environment}
    shared = {"CHARGEHAND_ARTIFACTS": str(place.artifacts)} if place.artifacts else {}
    return {"CHARGEHAND_STATE_DIR": str(place.state), **shared}
