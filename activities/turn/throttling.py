"""Adaptive limit on a model's concurrent calls in this worker, learned from throttled and failed calls.

A throttled call waits as long as the provider requests; other calls continue, but fewer at a time. Only when most calls
fail are they reduced to one probe at a time.
"""

import asyncio
import math
import re
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from activities.contracts.cards import ModelCard
from activities.metrics import BREAKER_OPENINGS, MODELS, PROVIDER_ERRORS, count_in_activity
from activities.models.failures import ProviderError, ProviderFault
from activities.turn.retry_policy import Pause, pause_after
from chargehand.wire import ErrorType

_DURATION: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ms|h|m|s)")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0}


@dataclass
class Quota:
    """The remaining quota of one limit, as last reported by the provider; it refills steadily."""

    left: float
    a_second: float
    at: float

    def wait(self, needed: float, now: float) -> float:
        """Return the seconds until a call may use an amount; at most 0 if it may now."""
        return (needed - self.left) / self.a_second - (now - self.at)


def quotas(headers: Mapping[str, str], now: float) -> dict[str, Quota]:
    """Parse the remaining quotas of `requests` and `tokens` from a reply's headers, if partly used."""
    quota_by_kind: dict[str, Quota] = {}
    for kind in ("requests", "tokens"):
        for words in ("x-ratelimit-{1}-{0}", "anthropic-ratelimit-{0}-{1}"):
            most, left, reset = (headers.get(words.format(kind, what), "") for what in ("limit", "remaining", "reset"))
            seconds = _seconds(reset) if most.isdecimal() and left.isdecimal() else None
            if seconds is not None and seconds > 0 and int(left) < int(most):
                quota_by_kind[kind] = Quota(int(left), (int(most) - int(left)) / seconds, now)
    return quota_by_kind


def _seconds(reset: str) -> float | None:
    """Read `6m0.5s` or an RFC 3339 time."""
    if parts := _DURATION.findall(reset[:40]):
        return sum(float(number) * _SECONDS[unit] for number, unit in parts)
    try:
        moment = datetime.fromisoformat(reset)
    except ValueError:
        return None
    return (moment - datetime.now(UTC)).total_seconds() if moment.tzinfo else None


_DECREASE: Final = 0.7
_FIRST_STEP, _LAST_STEP = 0.15, 8.0
"""Growth of the limit per judged group of calls; doubles each time."""
_NEAR: Final = 0.9
"""Share of the limit at which too many calls were refused; below it, the limit grows with each answer."""
_JUDGED: Final = 20
"""Minimum number of finished calls judged together."""
_TARGET: Final = 0.05
"""Acceptable share of refused calls."""
_MOST_CHANCE: Final = 0.3
"""Maximum share of refusals attributed to chance."""
_NO_BETTER: Final = 0.5
"""If the refusal rate stays above this fraction of the previous one, a lower limit did not help."""
_ROW, _LONG_ROW = 3, 4
_PROVEN: Final = 0.8
"""Fraction of concurrent calls whose acceptance proves that the current limit is acceptable."""
_UNLIMITED: Final = 256
"""Above this limit, calls are not limited."""
_SPACED: Final = 8.0
"""Below this limit, fractions of a call are realised by spacing calls."""


@dataclass
class Concurrency:
    """The concurrent calls and their limit, learned from which calls the provider throttles.

    The limit grows in steps. It shrinks to a fraction of the concurrent calls, never below what was just accepted, if
    calls are refused because there are too many: several in a row, or fewer refusals at lower concurrency. If calls are
    refused at random, at any concurrency, only those calls wait.
    """

    now: Callable[[], float] = time.monotonic
    begun: int = field(default=0, init=False)
    """Number of calls so far, which also numbers each call."""
    _limit: float = field(default=math.inf, init=False)
    _refused_at: float = field(default=math.inf, init=False)
    """The limit at which too many calls were refused."""
    _step: float = field(default=_FIRST_STEP, init=False)
    _open: dict[int, float] = field(default_factory=dict[int, float], init=False)
    """Start times of running calls by number, in order."""
    _took: float = field(default=0.0, init=False)
    _refused: deque[int] = field(default_factory=lambda: deque[int](maxlen=2 * _LONG_ROW), init=False)
    _by_chance: float = field(default=0.0, init=False)
    """Share of calls refused regardless of concurrency."""
    _before: tuple[float, float] | None = field(default=None, init=False)
    """Refusal rate and limit before a trial reduction."""
    _judged_from: int = field(default=0, init=False)
    """Number of the first call under the current limit."""
    _answers: int = field(default=0, init=False)
    _refusals: int = field(default=0, init=False)
    _most_open: int = field(default=0, init=False)
    _accepted: int = field(default=0, init=False)

    @property
    def calls(self) -> int:
        """Number of running calls."""
        return len(self._open)

    @property
    def wait(self) -> float:
        """Seconds until one more call may start, if none ends before; at most 0 if it may start now."""
        if self.calls + 1 <= self._limit:
            return 0.0
        if self.calls < self._limit < _SPACED and self._took:
            return max(self._open.values(), default=0.0) + self._took / self._limit - self.now()
        return math.inf

    def begin(self) -> int:
        """Count a call; return its number."""
        self.begun += 1
        self._open[self.begun] = self.now()
        self._most_open = max(self._most_open, self.calls)
        return self.begun

    def end(self, call: int) -> None:
        """Record the end of a call that says nothing about the limit."""
        self._open.pop(call, None)

    def answer(self, call: int) -> None:
        """Record that a call was answered."""
        took = self.now() - self._open.pop(call)
        self._took += (took - self._took) * (0.1 if self._took else 1.0)
        if call > self._judged_from:
            self._answers += 1
            if self._limit < _NEAR * self._refused_at:
                self._limit = min(self._limit + 1, _NEAR * self._refused_at)
        self._judge()

    def refuse(self, call: int) -> bool:
        """Record that a call was throttled; return whether earlier ones were too, so that no call is accepted now."""
        accepted = sum(other < call for other in self._open)
        calls = self.calls
        del self._open[call]
        self._refused.append(call)
        row = next(length for length in range(1, len(self._refused) + 2) if call - length not in self._refused)
        if call > self._judged_from:
            self._refusals += 1
            self._accepted = max(self._accepted, accepted)
            if row >= _ROW and _PROVEN * min(self._limit, calls) <= accepted < self._limit < math.inf:
                self._lower(accepted, self._limit)
                self._judge_anew(None)
                return False
        if row >= _LONG_ROW:
            self._by_chance, self._before = 0.0, None
        self._judge()
        return row >= _LONG_ROW

    def _lower(self, limit: float, refused_at: float) -> None:
        self._limit, self._refused_at, self._step = min(self._limit, limit), refused_at, _FIRST_STEP

    def _judge(self) -> None:
        ended = self._answers + self._refusals
        share = self._refusals / ended if ended else 0.0
        if ended < (_JUDGED if share > _MOST_CHANCE else max(_JUDGED, min(self._limit, _UNLIMITED))):
            return
        if self._before and share > _NO_BETTER * self._before[0]:
            self._by_chance = max(self._by_chance, min(share, _MOST_CHANCE))
            self._limit, self._refused_at = max(self._limit, self._before[1]), math.inf
        before: tuple[float, float] | None = None
        if share > max(_TARGET, 2 * self._by_chance):
            calls = min(self._limit, self._most_open)
            before = (share, min(self._limit, _UNLIMITED)) if share < _MOST_CHANCE else None
            self._lower(max(self._accepted, _DECREASE * calls, 1.0), calls)
        else:
            self._by_chance *= 0.98
            self._grow()
        self._judge_anew(before, may_be_earlier=share <= _TARGET)

    def _grow(self) -> None:
        if self._limit < math.inf and (self._by_chance or not self._refusals):
            self._limit += self._step * max(1.0, self._limit / _JUDGED)
            self._step = min(2 * self._step, _LAST_STEP)
            if self._limit >= _UNLIMITED:
                self._limit = self._refused_at = math.inf

    def _judge_anew(self, before: tuple[float, float] | None, *, may_be_earlier: bool = False) -> None:
        self._before, self._most_open, self._accepted = before, self.calls, 0
        self._answers = self._refusals = 0
        if not may_be_earlier:
            self._judged_from = self.begun


_REMEMBERED: Final = 20
"""Number of most recent results from which a breaker judges whether most calls fail."""
_LEAST_FAILURES: Final = 3
_MOST_FAIL: Final = 0.6
_LONGEST_WAIT: Final = 20.0
"""Maximum seconds that an attempt waits for admission; a later attempt waits again."""
_TO_REPORT: Final = 1.0
"""In these last seconds of its time, an attempt reports earlier failures instead of waiting."""


@dataclass
class Breaker:
    """Decides whether and when a model may be called."""

    card: ModelCard
    pause: Pause = pause_after
    """Duration of the nth opening, unless the provider specifies one."""
    now: Callable[[], float] = time.monotonic
    concurrency: Concurrency = field(init=False)
    _ends: deque[bool] = field(default_factory=lambda: deque[bool](maxlen=_REMEMBERED), init=False)
    """Whether each of the latest calls failed, not counting throttled ones."""
    _opened_until: float = field(default=-math.inf, init=False)
    _openings: int = field(default=0, init=False)
    """Consecutive openings since the last answer, each longer than the previous."""
    _last: ProviderError | None = field(default=None, init=False)
    _waiting: deque[tuple[asyncio.Future[int], int]] = field(
        default_factory=deque[tuple[asyncio.Future[int], int]], init=False
    )
    _quotas: dict[str, Quota] = field(default_factory=dict[str, Quota], init=False)
    _alarm: asyncio.TimerHandle | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.concurrency = Concurrency(self.now)

    @property
    def left(self) -> float:
        """Seconds until it closes; at most 0 if it only limits the number of calls."""
        return self._opened_until - self.now()

    def wait(self, tokens: int = 0) -> float:
        """Return the seconds until a call of this size may be made, if none ends before; at most 0 if now."""
        if self.left > 0:
            return self.left
        if self._openings and self.concurrency.calls:
            return math.inf
        needed = {"requests": 1, "tokens": tokens}
        waits = (quota.wait(needed[kind], self.now()) for kind, quota in self._quotas.items())
        return max(self.concurrency.wait, *waits, 0.0)

    def refusal(self) -> ProviderError:
        """Build the error for a call that is not made: its session waits and pays nothing."""
        model = f"{self.card.provider}'s {self.card.name}"
        if self._last is None:
            fault = ProviderFault(provider=self.card.provider)
            message, kind = f"Waiting for {model}: its rate limit is used up", ErrorType.RATE_LIMITED
        else:
            fault, kind = self._last.fault.replace(possibly_billed=False), self._last.kind
            message = f"Waiting for {model}; its last error: {self._last.message}"
        return ProviderError(message, fault, kind, retry_after=timedelta(seconds=max(self.left, 1.0)))

    def take_place(self, tokens: int = 0) -> int | None:
        """Take a place for a call if one is free and no other call waits; `call` returns it."""
        return None if self._waiting or self.wait(tokens) > 0 else self._begin(tokens)

    async def admit(self, tokens: int = 0, most_seconds: float = math.inf) -> int | None:
        """Wait for a place in order of arrival; None if that would take too long."""
        most = min(most_seconds - _TO_REPORT, _LONGEST_WAIT)
        if most <= 0 and self._last is not None:
            return None
        place = self.take_place(tokens)
        if place is not None or max(self.left, 0.0) > most:
            return place
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((turn, tokens))
        self._let_in()
        try:
            async with asyncio.timeout(most):
                return await turn
        except TimeoutError:
            return None
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_back(turn.result())
            raise
        finally:
            if (turn, tokens) in self._waiting:
                self._waiting.remove((turn, tokens))

    def note_quotas(self, headers: Mapping[str, str], place: int, tokens: int) -> None:
        """Update the quotas from a reply's headers, which count calls up to that one."""
        later = self.concurrency.begun - place
        for kind, quota in quotas(headers, self.now()).items():
            quota.left -= later * (1 if kind == "requests" else tokens)
            self._quotas[kind] = quota

    def _begin(self, tokens: int) -> int:
        for kind, quota in self._quotas.items():
            quota.left -= 1 if kind == "requests" else tokens
        return self.concurrency.begin()

    @contextmanager
    def call(self, place: int) -> Generator[None]:
        """Observe an admitted call; a final failure counts as an answer, since it does not concern other calls."""
        try:
            yield
        except ProviderError as failure:
            failure.note_model(self.card.name)
            status = str(failure.fault.status or "none")
            count_in_activity(PROVIDER_ERRORS, model=MODELS.of(self.card.name), kind=failure.kind, status=status)
            if failure.is_final:
                self._on_answer(place)
            else:
                self._on_failure(place, failure)
            raise
        else:
            self._on_answer(place)
        finally:
            self._give_back(place)

    def _give_back(self, place: int) -> None:
        self.concurrency.end(place)
        self._let_in()

    def _let_in(self) -> None:
        """Give free places to waiting calls, and schedule the next check."""
        wait = math.inf
        while self._waiting and (wait := self.wait(self._waiting[0][1])) <= 0:
            turn, tokens = self._waiting.popleft()
            if not turn.done():
                turn.set_result(self._begin(tokens))
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._waiting and wait < math.inf:
            self._alarm = asyncio.get_running_loop().call_later(wait, self._let_in)

    def _on_answer(self, place: int) -> None:
        self._ends.append(False)
        self._openings = 0
        self.concurrency.answer(place)

    def _on_failure(self, place: int, failure: ProviderError) -> None:
        self._last = failure
        is_throttled = failure.kind == ErrorType.RATE_LIMITED
        # An overloaded provider that specifies a delay counts as throttling.
        if (is_throttled or failure.retry_after is not None) and self.concurrency.refuse(place):
            self._close_until((failure.retry_after or self.pause(1)).total_seconds())
        if is_throttled:
            return
        if failure.retry_after is not None and failure.retry_after.total_seconds() > _LONGEST_WAIT:
            # The provider is down for all calls.
            self._close_until(failure.retry_after.total_seconds())
        self._ends.append(True)
        latest = list(self._ends)[-_LEAST_FAILURES:]
        has_failed = len(latest) == _LEAST_FAILURES and all(latest)
        do_most_fail = has_failed and sum(self._ends) > _MOST_FAIL * len(self._ends)
        if self._openings or do_most_fail:
            if self.left <= 0:
                # Calls made before it opened fail together and count once.
                count_in_activity(BREAKER_OPENINGS, model=MODELS.of(self.card.name))
                self._openings += 1
            self._close_until((failure.retry_after or self.pause(self._openings)).total_seconds())

    def _close_until(self, seconds: float) -> None:
        self._opened_until = max(self._opened_until, self.now() + seconds)


class Breakers:
    def __init__(self) -> None:
        self._breakers: dict[tuple[str, str], Breaker] = {}

    def of(self, card: ModelCard, pause: Pause) -> Breaker:
        return self._breakers.setdefault((card.provider, card.name), Breaker(card, pause))
