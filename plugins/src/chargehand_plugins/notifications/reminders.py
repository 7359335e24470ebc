"""When the channels are told of a wait, and reminded of it."""

from datetime import timedelta
from typing import Final

from pydantic import SecretStr

from activities.contracts.session import NoticeStep

_REMINDERS: Final = 3
Addresses = tuple[SecretStr, ...]


def steps_of(
    notify: Addresses, notify_later: Addresses, later_after: timedelta, again_every: timedelta | None
) -> tuple[NoticeStep, ...]:
    """List the notifications of a wait with their delays."""
    first = names_of(notify, "")
    reminders = [number * again_every for number in range(1, _REMINDERS + 1)] if again_every else []
    return (
        *(NoticeStep(channel=name, after=after) for after in (timedelta(0), *reminders) for name in first),
        *(NoticeStep(channel=name, after=later_after) for name in names_of(notify_later, "later-")),
    )


def names_of(addresses: Addresses, prefix: str) -> dict[str, str]:
    """Name channels for histories and reports without secrets: by kind and number, or e-mail address."""
    return {
        (text if text.startswith("mailto:") else f"{prefix}{text.partition(':')[0]}-{number}"): text
        for number, text in enumerate((each.get_secret_value() for each in addresses), start=1)
    }
