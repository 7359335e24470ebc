"""What the plug-in adds to a worker of a test."""

from collections.abc import Callable, Coroutine
from typing import Any

from chargehand_plugins.tenants.file import Tenants
from chargehand_plugins.tenants.settings import add_ledgers
from chargehand_plugins.tenants.usage import TenantLimits
from worker.parts import WorkerParts


def allowing(**limits: TenantLimits) -> Callable[[WorkerParts], Coroutine[Any, Any, None]]:
    """Add the ledgers of tenants, which have these limits by their names."""

    async def add(parts: WorkerParts) -> None:
        add_ledgers(parts, Tenants(tenants=limits))

    return add
