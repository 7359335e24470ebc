"""Routes of crews, which replace a plan, and backups of agents whose task queue is slow."""

from chargehand.plugins import Hook, Registry


def register(registry: Registry) -> None:
    registry.hook(Hook.ROUTE, f"{__name__}.route:route")
    registry.hook(Hook.BACKUP, f"{__name__}.route:around_backlog")
