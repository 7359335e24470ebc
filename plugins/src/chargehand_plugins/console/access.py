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
_MOST_BROWSERS: Final = 100
_MOST_CLIENTS: Final = 1_000

Clock = Callable[[], float]


class Access:
    """The token of the API, one-time links, and the browsers that are signed in."""

    def __init__(self, token: str, clock: Clock = time.monotonic) -> None:
        self._token = token.encode()
        self._clock = clock
        self._secret = secrets.token_bytes(32)
        self._links: dict[str, float] = {}
        self._browsers: OrderedDict[str, float] = OrderedDict()

    def is_token(self, presented: str) -> bool:
        """Return whether this is the token, in constant time."""
        return hmac.compare_digest(presented.encode(), self._token)

    def make_link_code(self) -> str:
        """Make a code that signs one browser in within an hour."""
        code = secrets.token_urlsafe(24)
        self._links[digest(code)] = self._clock() + _LINK_SECONDS
        return code

    def take_link_code(self, code: str) -> bool:
        """Use a code up; False if it was used, has expired or never existed."""
        return self._links.pop(digest(code), 0.0) > self._clock()

    def sign_in(self) -> str:
        """Return the cookie of a browser that has shown the token or a code."""
        cookie = secrets.token_urlsafe(32)
        self._browsers[digest(cookie)] = self._clock() + _SIGNED_IN_SECONDS
        while len(self._browsers) > _MOST_BROWSERS:
            self._browsers.popitem(last=False)
        return cookie

    def sign_out(self, cookie: str) -> None:
        """Forget a browser."""
        self._browsers.pop(digest(cookie), None)

    def is_signed_in(self, cookie: str) -> bool:
        """Return whether a cookie is one that `sign_in` returned in the last twelve hours."""
        return self._browsers.get(digest(cookie), 0.0) > self._clock()

    def form_token(self, cookie: str) -> str:
        """Return what the forms of a browser carry, which no other page can know."""
        return hmac.new(self._secret, cookie.encode(), hashlib.sha256).hexdigest()

    def is_form_token(self, cookie: str, presented: str) -> bool:
        """Return whether a form was made for this browser."""
        return hmac.compare_digest(self.form_token(cookie).encode(), presented.encode())


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
