"""How many calls of a model may be under way in this worker, learned from what its provider throttles and fails.

A throttled call waits for as long as the provider asks; the others go on, fewer at a time. Only when most calls fail
does nothing but one probe at a time go out.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from activities.contracts.model import ModelCard
from activities.metrics import BREAKER_OPENINGS, MODELS, PROVIDER_ERRORS, count_in_activity
from activities.models.failures import ProviderError
from activities.turn.retry_policy import Pause, pause_after
from chargehand.wire import ErrorType

_REMEMBERED: Final = 20
"""Latest ends of calls by which a breaker judges whether most calls fail."""
_LEAST_FAILURES: Final = 3
_MOST_FAIL: Final = 0.6
_LONGEST_PROBE_WAIT: Final = timedelta(seconds=4)
"""Between two probes of a model that fails and does not say for how long."""
_DECREASE: Final = 0.7
"""Of the calls that were under way when one of them was throttled, unless more have just succeeded."""
_LEAST_STEP, _MOST_STEP = 0.25, 4.0
"""By how much the limit grows while as many calls as it allows are answered; twice as much each time that they are."""
_UNLIMITED: Final = 256
"""Calls at a time from which the number is not limited."""
_LEAST_WAIT: Final = 0.05
_LONGEST_WAIT: Final = 20.0
"""Seconds that a call waits for its turn before its attempt ends; a later attempt waits again."""


@dataclass
class Breaker:
    """Decides whether a model may be called, and when."""

    card: ModelCard
    pause: Pause = pause_after
    """How long it is open for the nth time, if the provider does not say."""
    now: Callable[[], float] = time.monotonic
    _limit: float = field(default=math.inf, init=False)
    """Calls at a time."""
    _step: float = field(default=_LEAST_STEP, init=False)
    _answers: int = field(default=0, init=False)
    """Since the limit was lowered or its step doubled."""
    _calls: int = field(default=0, init=False)
    _succeeded: deque[tuple[float, int]] = field(
        default_factory=lambda: deque[tuple[float, int]](maxlen=_REMEMBERED), init=False
    )
    """When the latest calls that were answered had begun, and how many were under way then."""
    _decreased_at: float = field(default=-math.inf, init=False)
    """Calls from before say nothing about the limit since."""
    _throttled_in_a_row: int = field(default=0, init=False)
    _begun_since: int = field(default=0, init=False)
    """Calls since the first of them was throttled."""
    _throttled_since: float = field(default=math.inf, init=False)
    """When the first of them was throttled: only answers to later calls end the row."""
    _ends: deque[bool] = field(default_factory=lambda: deque[bool](maxlen=_REMEMBERED), init=False)
    """Whether the latest calls failed; throttled ones say nothing."""
    _opened_until: float = field(default=-math.inf, init=False)
    _openings: int = field(default=0, init=False)
    """In a row, since the last answer; each one waits longer."""
    _last: ProviderError | None = field(default=None, init=False)
    _waiting: deque[asyncio.Future[None]] = field(default_factory=deque[asyncio.Future[None]], init=False)

    @property
    def allows_call(self) -> bool:
        return self.left <= 0 and self._calls + 1 <= (1 if self._openings else self._limit)

    @property
    def left(self) -> float:
        """Seconds until it stops being open; not above 0 if it only limits the number of calls."""
        return self._opened_until - self.now()

    def refusal(self) -> ProviderError:
        """Build the error for a call that is not made: its session has to wait, and pays nothing."""
        assert self._last is not None
        return ProviderError(
            f"Waiting for {self.card.provider}'s {self.card.name}; its last error: {self._last.message}",
            self._last.fault.model_copy(update={"possibly_billed": False}),
            self._last.kind,
            retry_after=timedelta(seconds=max(self.left, 1.0)),
        )

    def take_place(self) -> bool:
        """Take a place for a call, if one may be made now and none waits for it; `call` gives it back."""
        if not self.allows_call or self._waiting:
            return False
        self._calls += 1
        return True

    async def admit(self) -> bool:
        """Wait for a place, the first come first; False if that would take too long."""
        give_up = self.now() + _LONGEST_WAIT
        while not self.take_place():
            if self._opened_until > give_up or self.now() >= give_up:
                return False
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                async with asyncio.timeout(min(max(self.left, _LEAST_WAIT), give_up - self.now())):
                    await turn
            except TimeoutError:
                self._let_in()
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._give_back()
                raise
            finally:
                if turn in self._waiting:
                    self._waiting.remove(turn)
            if turn.done() and not turn.cancelled():
                return True
        return True

    @contextmanager
    def call(self) -> Generator[None]:
        """Watch a call that has its place; a final failure is an answer, since it says nothing about other calls."""
        begun, under_way = self.now(), self._calls
        self._begun_since += 1
        try:
            yield
        except ProviderError as failure:
            count_in_activity(PROVIDER_ERRORS, model=MODELS.of(self.card.name), kind=failure.kind)
            if failure.is_final:
                self._on_answer(begun, under_way)
            elif failure.kind == ErrorType.RATE_LIMITED:
                self._on_throttled(failure, begun)
            else:
                self._on_failure(failure)
            raise
        else:
            self._on_answer(begun, under_way)
        finally:
            self._give_back()

    def _give_back(self) -> None:
        self._calls -= 1
        self._let_in()

    def _let_in(self) -> None:
        """Give those that wait the places that there are."""
        while self._waiting and self.allows_call:
            turn = self._waiting.popleft()
            if not turn.done():
                self._calls += 1
                turn.set_result(None)

    def _on_answer(self, begun: float, under_way: int) -> None:
        self._ends.append(False)
        self._succeeded.append((begun, under_way))
        self._openings = 0
        if begun >= self._throttled_since:
            self._throttled_in_a_row, self._throttled_since = 0, math.inf
        if self._limit < math.inf and begun >= self._decreased_at:
            self._answers += 1
            if self._answers >= self._limit:
                self._answers, self._step = 0, min(2 * self._step, _MOST_STEP)
            self._limit += self._step / self._limit
            if self._limit >= _UNLIMITED:
                self._limit = math.inf

    def _on_throttled(self, failure: ProviderError, begun: float) -> None:
        now = self.now()
        self._last = failure
        self._throttled_in_a_row += 1
        if self._throttled_in_a_row == 1:
            self._throttled_since, self._begun_since = now, 0
        if begun >= self._decreased_at:
            took = now - self._succeeded[-1][0] if self._succeeded else 0.0
            proven = max((calls for since, calls in self._succeeded if since >= now - 2 * took - 1), default=0)
            if proven < self._calls:
                self._decreased_at, self._step, self._answers = now, _LEAST_STEP, 0
                self._limit = min(self._limit, max(proven, math.floor(self._calls * _DECREASE), 1))
        if self._throttled_in_a_row >= max(_LEAST_FAILURES, self._begun_since / 2):
            # A window is used up: every call before it ends would be throttled as well.
            self._throttled_in_a_row, self._throttled_since = 0, math.inf
            self._close_until(failure.retry_after or self.pause(1))

    def _on_failure(self, failure: ProviderError) -> None:
        self._last = failure
        self._ends.append(True)
        latest = list(self._ends)[-_LEAST_FAILURES:]
        has_failed = len(latest) == _LEAST_FAILURES and all(latest)
        do_most_fail = has_failed and sum(self._ends) > _MOST_FAIL * len(self._ends)
        # An overloaded provider that says for how long means all of its callers.
        if self._openings or do_most_fail or failure.retry_after is not None:
            if self.left <= 0:
                # Calls that were made before it opened fail together, and count once.
                count_in_activity(BREAKER_OPENINGS, model=MODELS.of(self.card.name))
                self._openings += 1
            self._close_until(failure.retry_after or min(self.pause(self._openings), _LONGEST_PROBE_WAIT))

    def _close_until(self, wait: timedelta) -> None:
        self._opened_until = max(self._opened_until, self.now() + wait.total_seconds())


class Breakers:
    def __init__(self) -> None:
        self._breakers: dict[tuple[str, str], Breaker] = {}

    def of(self, card: ModelCard, pause: Pause) -> Breaker:
        return self._breakers.setdefault((card.provider, card.name), Breaker(card, pause))
