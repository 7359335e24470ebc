"""Webhooks: a request names an address to notify when its session ends or waits for a person."""

from chargehand.plugins import Hook, Registry


def register(registry: Registry) -> None:
    """Add the settings of webhooks, the workflow that calls one, and the hooks that start it."""
    names = ("WEBHOOK_HOSTS", "WEBHOOK_SECRET", "DECISION_KEY", "DECISION_URL")
    registry.settings(f"{__name__}.settings:WebhookSettings", *(f"CHARGEHAND_{name}" for name in names))
    registry.parts(f"{__name__}.settings:add_parts")
    registry.workflow(f"{__name__}.workflow:WebhookWorkflow")
    registry.hook(Hook.SESSION_ENDED, f"{__name__}.workflow:announce_end")
    registry.hook(Hook.WAIT, f"{__name__}.workflow:announce_wait")
