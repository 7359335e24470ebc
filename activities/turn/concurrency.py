"""How many calls of a model may be under way, learned from which of them its provider throttles. Pure, with a clock.

The number grows by steps. It shrinks to a share of what was under way, and never below what was just accepted, if
calls are refused because there are too many of them: every few calls in a row, or fewer once there are fewer calls.
Calls that are refused now and then, however few are under way, wait by themselves and slow no other.
"""

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

_DECREASE: Final = 0.7
_FIRST_STEP, _LAST_STEP = 0.15, 8.0
"""By how much the number grows after as many calls as are judged together; twice as much each time."""
_NEAR: Final = 0.9
"""Of the number at which too many calls were refused: up to here it grows with each answer."""
_JUDGED: Final = 20
"""Ends of calls that are judged together, or as many as were under way."""
_TARGET: Final = 0.05
"""Share of calls that may be refused."""
_MOST_CHANCE: Final = 0.3
"""Refusals beyond this share do not come by chance."""
_NO_BETTER: Final = 0.5
"""Of the share that was refused before there were fewer calls."""
_ROW, _LONG_ROW = 3, 4
_PROVEN: Final = 0.8
"""Of the calls under way: if so many were accepted, they are as many as the provider takes."""
_UNLIMITED: Final = 256
"""From here on the number is not limited."""
_SPACED: Final = 8.0
"""Below this number, a part of a call is a call that begins later."""


@dataclass
class Concurrency:
    """The calls under way, and how many there may be."""

    now: Callable[[], float] = time.monotonic
    begun: int = field(default=0, init=False)
    """Calls so far; each one's number is that of those until it."""
    _limit: float = field(default=math.inf, init=False)
    _refused_at: float = field(default=math.inf, init=False)
    """The number of calls of which too many were refused."""
    _step: float = field(default=_FIRST_STEP, init=False)
    _open: dict[int, float] = field(default_factory=dict[int, float], init=False)
    """When each call that is under way began; numbered in this order."""
    _took: float = field(default=0.0, init=False)
    _refused: deque[int] = field(default_factory=lambda: deque[int](maxlen=2 * _LONG_ROW), init=False)
    _by_chance: float = field(default=0.0, init=False)
    """Share of calls that are refused however few there are."""
    _before: tuple[float, float] | None = field(default=None, init=False)
    """Share of refused calls, and the limit, before it was lowered to see whether that helps."""
    _judged_from: int = field(default=0, init=False)
    """Earlier calls began under another limit."""
    _answers: int = field(default=0, init=False)
    _refusals: int = field(default=0, init=False)
    _most_open: int = field(default=0, init=False)
    _accepted: int = field(default=0, init=False)

    @property
    def calls(self) -> int:
        """How many are under way."""
        return len(self._open)

    @property
    def wait(self) -> float:
        """Seconds until one more call may begin, if none ends before; not above 0 if it may begin now."""
        if self.calls + 1 <= self._limit:
            return 0.0
        if self.calls < self._limit < _SPACED and self._took:
            return max(self._open.values(), default=0.0) + self._took / self._limit - self.now()
        return math.inf

    def begin(self) -> int:
        """Count a call; returns its number."""
        self.begun += 1
        self._open[self.begun] = self.now()
        self._most_open = max(self._most_open, self.calls)
        return self.begun

    def end(self, call: int) -> None:
        """Note the end of a call, of which its provider says nothing about how many it takes."""
        self._open.pop(call, None)

    def answer(self, call: int) -> None:
        """Note that a call was answered."""
        took = self.now() - self._open.pop(call)
        self._took += (took - self._took) * (0.1 if self._took else 1.0)
        if call > self._judged_from:
            self._answers += 1
            if self._limit < _NEAR * self._refused_at:
                self._limit = min(self._limit + 1, _NEAR * self._refused_at)
        self._judge()

    def refuse(self, call: int) -> bool:
        """Note that a call was throttled; returns whether the calls before it were too, so that none is taken now."""
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
