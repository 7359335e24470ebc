"""Authority only shrinks, and no agent combines private text, strangers' text and a way out."""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from activities.contracts.cards import AgentCard, CrewCard
from chargehand.contracts import Authority, Capability, Obligation, Plan, Subtask, Tier, ToolRule, Watched
from workflows.rules.authority import authority_of, delegate_authority, in_place_of, narrow_crew
from workflows.rules.information_flow import capabilities_of, leaks, reads_of
from workflows.rules.plan_validation import InvalidPlan, check_plan

_TOOLS = tuple(f"tool{number}" for number in range(4))
_CAPABILITIES: tuple[Capability, ...] = ("reads_untrusted", "reads_private", "reaches_out")


def _some(random: Random, items: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(item for item in items if random.random() < 0.5)


def _agent(random: Random, crew: str, name: str) -> AgentCard:
    tools = _some(random, _TOOLS)
    ruled = [tool for tool in tools if random.random() < 0.5]
    return AgentCard(
        name=name,
        tools=tools,
        tier=Tier.SMALL,
        fallback=random.choice(["a", "b", "c"]),
        capabilities=tuple(each for each in _CAPABILITIES if random.random() < 0.5),
        acting=tuple(tool for tool in tools if tool in _TOOLS[:2]),
        approvals=_some(random, tools),
        policy=tuple(Obligation(key=f"{crew}/{name}/{tool}", tool=tool, rule=ToolRule(tool=tool)) for tool in ruled),
        watched=tuple(Watched(tool=tool) for tool in _some(random, tools)),
        prompt_bytes=0,
    )


def _crew(random: Random, name: str) -> CrewCard:
    agents = tuple(_agent(random, name, each) for each in ("a", "b", "c"))
    return CrewCard(name=name, tier=Tier.SMALL, agents=agents, prompt_bytes=0)


def _escalations(card: AgentCard, above: Authority) -> Iterator[str]:
    """Name what an agent may do that a session above it may not; written from the rule's text, not its code."""
    yield from set(card.acting) - set(above.acting)
    yield from set(card.capabilities) - set(above.capabilities)
    yield from {tool for tool in card.tools if tool in above.approvals} - set(card.approvals)
    yield from {each.key for each in above.policy if each.tool in card.tools} - {each.key for each in card.policy}
    yield from {each.tool for each in above.watched if each.tool in card.tools} - {each.tool for each in card.watched}


def _takeover(card: AgentCard, planned: AgentCard) -> Iterator[str]:
    """Name what an agent gains by taking over the subtask of another."""
    shared = set(card.tools) & set(planned.tools)
    yield from set(card.acting) - set(planned.acting)
    yield from (set(planned.approvals) & shared) - set(card.approvals)
    yield from {each.key for each in planned.policy if each.tool in shared} - {each.key for each in card.policy}


@settings(max_examples=4 * settings().max_examples)
@given(st.integers(0, 2**64))
def test_no_nested_agent_has_more_authority_than_its_ancestors(seed: int) -> None:
    random = Random(seed)
    crew, above, replaced = _crew(random, "crew0"), list[Authority](), list[AgentCard]()
    authority = authority_of(crew, None)
    for depth in range(1, 3):
        for card in crew.agents:
            planned = random.choice(crew.agents)
            taking_over = in_place_of(card, planned)
            assert card.name == planned.name or not [*_takeover(taking_over, planned)]
            assert not [gained for each in above for gained in _escalations(taking_over, each)]
        if not crew.agents:
            return
        split = random.choice([None, *crew.agents])
        is_approved = random.random() < 0.5
        given_down = delegate_authority(authority, split, is_approved=is_approved)
        if is_approved and split and "reaches_out" not in split.capabilities:
            assert "reaches_out" not in given_down.capabilities
        above.append(given_down)
        replaced += [split] if split else []
        crew = narrow_crew(random.choice([crew, _crew(random, f"crew{depth}")]), given_down)
        authority = authority_of(crew, given_down)
        assert all(not [*_takeover(card, each)] for card in crew.agents for each in replaced)
        assert set(authority.acting) <= set(given_down.acting)
        assert set(authority.capabilities) <= set(given_down.capabilities)


_EACH: dict[str, tuple[Capability, ...]] = {
    "reader": ("reads_private",),
    "browser": ("reads_untrusted", "reaches_out"),
    "poster": ("reaches_out",),
    "writer": (),
}
CREW = CrewCard(
    name="c",
    tier=Tier.SMALL,
    agents=tuple(
        AgentCard(name=name, tier=Tier.SMALL, capabilities=able, prompt_bytes=1) for name, able in _EACH.items()
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


def test_a_subtask_that_could_leak_private_text_is_found() -> None:
    cases: list[tuple[list[str], set[Capability], Mapping[str, AbstractSet[str]]]] = [
        (["reader", "browser"], set(), {"T2": {"T1"}}),
        (["reader", "writer", "browser"], set(), {"T3": {"T2"}}),
        (["browser", "reader"], set(), {}),
        (["reader", "poster"], set(), {}),
        (["browser", "reader", "poster"], set(), {"T3": {"T2"}}),
        (["supervisor", "browser"], set(), {"T2": {"T1"}}),
        (["browser", "browser"], set(), {}),
        (["browser"], {"reads_private"}, {"T1": set()}),
    ]

    for agents, was_given, found in cases:
        assert leaks(_chain(*agents), CREW, frozenset(was_given)) == found


@given(st.lists(st.sampled_from([*_EACH, "supervisor"]), min_size=1, max_size=8))
def test_every_leak_in_a_chain_of_subtasks_is_found(agents: list[str]) -> None:
    """I17: a subtask leaks if and only if it reaches out and both private and untrusted text were read by then."""
    found = leaks(_chain(*agents), CREW, frozenset())

    for number, agent in enumerate(agents, start=1):
        read = reads_of([capabilities_of(earlier, CREW) for earlier in agents[:number]], frozenset())
        reaches_out = "reaches_out" in capabilities_of(agent, CREW)
        assert (f"T{number}" in found) == (reaches_out and read == {"reads_private", "reads_untrusted"})


def test_a_leaking_plan_needs_approval() -> None:
    plan = Plan(subtasks=_chain("reader", "browser"))

    with pytest.raises(
        InvalidPlan, match="subtask T2: it reaches out, and its inputs include private text, brought by"
    ):
        check_plan(plan, CREW, turns=9, may_nest=True, ancestors=())

    assert check_plan(plan, CREW, turns=9, may_nest=True, ancestors=(), is_approved_by_person=True) == plan
