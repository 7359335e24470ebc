"""The settings of notifications, and the worker's parts."""

import asyncio
import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Final

from pydantic import SecretStr, field_validator

from activities.backends import Choice, Host, SettingsError, is_address, secret
from activities.contracts.session import SessionFacts
from chargehand.contracts import SessionRequest
from chargehand.contracts.base import Form
from chargehand.contracts.durations import UpToAWeek
from chargehand_plugins.notifications.channels import Mail, NotificationActivities
from chargehand_plugins.notifications.reminders import Addresses, names_of, steps_of
from chargehand_plugins.webhooks.settings import links_of
from worker.parts import WorkerParts
from worker.settings import PartSettings, Settings, settings_of

_ADDRESS: Final = re.compile(r"(?:slack|ntfy):(https?://[!->@-~]+)(?:\?[!-~]*)?|mailto:[!-~]+@[!-~]+")


class NotificationSettings(PartSettings):
    """The settings of notifications."""

    notify: Addresses = ()
    """Channels for waits for a person, as a JSON list: `slack:` or `ntfy:` with an address, `mailto:`."""
    notify_later: Addresses = ()
    """Additional channels if the wait lasts `CHARGEHAND_NOTIFY_LATER_AFTER`."""
    notify_later_after: UpToAWeek = timedelta(hours=1)
    """Delay before the additional channels are notified."""
    notify_again_every: UpToAWeek | None = None
    """Interval of up to three reminders to the first channels; none if absent."""
    notify_internal: frozenset[Host] = frozenset()
    """Hosts of channels that may be internal, as a JSON list of `name:port`."""
    smtp: SecretStr | None = None
    """The SMTP server, with STARTTLS: `smtp://user:password@host:587`."""
    smtp_from: Annotated[str, Form(r"^([!-~]+@[!-~]+)?$", "must be an e-mail address")] = "chargehand@localhost"
    """The sender of e-mail."""

    @field_validator("smtp")
    @classmethod
    def _is_server(cls, given: SecretStr | None) -> SecretStr | None:
        if secret(given) and not is_address(secret(given), {"smtp"}):
            raise ValueError("must be smtp://user:password@host:587, with special characters percent-encoded")
        return given

    @field_validator("notify", "notify_later")
    @classmethod
    def _are_addresses(cls, addresses: Addresses) -> Addresses:
        matches = [_ADDRESS.fullmatch(each.get_secret_value()) for each in addresses]
        if not all(match and (not match[1] or is_address(match[1], {"http", "https"})) for match in matches):
            raise ValueError("each must be slack:https://…, ntfy:https://… or mailto:name@host")
        return addresses


def _mail(settings: NotificationSettings) -> Mail | None:
    return Mail(secret(settings.smtp), settings.smtp_from) if secret(settings.smtp) else None


async def examine(settings: Settings, _: object) -> Sequence[Choice]:
    """Sign in to the mail server, as for an e-mail."""
    mail = _mail(settings_of(settings, NotificationSettings))
    return [Choice("e-mail", "smtp", "CHARGEHAND_SMTP is set", await asyncio.to_thread(mail.problem))] if mail else []


async def add_parts(parts: WorkerParts) -> None:
    """Notify the operator's channels of waits for people.

    Raises:
        SettingsError: an e-mail channel is set, but no SMTP server.
    """
    settings = settings_of(parts.settings, NotificationSettings)
    channels = names_of(settings.notify, "") | names_of(settings.notify_later, "later-")
    if not secret(settings.smtp) and any(address.startswith("mailto:") for address in channels.values()):
        raise SettingsError("CHARGEHAND_NOTIFY has a mailto: address, so CHARGEHAND_SMTP must be set.")
    mail = _mail(settings)
    later, again = settings.notify_later_after, settings.notify_again_every
    steps = steps_of(settings.notify, settings.notify_later, later, again)

    async def add_steps(request: SessionRequest, facts: SessionFacts) -> SessionFacts:
        return facts if request.delegation else facts.model_copy(update={"notices": steps})

    activities = NotificationActivities(channels, links_of(parts.settings), mail, settings.notify_internal)
    parts.opening_steps.append(add_steps)
    parts.activities.append(activities.send_notice)
