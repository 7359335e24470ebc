"""The setting of tenants, and the worker's parts."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from temporalio.client import Client
from temporalio.service import RPCError

from activities.backends import Choice
from activities.documents.registry import effect_record
from chargehand.record import Record
from chargehand_plugins.tenants.activities import Ledgers, TenantActivities
from chargehand_plugins.tenants.file import Tenants, load_tenants
from worker.composition import encryption
from worker.parts import WorkerParts
from worker.settings import PartSettings, Settings, settings_of


class TenantSettings(PartSettings):
    """The setting of tenants."""

    tenants: Path | None = None
    """A TOML file with the limits of tenants."""


def choose(settings: Settings) -> Sequence[Choice]:
    """Validate the file of tenants for `doctor`. Raises `SettingsError` if it is missing or invalid."""
    load_tenants(_file(settings))
    return ()


async def add_parts(parts: WorkerParts) -> None:
    """Admit sessions within their tenants' limits, and refuse those of unknown tenants."""
    add_ledgers(parts, load_tenants(_file(parts.settings)))


def add_ledgers(parts: WorkerParts, tenants: Tenants) -> None:
    record = _record(parts.settings)
    ledgers, looking = Ledgers(tenants, parts.settings.task_queue, record), TenantActivities(record)
    parts.request_checks.append(ledgers.check)
    parts.opening_steps.append(ledgers.admit)
    parts.activities.extend((looking.find_ended, looking.count_spent))


async def announce_limits(client: Client, settings: Settings) -> None:
    """Send the file's limits, if any, to running ledgers; new sessions pass them too."""
    file = _file(settings)
    if file is not None:
        with suppress(RPCError):
            await Ledgers(load_tenants(file), settings.task_queue, _record(settings)).announce_limits(client)


def _record(settings: Settings) -> Record:
    return effect_record(settings, encryption(settings))


def _file(settings: Settings) -> Path | None:
    return settings_of(settings, TenantSettings).tenants
