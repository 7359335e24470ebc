"""Tenants: limits over all sessions of a tenant, enforced by a durable ledger."""

from chargehand.plugins import Hook, Registry


def register(registry: Registry) -> None:
    """Add the file of tenants, their ledgers, and the verb that lists their usage."""
    registry.settings(f"{__name__}.settings:TenantSettings", "CHARGEHAND_TENANTS")
    registry.choices(f"{__name__}.settings:choose")
    registry.parts(f"{__name__}.settings:add_parts")
    registry.workflow(
        f"{__name__}.workflow:TenantWorkflow", with_versioning=f"{__name__}.workflow:UpgradingTenantWorkflow"
    )
    registry.hook(Hook.WORKER_START, f"{__name__}.settings:announce_limits")
    registry.verbs("Operate", f"{__name__}.verbs:app")
