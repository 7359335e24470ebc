"""Webhooks: a request names an address that is told when its session ends."""

from chargehand.plugins import Hook, Registry


def register(registry: Registry) -> None:
    """Add the settings of webhooks, the workflow that calls one, and its start when a session ends."""
    registry.settings(f"{__name__}.settings:WebhookSettings", "CHARGEHAND_WEBHOOK_HOSTS", "CHARGEHAND_WEBHOOK_SECRET")
    registry.parts(f"{__name__}.settings:add_parts")
    registry.workflow(f"{__name__}.workflow:WebhookWorkflow")
    registry.hook(Hook.SESSION_ENDED, f"{__name__}.workflow:announce_end")
