"""The part of `doctor` that writes wherever a worker would write, and searches as an agent would."""

import asyncio
import hashlib
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

from temporalio.api.common.v1 import Payload

from activities.backends import Choice, SettingsError
from activities.documents.registry import artifact_store, document_library, require_writable
from activities.tools.search.registry import search_backend
from chargehand.bucket import Directory, artifact_key, bucket_location, open_bucket
from chargehand.errors import ChargehandError
from chargehand.payloads.settings import storage_from
from chargehand.payloads.storage import READ_BY_CLIENTS
from worker.composition import encryption
from worker.settings import Settings

_PROBE: Final = b"Written by `chargehand doctor`."
"""The same in each run, so that only one copy is stored."""
_SEARCH_SECONDS: Final = 10


async def examine(settings: Settings, _: object) -> Sequence[Choice]:
    """Write to each place that the settings name."""
    storage = settings.storage if settings.storage != "off" else None
    places: tuple[tuple[str, object, str, Callable[[Settings], None]], ...] = (
        ("state directory", settings.state_dir, "STATE_DIR", _write_state),
        ("documents' store", settings.artifacts, "ARTIFACTS", _write_artifact),
        ("large payloads", storage, "STORAGE", _write_payload),
        ("health file", settings.health_file, "HEALTH_FILE", _write_health_file),
    )
    named = [(name, place, f"CHARGEHAND_{setting}", write) for name, place, setting, write in places if place]
    problems = await asyncio.gather(*(asyncio.to_thread(_problem, settings, *each[2:]) for each in named))
    return [
        Choice(name, str(place), f"{setting}; a trial write {'failed' if problem else 'succeeded'}", problem)
        for (name, place, setting, _), problem in zip(named, problems, strict=True)
        if problem or place is not settings.state_dir  # which `doctor` lists in any case
    ]


async def try_search(settings: Settings, choice: Choice) -> Choice:
    """Search once as an agent would, if searches leave the installation."""
    async with AsyncExitStack() as closing:
        library = document_library(settings, artifact_store(settings, encryption(settings)))
        backend = search_backend().builder(settings, choice.adapter)(settings, library, closing)
        if not backend.reaches_out:
            return choice
        try:
            async with asyncio.timeout(_SEARCH_SECONDS):
                await backend.search("chargehand", 1, ())
        except TimeoutError:
            return replace(choice, problem=f"no answer within {_SEARCH_SECONDS} s; check its address and the network")
        except Exception as error:  # noqa: BLE001  # any exception of a plug-in's service is a finding
            reason = getattr(error, "message", repr(error))
            return replace(choice, problem=f"{reason}; check its address, its key and the network")
    return replace(choice, why=f"{choice.why}; a trial search succeeded")


def _problem(settings: Settings, setting: str, write: Callable[[Settings], None]) -> str:
    try:
        write(settings)
    except OSError as error:
        return f"nothing can be written there: {error.strerror}. Name a place that this user may write to"
    except ChargehandError as error:
        return str(error).removeprefix(f"{setting}: ")
    return ""


def _write_state(settings: Settings) -> None:
    """Write to the folder, or to its nearest existing parent, in which a worker would create it."""
    folder = settings.state_dir.absolute()
    while not folder.exists():
        folder = folder.parent
    require_writable(folder)


def _write_artifact(settings: Settings) -> None:
    location = bucket_location(settings.artifacts)
    store = open_bucket(location) if location else Directory(Path(settings.artifacts or ""))
    store.put(artifact_key(hashlib.sha256(_PROBE).hexdigest()), _PROBE)


def _write_payload(settings: Settings) -> None:
    storage = storage_from(settings.storage, "doctor")
    if storage:
        asyncio.run(storage.driver.store(READ_BY_CLIENTS, [Payload(data=_PROBE)]))


def _write_health_file(settings: Settings) -> None:
    """Write next to the file, which a running worker may be touching."""
    path = settings.health_file or Path()
    if path.is_dir():
        raise SettingsError("it is a folder; name a file in it")
    with tempfile.TemporaryFile(dir=path.parent):
        pass
