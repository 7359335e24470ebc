"""A breaker keeps a worker's sessions from a model that fails, and lets them return one after another."""

from contextlib import AbstractContextManager
from datetime import timedelta
from decimal import Decimal
from typing import Literal

from hypothesis import given
from hypothesis import strategies as st

from activities.contracts.model import ModelCard, PriceStep
from activities.models.failures import ProviderError, ProviderFault
from activities.turn.breaker import Breaker
from chargehand.wire import ErrorType

CARD = ModelCard(
    provider="scripted",
    name="any",
    prices=(PriceStep(input_usd_per_million=Decimal(1), output_usd_per_million=Decimal(5)),),
)
LONGEST_PAUSE = 30.0


def _pause(openings: int) -> timedelta:
    return timedelta(seconds=min(2.0 ** (openings - 1), LONGEST_PAUSE))


def failure(retry_after: float | None = None, *, is_final: bool = False) -> ProviderError:
    """Describe a failure, with the wait that the provider asks for."""
    wait = None if retry_after is None else timedelta(seconds=retry_after)
    fault = ProviderFault(provider="scripted")
    return ProviderError("busy", fault, ErrorType.RATE_LIMITED, is_final=is_final, retry_after=wait)


class Watched:
    """A breaker, its clock, and the calls that are under way."""

    def __init__(self) -> None:
        self.time = 0.0
        self.breaker = Breaker(CARD, _pause, lambda: self.time)
        self.calls: list[AbstractContextManager[None]] = []

    def begin(self) -> bool:
        """Make a call, if the breaker allows it."""
        if not self.breaker.allows_call:
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
def test_whatever_happens_waits_are_kept_and_calls_come_back(events: list[Event]) -> None:
    """No call is made before any `retry-after` has passed; and however it stands, a call is allowed once the longest
    wait is over and no other is under way."""
    watched = Watched()
    earliest = 0.0
    for what, number, seconds in events:
        if what == "time":
            watched.time += seconds
        elif what == "call":
            assert not watched.begin() or watched.time >= earliest
        elif watched.calls:
            errors = {"fails": failure(seconds or None), "answers": None, "is cancelled": KeyboardInterrupt()}
            watched.end(errors[what], number=number % len(watched.calls))
            if what == "fails" and seconds:
                earliest = max(earliest, watched.time + seconds)
    while watched.calls:
        watched.end(KeyboardInterrupt())
    watched.time = max(watched.time + LONGEST_PAUSE, earliest)

    assert watched.breaker.allows_call


def test_three_failures_in_a_row_open_it_and_each_probe_that_fails_waits_longer() -> None:
    """Two failures do not matter; from the third on there is one call at a time, after 1, 2, 4 seconds."""
    watched = Watched()
    for _ in range(3):
        assert watched.begin()
        watched.end(failure())
    for seconds in (1.0, 2.0, 4.0):
        watched.time += 0.99 * seconds
        assert not watched.begin()
        watched.time += 0.01 * seconds
        assert watched.begin()
        assert not watched.begin()
        watched.end(failure())

    assert "busy" in str(watched.breaker.refusal())


def test_each_answer_doubles_the_calls_at_a_time() -> None:
    """After `retry-after` one call is allowed, after its answer two, then four, until the number is not limited."""
    watched = Watched()
    watched.begin()
    watched.end(failure(7.0))
    watched.time = 7.0
    allowed: list[int] = []
    while len(allowed) < 7:
        while len(watched.calls) < 200 and watched.begin():
            pass
        allowed.append(len(watched.calls))
        watched.end()
        while watched.calls:
            watched.end(KeyboardInterrupt())

    assert allowed == [1, 2, 4, 8, 16, 32, 200]


def test_a_storm_counts_once_and_a_request_that_is_refused_for_good_does_not_count() -> None:
    """Calls that were made together fail together: the next wait is the first, not the fiftieth. A model that refuses
    one request answers others."""
    watched = Watched()
    for _ in range(50):
        watched.begin()
    for _ in range(50):
        watched.end(failure())
    watched.time = 1.0
    assert watched.begin()
    watched.end(failure(is_final=True))

    assert watched.begin()
    assert watched.begin()
