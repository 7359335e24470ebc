"""Private text, strangers' text and a way out never meet in one place, whichever way a plan brings them together."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activities.contracts.cards import AgentCard, CrewCard
from chargehand.contracts import Capability, Plan, Subtask, Tier
from workflows.rules.information_flow import capabilities_of, leaks, reads_of
from workflows.rules.plan_validation import InvalidPlan, check_plan

_CAPABILITIES: dict[str, tuple[Capability, ...]] = {
    "reader": ("reads_private",),
    "browser": ("reads_untrusted", "reaches_out"),
    "poster": ("reaches_out",),
    "writer": (),
}
CREW = CrewCard(
    name="c",
    tier=Tier.SMALL,
    agents=tuple(
        AgentCard(name=name, tier=Tier.SMALL, capabilities=able, prompt_bytes=1) for name, able in _CAPABILITIES.items()
    ),
    prompt_bytes=1,
)


def _chain(*agents: str) -> tuple[Subtask, ...]:
    """Make each subtask depend on the one before."""
    ids = [f"T{number}" for number in range(1, len(agents) + 1)]
    before = {later: (earlier,) for earlier, later in pairwise(ids)}
    return tuple(
        Subtask(id=id_, agent=agent, instruction=f"Do the work of {id_} now.", depends_on=before.get(id_, ()))
        for id_, agent in zip(ids, agents, strict=True)
    )


def test_a_chain_that_ends_outside_with_private_text_is_found() -> None:
    """Whatever lies between them, what was read in private does not reach one who reads strangers and reaches out."""
    cases: list[tuple[list[str], dict[str, set[str]]]] = [
        (["reader", "browser"], {"T2": {"T1"}}),
        (["reader", "writer", "browser"], {"T3": {"T2"}}),
        (["browser", "reader"], {}),
        (["reader", "poster"], {}),
        (["browser", "reader", "poster"], {"T3": {"T2"}}),
        (["supervisor", "browser"], {"T2": {"T1"}}),
        (["browser", "browser"], {}),
    ]
    for agents, found in cases:
        assert leaks(_chain(*agents), CREW, frozenset()) == found


def test_what_a_session_was_given_counts() -> None:
    """A session below that was handed private text may not open pages with it."""
    assert leaks(_chain("browser"), CREW, frozenset({"reads_private"})) == {"T1": frozenset()}


@given(st.lists(st.sampled_from([*_CAPABILITIES, "supervisor"]), min_size=1, max_size=8))
def test_every_leak_of_a_chain_is_found(agents: list[str]) -> None:
    """I17: a subtask is free of blame exactly if it does not reach out, or one kind of reading is missing before it."""
    found = leaks(_chain(*agents), CREW, frozenset())

    for number, agent in enumerate(agents, start=1):
        read = reads_of([capabilities_of(earlier, CREW) for earlier in agents[:number]], frozenset())
        reaches_out = "reaches_out" in capabilities_of(agent, CREW)
        assert (f"T{number}" in found) == (reaches_out and read == {"reads_private", "reads_untrusted"})


def test_a_leaking_plan_needs_a_person() -> None:
    """Without approval such a plan is refused with the reason; a person may let it pass."""
    plan = Plan(subtasks=_chain("reader", "browser"))

    with pytest.raises(
        InvalidPlan, match="subtask T2: it reaches out, and its inputs include private text, brought by"
    ):
        check_plan(plan, CREW, turns=9, may_nest=True, ancestors=())

    assert check_plan(plan, CREW, turns=9, may_nest=True, ancestors=(), is_approved_by_person=True) == plan
