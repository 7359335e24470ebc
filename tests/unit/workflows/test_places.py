"""Places: how many agents of a tree may work at once, and how many did."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from chargehand.contracts import AgentsAtWork
from workflows.state.places import Places

_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def _work(*spans: tuple[int, int]) -> list[AgentsAtWork]:
    return [
        AgentsAtWork(at=_BEGIN + timedelta(seconds=at), change=change)
        for begin, end in spans
        for at, change in ((begin, 1), (end, -1))
    ]


@given(st.integers(1, 20), st.integers(1, 20), st.lists(st.integers(0, 20), max_size=8))
def test_no_more_is_lent_than_there_is(total: int, sessions: int, spares: list[int]) -> None:
    """What is lent comes out of what is free, in fair parts, and comes back when a session ends.

    What was offered before a session has opened is lent to it too.
    """
    places = Places(total=total)
    running = min(sessions, total)
    places.offer(total - running)
    for number in range(running):
        places.open(f"s{number}")
    places.lend()
    for spare in spares:
        places.offer(min(spare, places.free(running)))
        lent = [places.of(f"s{number}") for number in range(running)]
        assert sum(lent) + places.free(running) == total
        assert places.free(running) >= 0
        assert max(lent) - min(lent) <= 1
    for number in range(running):
        places.close(f"s{number}")
    assert places.free(0) == total


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 10)), max_size=12))
def test_the_peak_is_of_agents_that_worked_at_the_same_time(begun: list[tuple[int, int]]) -> None:
    """Whatever the order in which it is learned; one that begins when another ends does not work beside it."""
    spans = [(begin, begin + lasts) for begin, lasts in begun]
    places = Places(total=5)
    for span in reversed(spans):
        places.record(_work(span))

    most = max((sum(begin <= second < end for begin, end in spans) for second in range(50)), default=0)
    assert places.peak == most
    resumed = Places.model_validate_json(places.model_dump_json())
    assert resumed.peak == most
