"""Notifications by Slack, e-mail or ntfy about decisions that sessions wait for."""

from chargehand.plugins import Registry


def register(registry: Registry) -> None:
    """Add the operator's channels, which the webhook workflow notifies."""
    names = ("NOTIFY", "NOTIFY_LATER", "NOTIFY_LATER_AFTER", "NOTIFY_AGAIN_EVERY", "NOTIFY_INTERNAL")
    variables = [f"CHARGEHAND_{name}" for name in (*names, "SMTP", "SMTP_FROM")]
    registry.settings(f"{__name__}.settings:NotificationSettings", *variables)
    registry.examinations(f"{__name__}.settings:examine", at_start=True)
    registry.parts(f"{__name__}.settings:add_parts")
