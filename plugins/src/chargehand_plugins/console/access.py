"""Who a client is, and how often it may ask: the token, browsers that are signed in, and rates."""

import hashlib
import hmac
import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

_LINK_SECONDS: Final = 3_600
_SIGNED_IN_SECONDS: Final = 12 * 3_600
_MOST_OVER: Final = 10_000
_MOST_CLIENTS: Final = 1_000

Clock = Callable[[], float]


class Access:
    """The token of the API, one-time links, and the browsers that are signed in.

    Links, cookies and form tokens are signed with a key that is made of the token: they are good after a restart, and
    at each console with the same token. Only what was used up or signed out is remembered, by this process.
    """

    def __init__(self, token: str, clock: Clock = time.time) -> None:
        self._token = token.encode()
        self._clock = clock
        self._key = hmac.new(self._token, b"chargehand console", hashlib.sha256).digest()
        self._over: OrderedDict[str, None] = OrderedDict()
        """Links that were used, and cookies that were signed out."""

    def is_token(self, presented: str) -> bool:
        """Return whether this is the token, in constant time."""
        return hmac.compare_digest(presented.encode(), self._token)

    def make_link_code(self) -> str:
        """Make a code that signs one browser in within an hour."""
        return self._signed("link", _LINK_SECONDS)

    def take_link_code(self, code: str) -> bool:
        """Use a code up; False if it was used, has expired or never existed."""
        is_good = self._is_signed("link", code)
        if is_good:
            self._end(code)
        return is_good

    def sign_in(self) -> str:
        """Return the cookie of a browser that has shown the token or a code."""
        return self._signed("cookie", _SIGNED_IN_SECONDS)

    def sign_out(self, cookie: str) -> None:
        """Forget a browser."""
        self._end(cookie)

    def is_signed_in(self, cookie: str) -> bool:
        """Return whether a cookie is one that `sign_in` returned in the last twelve hours."""
        return self._is_signed("cookie", cookie)

    def form_token(self, cookie: str) -> str:
        """Return what the forms of a browser carry, which no other page can know."""
        return self._signature("form", cookie)

    def is_form_token(self, cookie: str, presented: str) -> bool:
        """Return whether a form was made for this browser."""
        return hmac.compare_digest(self.form_token(cookie).encode(), presented.encode())

    def _signed(self, kind: str, seconds: float) -> str:
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
    """A token bucket for each client: a full minute at once, then at the rate."""

    def __init__(self, per_minute: int, clock: Clock = time.monotonic) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._clients: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_seconds(self, client: str) -> int:
        """Take one request from a client's bucket; 0 if there was one, or else the seconds until there is."""
        now = self._clock()
        left, at = self._clients.pop(client, (float(self._per_minute), now))
        left = min(self._per_minute, left + (now - at) * self._per_minute / 60)
        is_allowed = left >= 1
        self._clients[client] = (left - 1 if is_allowed else left, now)
        while len(self._clients) > _MOST_CLIENTS:
            self._clients.popitem(last=False)
        return 0 if is_allowed else math.ceil((1 - left) * 60 / self._per_minute)


def digest(text: str) -> str:
    """Name a client in memory without keeping its secret."""
    return hashlib.sha256(text.encode()).hexdigest()
