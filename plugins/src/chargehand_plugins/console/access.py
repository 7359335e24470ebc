"""Authentication and rate limits: the token, signed-in browsers, and rates."""

import hashlib
import hmac
import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

_LINK_SECONDS: Final = 3_600
SIGNED_IN_SECONDS: Final = 12 * 3_600
_MOST_OVER: Final = 10_000
_MOST_CLIENTS: Final = 1_000

Clock = Callable[[], float]


class Access:
    """The API token, one-time links, and signed-in browsers.

    Links, cookies and form tokens are signed with a key derived from the token: they remain valid after a restart, and
    at every console with the same token. This process only remembers used links and signed-out cookies.
    """

    def __init__(self, token: str, clock: Clock = time.time) -> None:
        self._token = token.encode()
        self._clock = clock
        self._key = hmac.new(self._token, b"chargehand console", hashlib.sha256).digest()
        self._over: OrderedDict[str, None] = OrderedDict()
        """Used links and signed-out cookies."""

    def is_token(self, presented: str) -> bool:
        """Return whether a text is the token, comparing in constant time."""
        return hmac.compare_digest(presented.encode(), self._token)

    def make_link_code(self) -> str:
        """Create a code that signs in one browser within an hour."""
        return self._sign("link", _LINK_SECONDS)

    def take_link_code(self, code: str) -> bool:
        """Consume a code; False if it was used, has expired or never existed."""
        is_good = self._is_signed("link", code)
        if is_good:
            self._end(code)
        return is_good

    def sign_in(self) -> str:
        """Return the cookie for a browser that has presented the token or a code."""
        return self._sign("cookie", SIGNED_IN_SECONDS)

    def sign_out(self, cookie: str) -> None:
        """Invalidate a browser's cookie."""
        self._end(cookie)

    def is_signed_in(self, cookie: str) -> bool:
        """Whether a cookie was issued by `sign_in` in the last twelve hours."""
        return self._is_signed("cookie", cookie)

    def form_token(self, cookie: str) -> str:
        """Return a browser's form token, which no other page can know."""
        return self._signature("form", cookie)

    def is_form_token(self, cookie: str, presented: str) -> bool:
        """Whether a form token belongs to this browser."""
        return hmac.compare_digest(self.form_token(cookie).encode(), presented.encode())

    def _sign(self, kind: str, seconds: float) -> str:
        text = f"{self._clock() + seconds:.0f}.{secrets.token_urlsafe(12)}"
        return f"{text}.{self._signature(kind, text)}"

    def _is_signed(self, kind: str, signed: str) -> bool:
        text, _, signature = signed.rpartition(".")
        is_ours = hmac.compare_digest(self._signature(kind, text).encode(), signature.encode())
        return is_ours and int(text.partition(".")[0]) > self._clock() and digest(signed) not in self._over

    def _signature(self, kind: str, text: str) -> str:
        return hmac.new(self._key, f"{kind} {text}".encode(), hashlib.sha256).hexdigest()

    def _end(self, signed: str) -> None:
        self._over[digest(signed)] = None
        while len(self._over) > _MOST_OVER:
            self._over.popitem(last=False)


class Rates:
    """One token bucket per client: a burst of one minute's requests, then the rate."""

    def __init__(self, per_minute: int, clock: Clock = time.monotonic) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._clients: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_seconds(self, client: str) -> int:
        """Take one request from a client's bucket; 0 if available, otherwise the seconds until it is."""
        now = self._clock()
        left, at = self._clients.pop(client, (float(self._per_minute), now))
        left = min(self._per_minute, left + (now - at) * self._per_minute / 60)
        is_allowed = left >= 1
        self._clients[client] = (left - 1 if is_allowed else left, now)
        while len(self._clients) > _MOST_CLIENTS:
            self._clients.popitem(last=False)
        return 0 if is_allowed else math.ceil((1 - left) * 60 / self._per_minute)


def digest(text: str) -> str:
    """Identify a client in memory without storing its secret."""
    return hashlib.sha256(text.encode()).hexdigest()
