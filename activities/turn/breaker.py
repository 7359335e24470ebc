"""Circuit breakers, one per model: while a model fails, the sessions of this worker wait for it together."""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from activities.contracts.model import ModelCard
from activities.metrics import BREAKER_OPENINGS, MODELS, PROVIDER_ERRORS, count_in_activity
from activities.models.failures import ProviderError
from activities.turn.retry_policy import Pause, pause_after

_FAILURES_IN_A_ROW: Final = 3
"""They open a breaker. One is enough if the provider says how long to wait, or if it was the only call allowed."""
_MOST_CALLS: Final = 64
"""Calls at a time from which the number is not limited."""


@dataclass
class Breaker:
    """Decides whether a model may be called.

    It opens when the model fails, for as long as the provider asks or by an exponential back-off. Then one call at a
    time tries the model, and each answer doubles the number of calls at a time.
    """

    card: ModelCard
    pause: Pause = pause_after
    """How long it is open for the nth time, if the provider does not say."""
    now: Callable[[], float] = time.monotonic
    _opened_until: float = field(default=0.0, init=False)
    _calls: int = field(default=0, init=False)
    _allowed: int = field(default=_MOST_CALLS, init=False)
    _failures: int = field(default=0, init=False)
    """In a row, since the last answer."""
    _openings: int = field(default=0, init=False)
    """In a row, since the last answer; each one waits longer."""
    _opened: int = field(default=0, init=False)
    """How often it has opened at all; calls from before the last opening do not count as under way."""
    _last: ProviderError | None = field(default=None, init=False)

    @property
    def allows_call(self) -> bool:
        """Whether another call may be made now."""
        return self.left <= 0 and (self._allowed >= _MOST_CALLS or self._calls < self._allowed)

    @property
    def left(self) -> float:
        """Seconds until it stops being open; not above 0 if it only limits the number of calls."""
        return self._opened_until - self.now()

    def refusal(self) -> ProviderError:
        """Build the error for a call that is not made: its session has to wait, and pays nothing."""
        assert self._last is not None
        left = self.left
        return ProviderError(
            f"Waiting for {self.card.provider}'s {self.card.name}; its last error: {self._last.message}",
            self._last.fault.model_copy(update={"possibly_billed": False}),
            self._last.kind,
            retry_after=timedelta(seconds=left) if left > 0 else None,
        )

    @contextmanager
    def call(self) -> Generator[None]:
        """Watch a call; a final failure counts as an answer, since it says nothing about other calls."""
        self._calls += 1
        opened = self._opened
        has_answered = True
        try:
            yield
        except ProviderError as failure:
            count_in_activity(PROVIDER_ERRORS, model=MODELS.of(self.card.name), kind=failure.kind)
            has_answered = failure.is_final
            if not failure.is_final:
                self._on_failure(failure)
            raise
        except BaseException:
            has_answered = False
            raise
        finally:
            if opened == self._opened:
                self._calls -= 1
                if has_answered:
                    self._on_answer()

    def _on_answer(self) -> None:
        self._failures = self._openings = 0
        self._allowed = min(2 * self._allowed, _MOST_CALLS)

    def _on_failure(self, failure: ProviderError) -> None:
        self._failures += 1
        self._last = failure
        is_open = self.left > 0
        is_passing = self._failures < _FAILURES_IN_A_ROW and self._allowed > 1
        if failure.retry_after is None and (is_open or is_passing):
            return
        if not is_open:
            # Calls that were made before it opened fail together, and count once.
            count_in_activity(BREAKER_OPENINGS, model=MODELS.of(self.card.name))
            self._openings += 1
            self._opened += 1
            self._calls = 0
        self._allowed = 1
        wait = failure.retry_after or self.pause(self._openings)
        self._opened_until = max(self._opened_until, self.now() + wait.total_seconds())


class Breakers:
    """The breakers of a worker."""

    def __init__(self) -> None:
        self._breakers: dict[tuple[str, str], Breaker] = {}

    def of(self, card: ModelCard, pause: Pause) -> Breaker:
        """Return the breaker of a model."""
        return self._breakers.setdefault((card.provider, card.name), Breaker(card, pause))
