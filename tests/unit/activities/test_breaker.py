"""A breaker has as many calls under way as a provider takes, and keeps a worker's sessions from one that fails."""

import asyncio
import heapq
import math
import random
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from itertools import count
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activities.contracts.model import ModelCard, PriceStep
from activities.models.failures import ProviderError, ProviderFault
from activities.turn.breaker import Breaker
from chargehand.wire import ErrorType
from tests.parameters import first_fast

CARD = ModelCard(
    provider="scripted",
    name="any",
    prices=(PriceStep(input_usd_per_million=Decimal(1), output_usd_per_million=Decimal(5)),),
)
LONGEST_PAUSE = 30.0
PROBE_WAIT = 4.0


def _pause(openings: int) -> timedelta:
    return timedelta(seconds=min(2.0 ** (openings - 1), LONGEST_PAUSE))


def failure(retry_after: float | None = None, *, is_final: bool = False) -> ProviderError:
    """Describe a failure, with the wait that the provider asks for: then it throttles."""
    wait = None if retry_after is None else timedelta(seconds=retry_after)
    kind = ErrorType.PROVIDER_UNAVAILABLE if retry_after is None else ErrorType.RATE_LIMITED
    return ProviderError("busy", ProviderFault(provider="scripted"), kind, is_final=is_final, retry_after=wait)


class Watched:
    """A breaker, its clock, and the calls that are under way."""

    def __init__(self) -> None:
        self.time = 0.0
        self.breaker = Breaker(CARD, _pause, lambda: self.time)
        self.calls: list[AbstractContextManager[None]] = []

    def begin(self) -> bool:
        """Make a call, if the breaker allows it."""
        if not self.breaker.take_place():
            return False
        call = self.breaker.call()
        call.__enter__()
        self.calls.append(call)
        return True

    def end(self, error: BaseException | None = None, *, number: int = 0) -> None:
        """End one of the calls under way."""
        call = self.calls.pop(number)
        assert not call.__exit__(type(error) if error else None, error, None)


Event = tuple[Literal["call", "time", "fails", "answers", "is cancelled"], int, float]
EVENTS: st.SearchStrategy[Event] = st.tuples(
    st.sampled_from(("call", "call", "time", "fails", "fails", "answers", "is cancelled")),
    st.integers(0, 9),
    st.sampled_from((0.0, 0.0, 0.5, 7.0, 100.0)),
)
"""What happens, to which of the calls under way, and the seconds that pass or that the provider asks to wait."""


@given(st.lists(EVENTS, max_size=60))
def test_whatever_happens_calls_come_back(events: list[Event]) -> None:
    """However it stands, a call is allowed once the longest wait is over and no other is under way, and no place is
    lost or given twice."""
    watched = Watched()
    for what, number, seconds in events:
        if what == "time":
            watched.time += seconds
        elif what == "call":
            watched.begin()
        elif watched.calls:
            errors = {"fails": failure(seconds or None), "answers": None, "is cancelled": KeyboardInterrupt()}
            watched.end(errors[what], number=number % len(watched.calls))
    while watched.calls:
        watched.end(KeyboardInterrupt())
    watched.time += 100.0

    assert watched.begin()
    watched.end()
    while len(watched.calls) < 1_000 and watched.begin():
        pass
    assert watched.calls


def test_a_model_that_only_fails_is_tried_by_one_call_at_a_time() -> None:
    """Three failures open it; each probe that fails waits longer, four seconds at most; the first answer ends it."""
    watched = Watched()
    for _ in range(3):
        assert watched.begin()
        watched.end(failure())
    for seconds in (1.0, 2.0, 4.0, PROBE_WAIT, PROBE_WAIT):
        watched.time += 0.99 * seconds
        assert not watched.begin()
        watched.time += 0.01 * seconds
        assert watched.begin()
        assert not watched.begin()
        watched.end(failure())
    watched.time += PROBE_WAIT
    assert watched.begin()
    watched.end()

    assert [watched.begin() for _ in range(50)] == [True] * 50
    assert "busy" in str(watched.breaker.refusal())


def test_a_throttled_call_now_and_then_stops_no_other() -> None:
    """Of every 30 calls one is throttled: as many as before are under way."""
    watched = Watched()
    while len(watched.calls) < 20:
        assert watched.begin()
    for number in range(1, 300):
        watched.time += 1.0
        watched.end(None if number % 30 else failure(60.0))
        watched.begin()
        assert len(watched.calls) >= 19


def test_calls_that_wait_go_on_in_their_order() -> None:
    """Each has its place when another call ends, in the order in which they came; one that is cancelled loses none."""

    async def run() -> list[int]:
        watched, order = Watched(), list[int]()
        for _ in range(3):
            assert watched.begin()
            watched.end(failure())
        watched.time += 1.0
        assert watched.begin()

        async def wait(number: int) -> None:
            assert await watched.breaker.admit()
            order.append(number)

        tasks = [asyncio.create_task(wait(number)) for number in range(4)]
        await asyncio.sleep(0)
        tasks[1].cancel()
        watched.end()
        while len(order) < 3:
            await asyncio.sleep(0)
            with watched.breaker.call():
                pass
        return order

    assert asyncio.run(run()) == [0, 2, 3]


@dataclass
class Provider:
    """Takes or throttles calls; all of them take `seconds`."""

    takes: Callable[["Provider", float], float | None]
    """Returns how long a call has to wait, or nothing if it is taken."""
    seconds: float
    under_way: int = 0
    begun: list[float] = field(default_factory=list[float])
    chance: random.Random = field(default_factory=lambda: random.Random(7))


def _capped(provider: Provider, _: float) -> float | None:
    return 1.0 if provider.under_way >= 8 else None


def _windowed(provider: Provider, now: float) -> float | None:
    window = now // 10.0 * 10.0
    return window + 10.0 - now if sum(begun >= window for begun in provider.begun) >= 60 else None


def _by_chance(provider: Provider, _: float) -> float | None:
    return 1.0 if provider.chance.random() < 0.03 else None


def _recovering(provider: Provider, now: float) -> float | None:
    return 1.0 if provider.under_way >= min(4 + now / 30.0, 16) else None


def _simulate(provider: Provider, sessions: int, until: float, *, with_breaker: bool) -> tuple[int, int]:
    """Have sessions call one after another until a time; returns how many calls were answered and how many refused."""
    watched, order = Watched(), count()
    events: list[tuple[float, int, str, AbstractContextManager[None] | None]] = []
    for _ in range(sessions):
        heapq.heappush(events, (0.0, next(order), "try", None))
    answered = refused = 0
    while events and (now := events[0][0]) <= until:
        watched.time, _, what, call = heapq.heappop(events)
        if what == "answer":
            provider.under_way -= 1
            answered += 1
            if call:
                call.__exit__(None, None, None)
            heapq.heappush(events, (now, next(order), "try", None))
        elif with_breaker and not watched.breaker.take_place():
            heapq.heappush(events, (now + 0.05, next(order), "try", None))
        else:
            begun = watched.breaker.call() if with_breaker else None
            if begun:
                begun.__enter__()
            wait = provider.takes(provider, now)
            if wait is None:
                provider.under_way += 1
                provider.begun.append(now)
                heapq.heappush(events, (now + provider.seconds, next(order), "answer", begun))
            else:
                refused += 1
                error = failure(wait)
                if begun:
                    begun.__exit__(type(error), error, None)
                heapq.heappush(events, (now + wait, next(order), "try", None))
    return answered, refused


@pytest.mark.parametrize("seconds", first_fast([5.0, 0.2, 20.0]))
@pytest.mark.parametrize(
    ("takes", "most"),
    [
        # Calls a second at most, and calls under way at most.
        (_capped, (math.inf, 8.0)),
        (_windowed, (6.0, 40.0)),
        (_by_chance, (math.inf, 38.8)),
        (_recovering, (math.inf, 12.3)),
    ],
)
def test_a_provider_is_used_as_far_as_it_goes(
    takes: Callable[[Provider, float], float | None], most: tuple[float, float], seconds: float
) -> None:
    """40 sessions, ten minutes: at least 85 % of what an oracle could get, and few calls refused."""
    until = 600.0
    answered, refused = _simulate(Provider(takes, seconds), 40, until, with_breaker=True)

    best = min(most[0], most[1] / (seconds + 0.03)) * (until - seconds)
    assert answered >= 0.85 * best, (answered, refused, best)
    assert refused <= 0.05 * (answered + refused) + 20, (answered, refused, best)
