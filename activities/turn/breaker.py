"""How many calls of a model may be under way in this worker, learned from what its provider throttles and fails.

A throttled call waits for as long as the provider asks; the others go on, fewer at a time. Only when most calls fail
does nothing but one probe at a time go out.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from activities.contracts.model import ModelCard
from activities.metrics import BREAKER_OPENINGS, MODELS, PROVIDER_ERRORS, count_in_activity
from activities.models.failures import ProviderError, ProviderFault
from activities.models.quotas import Quota, quotas
from activities.turn.concurrency import Concurrency
from activities.turn.retry_policy import Pause, pause_after
from chargehand.wire import ErrorType

_REMEMBERED: Final = 20
"""Latest ends of calls by which a breaker judges whether most calls fail."""
_LEAST_FAILURES: Final = 3
_MOST_FAIL: Final = 0.6
_LONGEST_WAIT: Final = 20.0
"""Seconds that a call waits for its turn before its attempt ends; a later attempt waits again."""
_TO_REPORT: Final = 1.0
"""Seconds before the end of its time from which an attempt says why earlier ones failed, rather than be late, too."""


@dataclass
class Breaker:
    """Decides whether a model may be called, and when."""

    card: ModelCard
    pause: Pause = pause_after
    """How long it is open for the nth time, if the provider does not say."""
    now: Callable[[], float] = time.monotonic
    concurrency: Concurrency = field(init=False)
    _ends: deque[bool] = field(default_factory=lambda: deque[bool](maxlen=_REMEMBERED), init=False)
    """Whether the latest calls failed; throttled ones say nothing."""
    _opened_until: float = field(default=-math.inf, init=False)
    _openings: int = field(default=0, init=False)
    """In a row, since the last answer; each one waits longer."""
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
        """Seconds until it stops being open; not above 0 if it only limits the number of calls."""
        return self._opened_until - self.now()

    def wait(self, tokens: int = 0) -> float:
        """Return the seconds until a call of so many tokens may be made, if none ends before; not above 0 if now."""
        if self.left > 0:
            return self.left
        if self._openings and self.concurrency.calls:
            return math.inf
        needed = {"requests": 1, "tokens": tokens}
        waits = (quota.wait(needed[kind], self.now()) for kind, quota in self._quotas.items())
        return max(self.concurrency.wait, *waits, 0.0)

    def refusal(self) -> ProviderError:
        """Build the error for a call that is not made: its session has to wait, and pays nothing."""
        model = f"{self.card.provider}'s {self.card.name}"
        if self._last is None:
            fault = ProviderFault(provider=self.card.provider)
            message, kind = f"Waiting for {model}: its rate limit is used up", ErrorType.RATE_LIMITED
        else:
            fault, kind = self._last.fault.model_copy(update={"possibly_billed": False}), self._last.kind
            message = f"Waiting for {model}; its last error: {self._last.message}"
        return ProviderError(message, fault, kind, retry_after=timedelta(seconds=max(self.left, 1.0)))

    def take_place(self, tokens: int = 0) -> int | None:
        """Take a place for a call, if one may be made now and none waits for it; `call` gives it back."""
        return None if self._waiting or self.wait(tokens) > 0 else self._begin(tokens)

    async def admit(self, tokens: int = 0, most_seconds: float = math.inf) -> int | None:
        """Wait for a place, the first come first; None if that would take too long."""
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
        """Learn from the headers of a reply what is left of the provider's limits, which it counts until that call."""
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
        """Watch a call that has its place; a final failure is an answer, since it says nothing about other calls."""
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
        """Give those that wait the places that there are, and look again when the next one may be given."""
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
        # An overloaded provider that says for how long throttles.
        if (is_throttled or failure.retry_after is not None) and self.concurrency.refuse(place):
            self._close_until((failure.retry_after or self.pause(1)).total_seconds())
        if is_throttled:
            return
        if failure.retry_after is not None and failure.retry_after.total_seconds() > _LONGEST_WAIT:
            # It says that it is down, and not for this call alone.
            self._close_until(failure.retry_after.total_seconds())
        self._ends.append(True)
        latest = list(self._ends)[-_LEAST_FAILURES:]
        has_failed = len(latest) == _LEAST_FAILURES and all(latest)
        do_most_fail = has_failed and sum(self._ends) > _MOST_FAIL * len(self._ends)
        if self._openings or do_most_fail:
            if self.left <= 0:
                # Calls that were made before it opened fail together, and count once.
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
