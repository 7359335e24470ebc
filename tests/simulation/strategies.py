"""Strategies for drawing sessions: small ones first, so that failures shrink to something readable."""

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Final, TypeVar, get_args

from hypothesis import strategies as st

from chargehand.contracts import Limits, SessionRequest
from tests.simulation.script import Decision, Planned, Script, Work
from tests.simulation.world import Fate, Scenario, ToolFate

_AGENTS: Final = ("reader", "researcher", "analyst", "writer", "supervisor")
WORKS: Final[tuple[Work, ...]] = get_args(Work)
DECISIONS: Final[tuple[Decision, ...]] = get_args(Decision)
FATES: Final[tuple[Fate, ...]] = get_args(Fate)
_CALM: Final[tuple[Fate, ...]] = ("answers",)
_Value = TypeVar("_Value")
GOAL: Final = "What do the documents say about the topics?"


def _some(values: Sequence[_Value], most: int) -> st.SearchStrategy[tuple[_Value, ...]]:
    return st.lists(st.sampled_from(values), min_size=1, max_size=most).map(tuple)


@st.composite
def _plans(draw: st.DrawFn, agents: tuple[str, ...]) -> tuple[Planned, ...]:
    length = draw(st.integers(1, 6))
    # One number for all edges: a draw for each would cost more than the session.
    edges = draw(st.integers(0, 2 ** (length * (length - 1) // 2) - 1))
    planned: list[Planned] = []
    for position in range(length):
        after = tuple(earlier for earlier in range(position) if edges >> (position * (position - 1) // 2 + earlier) & 1)
        kinds = st.tuples(st.sampled_from(agents), st.integers(0, 4), st.booleans(), st.booleans())
        agent, topic, is_required, grows = draw(kinds)
        is_template = grows and bool(after) and not planned[after[0]].is_template
        planned.append(Planned(agent, topic, after, is_required, is_template))
    return tuple(planned)


def scripts(agents: tuple[str, ...] = _AGENTS, works: tuple[Work, ...] = WORKS) -> st.SearchStrategy[Script]:
    return st.builds(
        Script,
        plans=st.lists(_plans(agents), min_size=1, max_size=2).map(tuple),
        works=_some(works, 4),
        decisions=_some(DECISIONS, 3),
        seed=st.integers(0, 3),
    )


def limits(
    *,
    turns: tuple[int, ...] = (20, 3, 4, 5, 8, 12, 40),
    dollars: tuple[str, ...] = ("2", "0.3", "0.5", "1", "5"),
    seconds: tuple[int, ...] = (600, 5, 20, 60),
) -> st.SearchStrategy[Limits]:
    """Draw limits, from ample to barely enough."""
    return st.builds(
        Limits,
        max_turns=st.sampled_from(turns),
        budget_usd=st.sampled_from([Decimal(amount) for amount in dollars]),
        max_depth=st.integers(1, 5),
        max_parallel=st.integers(1, 4),
        max_attempts=st.integers(1, 3),
        max_rounds=st.integers(1, 4),
        deadline=st.sampled_from([timedelta(seconds=number) for number in seconds]),
        subtask_deadline=st.sampled_from([timedelta(seconds=number) for number in (300, 2, 30)]),
        on_limit=st.sampled_from(["finish", "pause"]),
    )


def requests(limited: st.SearchStrategy[Limits]) -> st.SearchStrategy[SessionRequest]:
    return st.builds(
        SessionRequest,
        goal=st.just(GOAL),
        limits=limited,
        approval=st.sampled_from(["none", "none", "plan"]),
        review=st.sampled_from(["auto", "never", "always"]),
        criteria=st.sampled_from([(), ("It names a date.",)]),
        questions=st.sampled_from(["none", "allowed"]),
        answer_within=st.sampled_from([timedelta(seconds=1), timedelta(seconds=300)]),
    )


def scenarios(
    *,
    scripted: st.SearchStrategy[Script] | None = None,
    limited: st.SearchStrategy[Limits] | None = None,
    fates: tuple[Fate, ...] = FATES,
) -> st.SearchStrategy[Scenario]:
    # Most calls answer; otherwise few sessions would reach their later steps.
    drawn_fates = st.tuples(_some(fates, 3), st.integers(0, 6)).map(lambda drawn: drawn[0] + _CALM * drawn[1])
    return st.builds(
        Scenario,
        request=requests(limits() if limited is None else limited),
        script=scripts() if scripted is None else scripted,
        fates=drawn_fates,
        tool_fates=_some(get_args(ToolFate), 2),
        costs=_some((50, 0, 1, 100), 3),
        latencies=_some((0, 1, 5, 20, 50), 3),
        durations=_some((0, 5, 50, 500, 3_000, 20_000), 3),
        seed=st.integers(0, 999),
    )
