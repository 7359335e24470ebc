"""What is left of a provider's limits by the minute, as OpenAI's and Anthropic's replies say in their headers."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

_KINDS: Final = ("requests", "tokens")
_DURATION: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ms|h|m|s)")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0}


@dataclass
class Quota:
    """What is left of one limit, by the provider's last word; both fill theirs up steadily."""

    left: float
    a_second: float
    at: float

    def wait(self, needed: float, now: float) -> float:
        """Return the seconds until a call may take so much; not above 0 if it may now."""
        return (needed - self.left) / self.a_second - (now - self.at)


def quotas(headers: Mapping[str, str], now: float) -> dict[str, Quota]:
    """Read what is left of the limits by `requests` and by `tokens` of which some is used."""
    found: dict[str, Quota] = {}
    for kind in _KINDS:
        for words in ("x-ratelimit-{1}-{0}", "anthropic-ratelimit-{0}-{1}"):
            most, left, reset = (headers.get(words.format(kind, what), "") for what in ("limit", "remaining", "reset"))
            seconds = _seconds(reset) if most.isdecimal() and left.isdecimal() else None
            if seconds is not None and seconds > 0 and int(left) < int(most):
                found[kind] = Quota(int(left), (int(most) - int(left)) / seconds, now)
    return found


def _seconds(reset: str) -> float | None:
    """Read `6m0.5s` or an RFC 3339 time."""
    if parts := _DURATION.findall(reset[:40]):
        return sum(float(number) * _SECONDS[unit] for number, unit in parts)
    try:
        moment = datetime.fromisoformat(reset)
    except ValueError:
        return None
    return (moment - datetime.now(UTC)).total_seconds() if moment.tzinfo else None
