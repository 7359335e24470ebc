"""The settings of notifications, and what a worker is made of with them."""

import re
from datetime import timedelta
from typing import Annotated, Final

from pydantic import Field, SecretStr, field_validator

from activities.backends import SettingsError, secret
from activities.contracts.session import NoticeStep, SessionFacts
from chargehand.contracts import SessionRequest
from chargehand.contracts.limits import UpToAWeek
from chargehand_plugins.notifications.channels import Mail, NotificationActivities
from chargehand_plugins.webhooks.settings import links_of
from worker.parts import WorkerParts
from worker.settings import PartSettings, settings_of

_ADDRESS: Final = re.compile(r"((slack|ntfy):https?://[!-~]+|mailto:[!-~]+@[!-~]+)")
_REMINDERS: Final = 3

Addresses = tuple[SecretStr, ...]


class NotificationSettings(PartSettings):
    """The settings of notifications."""

    notify: Addresses = ()
    """Whom to tell when a session waits for a person, as a JSON list: `slack:` or `ntfy:` and an address, `mailto:`."""
    notify_later: Addresses = ()
    """Whom to tell, too, if the wait goes on for `CHARGEHAND_NOTIFY_LATER_AFTER`."""
    notify_later_after: UpToAWeek = timedelta(hours=1)
    """When a wait is told to the second addresses."""
    notify_again_every: UpToAWeek | None = None
    """How often the first addresses are reminded, three times at most; never if absent."""
    notify_internal: frozenset[str] = frozenset()
    """Hosts of channels, as a JSON list of `name:port`, which may be internal."""
    smtp: SecretStr | None = None
    """The server that takes e-mail, with STARTTLS: `smtp://user:password@host:587`."""
    smtp_from: Annotated[str, Field(pattern=r"^[!-~]*$")] = "chargehand@localhost"
    """The sender of e-mail."""

    @field_validator("notify", "notify_later")
    @classmethod
    def _are_addresses(cls, addresses: Addresses) -> Addresses:
        if not all(_ADDRESS.fullmatch(each.get_secret_value()) for each in addresses):
            raise ValueError("each must be slack:https://…, ntfy:https://… or mailto:name@host")
        return addresses


def steps_of(settings: NotificationSettings) -> tuple[NoticeStep, ...]:
    """List whom to tell of a wait, and after what time."""
    first = names_of(settings.notify, "")
    later = names_of(settings.notify_later, "later-")
    again = settings.notify_again_every
    reminders = [number * again for number in range(1, _REMINDERS + 1)] if again else []
    return (
        *(NoticeStep(channel=name, after=after) for after in (timedelta(0), *reminders) for name in first),
        *(NoticeStep(channel=name, after=settings.notify_later_after) for name in later),
    )


def names_of(addresses: Addresses, prefix: str) -> dict[str, str]:
    """Name addresses for histories and reports, which keep no secrets: by kind and number, e-mail by its address."""
    texts = [each.get_secret_value() for each in addresses]
    return {
        (text if text.startswith("mailto:") else f"{prefix}{text.partition(':')[0]}-{number}"): text
        for number, text in enumerate(texts, start=1)
    }


async def add_parts(parts: WorkerParts) -> None:
    """Tell the operator's channels of waits for people.

    Raises:
        SettingsError: e-mail is to be sent, and no server is set.
    """
    settings = settings_of(parts.settings, NotificationSettings)
    channels = names_of(settings.notify, "") | names_of(settings.notify_later, "later-")
    if settings.smtp is None and any(address.startswith("mailto:") for address in channels.values()):
        raise SettingsError("CHARGEHAND_NOTIFY has a mailto: address, so CHARGEHAND_SMTP must be set.")
    mail = Mail(secret(settings.smtp), settings.smtp_from) if settings.smtp else None
    steps = steps_of(settings)

    async def add_steps(request: SessionRequest, facts: SessionFacts) -> SessionFacts:
        return facts if request.delegation else facts.model_copy(update={"notices": steps})

    activities = NotificationActivities(channels, links_of(parts.settings), mail, settings.notify_internal)
    parts.opening_steps.append(add_steps)
    parts.activities.append(activities.send_notice)
