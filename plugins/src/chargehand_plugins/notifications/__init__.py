"""Notifications: people are told by Slack, e-mail or ntfy what a session waits for them to decide."""

from chargehand.plugins import Registry


def register(registry: Registry) -> None:
    """Add the channels of the operator; the workflow of webhooks sends what they are told."""
    names = ("NOTIFY", "NOTIFY_LATER", "NOTIFY_LATER_AFTER", "NOTIFY_AGAIN_EVERY", "NOTIFY_INTERNAL")
    variables = [f"CHARGEHAND_{name}" for name in (*names, "SMTP", "SMTP_FROM")]
    registry.settings(f"{__name__}.settings:NotificationSettings", *variables)
    registry.parts(f"{__name__}.settings:add_parts")
