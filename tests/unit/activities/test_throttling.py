"""A breaker admits as many calls as a provider takes, and protects a worker's sessions from one that fails."""

import asyncio
import heapq
import math
import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activities.models.failures import ProviderError, ProviderFault
from activities.turn.throttling import Breaker
from chargehand.contracts import Tier
from chargehand.wire import ErrorType
from tests.environment import scripted_cards
from tests.parameters import first_fast

CARD = scripted_cards()[Tier.SMALL]
LONGEST_PAUSE = 4.0


def _pause(openings: int) -> timedelta:
    return timedelta(seconds=min(2.0 ** (openings - 1), LONGEST_PAUSE))


def failure(retry_after: float | None = None, *, is_final: bool = False) -> ProviderError:
    """Make a failure; with a wait that the provider asks for, it means throttling."""
    wait = None if retry_after is None else timedelta(seconds=retry_after)
    kind = ErrorType.PROVIDER_UNAVAILABLE if retry_after is None else ErrorType.RATE_LIMITED
    return ProviderError("busy", ProviderFault(provider="scripted"), kind, is_final=is_final, retry_after=wait)


class Watched:
    def __init__(self) -> None:
        self.time = 0.0
        self.breaker = Breaker(CARD, _pause, lambda: self.time)
        self.calls: list[AbstractContextManager[None]] = []

    def begin(self) -> bool:
        place = self.breaker.take_place()
        if place is None:
            return False
        call = self.breaker.call(place)
        call.__enter__()
        self.calls.append(call)
        return True

    def end(self, error: BaseException | None = None, *, number: int = 0) -> None:
        call = self.calls.pop(number)
        assert not call.__exit__(type(error) if error else None, error, None)


Event = tuple[Literal["call", "time", "fails", "answers", "is cancelled"], int, float]
EVENTS: st.SearchStrategy[Event] = st.tuples(
    st.sampled_from(("call", "call", "time", "fails", "fails", "answers", "is cancelled")),
    st.integers(0, 9),
    st.sampled_from((0.0, 0.0, 0.5, 7.0, 100.0)),
)
"""An event, the call in progress it concerns, and the seconds that pass or that the provider asks to wait."""


@given(st.lists(EVENTS, max_size=60))
def test_calls_are_always_allowed_again_eventually(events: list[Event]) -> None:
    """After the longest wait a call is admitted, and no slot is lost or given twice."""
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


def test_a_failing_model_is_probed_by_one_call_at_a_time() -> None:
    """Three failures open the breaker; failed probes lengthen the pause up to 4 seconds; a success closes it."""
    watched = Watched()
    for _ in range(3):
        assert watched.begin()
        watched.end(failure())
    for seconds in (1.0, 2.0, 4.0, LONGEST_PAUSE, LONGEST_PAUSE):
        watched.time += 0.99 * seconds
        assert not watched.begin()
        watched.time += 0.01 * seconds
        assert watched.begin()
        assert not watched.begin()
        watched.end(failure())
    watched.time += LONGEST_PAUSE
    assert watched.begin()
    watched.end()

    assert [watched.begin() for _ in range(50)] == [True] * 50
    assert "busy" in str(watched.breaker.refusal())


def test_an_occasional_throttled_call_does_not_slow_the_others() -> None:
    watched = Watched()
    while len(watched.calls) < 20:
        assert watched.begin()
    for number in range(1, 300):
        watched.time += 1.0
        watched.end(None if number % 30 else failure(60.0))
        watched.begin()
        assert len(watched.calls) >= 19


def test_waiting_calls_are_admitted_in_order() -> None:
    async def run() -> list[int]:
        watched, order = Watched(), list[int]()
        for _ in range(3):
            assert watched.begin()
            watched.end(failure())
        watched.time += 1.0
        assert watched.begin()

        async def wait(number: int) -> None:
            place = await watched.breaker.admit()
            assert place is not None
            order.append(number)
            with watched.breaker.call(place):
                pass

        tasks = [asyncio.create_task(wait(number)) for number in range(4)]
        await asyncio.sleep(0)
        tasks[1].cancel()
        watched.end()
        await asyncio.gather(*tasks, return_exceptions=True)
        return order

    assert asyncio.run(run()) == [0, 2, 3]


@dataclass
class Provider:
    """Refuses calls by its own rule, 50 ms after they are made."""

    refuses: Callable[["Provider", float, float], float | None]
    """Returns how long a call has to wait, given the time and its size, or None if it is taken."""
    under_way: int = 0
    taken: deque[float] = field(default_factory=deque[float])
    """When the calls of the last minute were taken."""
    held: float = 30.0
    """Content of a bucket as of `filled_at`."""
    filled_at: float = 0.0
    chance: random.Random = field(default_factory=lambda: random.Random(7))

    def drain(self, now: float, rate: float, most: float, size: float) -> float | None:
        """Take a call's size from a bucket, unless it holds too little."""
        self.held, self.filled_at = min(most, self.held + rate * (now - self.filled_at)), now
        if self.held < size:
            return max(1.0, (size - self.held) / rate)
        self.held -= size
        return None

    def headers(self, now: float) -> dict[str, str]:
        """Report the remaining content of the bucket in hundredths, as OpenAI does."""
        held = min(30.0, self.held + 6.0 * (now - self.filled_at))
        said = {"limit": "3000", "remaining": f"{held * 100:.0f}", "reset": f"{(30 - held) / 6:.3f}s"}
        return {f"x-ratelimit-{what}-tokens": value for what, value in said.items()}


def _windowed(provider: Provider, now: float, _: float) -> float | None:
    while provider.taken and provider.taken[0] < now // 60.0 * 60.0:
        provider.taken.popleft()
    return 60.0 - now % 60.0 if len(provider.taken) >= 300 else None


RTT = 0.05
KINDS: dict[
    str, tuple[Callable[[Provider, float, float], float | None], tuple[float, float | Callable[[float], float]]]
] = {
    # The rule for refusals, and an oracle's maxima: calls per second and calls in progress.
    "8 at a time": (lambda provider, _, __: 1.0 if provider.under_way >= 8 else None, (math.inf, 8.0)),
    "30 at a time": (lambda provider, _, __: 1.0 if provider.under_way >= 30 else None, (math.inf, 30.0)),
    "300 a minute": (_windowed, (5.0, 40.0)),
    "a bucket of tokens": (lambda provider, now, size: provider.drain(now, 6.0, 30.0, size), (6.0, 40.0)),
    "a bucket, with headers": (lambda provider, now, size: provider.drain(now, 6.0, 30.0, size), (6.0, 40.0)),
    "no bursts": (lambda provider, now, _: provider.drain(now, 5.0, 5.0, 1.0), (5.0, 40.0)),
    "recovers slowly": (
        lambda provider, now, _: 1.0 if provider.under_way >= 4 + now / 50.0 else None,
        (math.inf, lambda until: 4 + until / 100.0),
    ),
    "3 % by chance": (lambda provider, _, __: 1.0 if provider.chance.random() < 0.03 else None, (math.inf, 38.8)),
}


@dataclass
class Sessions:
    """40 sessions that call one after another."""

    provider: Provider
    seconds: float
    """Duration of a call, give or take a fifth."""
    has_headers: bool
    watched: Watched = field(default_factory=Watched)
    answers: list[float] = field(default_factory=list[float])
    refusals: list[float] = field(default_factory=list[float])
    """When calls were answered and refused."""
    events: list[tuple[float, int, str, Any]] = field(default_factory=list[tuple[float, int, str, Any]])
    queue: deque[float] = field(default_factory=deque[float])
    """The sizes of calls that wait."""
    looks_at: float = math.inf
    chance: random.Random = field(default_factory=lambda: random.Random(3))
    order: Iterator[int] = field(default_factory=count)

    def run(self, until: float) -> None:
        for number in range(40):
            self.later(number * 0.02, "ask", self.new())
        while self.events and self.events[0][0] <= until:
            self.watched.time, _, what, about = heapq.heappop(self.events)
            getattr(self, what)(about)
            while self.queue and (place := self.breaker.take_place(_tokens(self.queue[0]))) is not None:
                self.arrive(place, self.queue.popleft())
            if self.queue and self.now + (wait := self.breaker.wait(_tokens(self.queue[0]))) < self.looks_at:
                self.looks_at = self.later(max(wait, 0.001), "look")

    @property
    def now(self) -> float:
        return self.watched.time

    @property
    def breaker(self) -> Breaker:
        return self.watched.breaker

    def later(self, seconds: float, what: str, about: object = None) -> float:
        heapq.heappush(self.events, (self.now + seconds, next(self.order), what, about))
        return self.now + seconds

    def new(self) -> float:
        return self.chance.choice((0.25, 0.5, 1.0, 2.25))

    def ask(self, size: float) -> None:
        self.queue.append(size)

    def look(self, _: None) -> None:
        if self.now >= self.looks_at:  # otherwise an earlier look has replaced it
            self.looks_at = math.inf

    def arrive(self, place: int, size: float) -> None:
        call = self.breaker.call(place)
        call.__enter__()
        wait = self.provider.refuses(self.provider, self.now, size)
        if wait is not None:
            self.later(RTT, "refuse", (call, wait, size))
            return
        self.provider.under_way += 1
        self.provider.taken.append(self.now)
        self.later(self.seconds * self.chance.uniform(0.8, 1.2), "answer", call)
        if self.has_headers:
            self.later(RTT, "begin", (place, self.provider.headers(self.now)))

    def begin(self, read: tuple[int, Mapping[str, str]]) -> None:
        place, headers = read
        self.breaker.note_quotas(headers, place, tokens=100)

    def refuse(self, refused: tuple[AbstractContextManager[None], float, float]) -> None:
        call, wait, size = refused
        self.refusals.append(self.now)
        error = failure(wait)
        call.__exit__(type(error), error, None)
        self.later(wait, "ask", size)

    def answer(self, call: AbstractContextManager[None]) -> None:
        self.provider.under_way -= 1
        self.answers.append(self.now)
        call.__exit__(None, None, None)
        self.later(0.0, "ask", self.new())


def _tokens(size: float) -> int:
    return int(100 * size)


@pytest.mark.parametrize("seconds", first_fast([5.0, 0.2, 20.0], 1, pytest.mark.nightly))
@pytest.mark.parametrize("kind", KINDS)
def test_throttling_uses_most_of_a_providers_capacity(kind: str, seconds: float) -> None:
    """40 sessions get 85 % of an oracle's calls (80 % without bursts); few are refused, almost none with headers."""
    until = 120.0 if seconds < 1 else 120 * seconds
    refuses, (rate, calls) = KINDS[kind]
    sessions = Sessions(Provider(refuses), seconds, has_headers="headers" in kind)
    sessions.run(until)
    answered, refused = [sum(at > until / 2 for at in each) for each in (sessions.answers, sessions.refusals)]
    most = calls(until) if callable(calls) else calls

    least = 0.8 if kind == "no bursts" else 0.85
    assert len(sessions.answers) >= least * min(rate, most / seconds) * until
    if seconds >= 1 or kind not in {"a bucket of tokens", "no bursts"}:
        assert refused <= (0.001 if "headers" in kind else 0.12) * (answered + refused)
