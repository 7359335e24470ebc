"""Plans as graphs, and which may be executed; whatever is written, the worst result is a refusal."""

import re
import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activities.contracts.cards import AgentCard, CrewCard
from activities.turn_kinds.plan import PlanAnswer, PlanTask
from activities.turn_kinds.protocol import SubtaskDraft
from chargehand.contracts import Plan, Tier
from tests.processor_time import processor_seconds
from tests.scripted_model import ALLOWANCE, plan
from workflows.rules.plan_validation import Funds, InvalidPlan, check_plan, is_vague

CREW = CrewCard(
    name="research",
    tier=Tier.MEDIUM,
    agents=(
        AgentCard(name="reader", tools=("search",), tier=Tier.SMALL, prompt_bytes=1),
        AgentCard(name="writer", tier=Tier.SMALL, prompt_bytes=1),
    ),
    prompt_bytes=1,
)
TOO_FEW = (
    "subtasks: they take at least {} turns ({}, for_each 1 more), "
    "but {} were left; write fewer, and name what has no room in omitted"
)
VAGUE = "the instruction is too vague; name its object, and what a good answer contains"


def _subtask(id_: str = "T1", **changes: Any) -> SubtaskDraft:
    own: dict[str, Any] = {"instruction": f"Find the fact of {id_}", "depends_on": [], "required": [], "for_each": ""}
    return SubtaskDraft.model_validate({"id": id_, "agent": "reader", **own, **changes})


def _check(draft: PlanAnswer | Plan, **changes: Any) -> Plan:
    facts: dict[str, Any] = {"crew": CREW, "turns": 20, "may_nest": True, "ancestors": ()}
    return check_plan(draft, **facts | changes)


def _errors(draft: PlanAnswer | Plan, **changes: Any) -> tuple[str, ...]:
    with pytest.raises(InvalidPlan) as caught:
        _check(draft, **changes)
    return caught.value.errors


def test_a_draft_with_one_mistake_is_refused_for_that_mistake_only() -> None:
    cases: list[tuple[list[SubtaskDraft], str]] = [
        ([], "subtasks: there are none; a plan has at least one"),
        (
            [_subtask(agent="pirate")],
            "subtask T1: there is no agent 'pirate'; the agents are reader, supervisor, writer",
        ),
        # In any script.
        *(
            ([_subtask(instruction=vague)], f"subtask T1: {VAGUE}")
            for vague in ("", "Do it", "做吧", "やれ", "해", "делай")
        ),
        ([_subtask(instruction="- - - . . . ? ! x y z")], f"subtask T1: {VAGUE}"),
        ([_subtask("T1"), _subtask("T1", instruction="Find something else")], "subtask T1: the id occurs 2 times"),
        (
            [_subtask("T1"), _subtask("T2", instruction="find the FACT of T1!")],
            "subtask T2: gives the same agent the same task as T1",
        ),
        ([_subtask("T1", depends_on=["T9"])], "subtask T1: depends on 'T9', which is not in the plan"),
        (
            [_subtask("T1"), _subtask("T2", required=["T1"])],
            "subtask T2: requires 'T1', which is not among its depends_on",
        ),
        ([_subtask("T1", depends_on=["T1"])], "depends_on: T1 -> T1 is a cycle; no subtask of it could ever start"),
        (
            [_subtask("T1", depends_on=["T3"]), _subtask("T2", depends_on=["T1"]), _subtask("T3", depends_on=["T2"])],
            "depends_on: T1 -> T2 -> T3 -> T1 is a cycle; no subtask of it could ever start",
        ),
        ([_subtask("1")], "subtasks.0.id: must be an id such as T1: a letter, then at most 19 letters, digits, _ or -"),
        ([_subtask(instruction="word " * 1_000)], "subtasks.0.instruction: must have at most 4000 characters"),
        (
            [_subtask(instruction="Find this\x00 fact")],
            "subtasks.0.instruction: has a control character (U+0000 at 10); remove it",
        ),
    ]
    for subtasks, error in cases:
        assert _errors(plan(*subtasks)) == (error,)


def test_a_plan_must_fit_into_the_remaining_turns() -> None:
    """An agent with tools or a nested session counts three, any other agent one, a started subtask none."""
    agents = ("reader", "writer", "supervisor")
    draft = plan(*(_subtask(f"T{number}", agent=agent) for number, agent in enumerate(agents)))
    passed = [_check(draft, turns=7), _check(draft, turns=3, begun={"T0", "T1"})]
    found = [_errors(draft, turns=6), _errors(draft, turns=3, begun={"T0"})]

    assert [len(plan.subtasks) for plan in passed] == [3, 3]
    assert found == [
        (TOO_FEW.format(7, "the reader 3, the supervisor 3, the writer 1", 6),),
        (TOO_FEW.format(4, "the supervisor 3, the writer 1", 3),),
    ]


@given(rounds=st.integers(1, 10), turns=st.integers(6, 40))
def test_a_planner_is_told_the_turn_costs_that_validation_uses(rounds: int, turns: int) -> None:
    """As many agents as fit by that arithmetic pass and one more does not, however few turns an agent has."""
    allowance = ALLOWANCE.replace(turns=turns, max_rounds=rounds)
    [told] = PlanTask(goal="g", max_subtasks=2, allowance=allowance, may_nest=True).sections(None)
    [count, nested] = map(int, re.findall(r"counts as (\d+)", told))
    crew = CREW.replace(agents=(CREW.agents[0].replace(rounds=rounds), *CREW.agents[1:]))
    subtasks = [_subtask(f"T{number}", agent="reader" if number else "supervisor") for number in range(turns + 2)]
    fits, exceeds = (plan(*subtasks[: (turns - nested) // count + size]) for size in (1, 2))

    assert count == min(3, rounds)
    assert _check(fits, crew=crew, turns=turns).subtasks
    assert f"(the reader {count}, the supervisor {nested}, " in _errors(exceeds, crew=crew, turns=turns)[0]


@given(readers=st.integers(1, 9), cents=st.integers(0, 200))
def test_a_plan_with_several_agents_must_fit_into_the_remaining_dollars(readers: int, cents: int) -> None:
    draft = plan(*(_subtask(f"T{number}") for number in range(readers)))
    usd, others = Decimal(cents) / 100, (readers - 1) * Decimal("0.10")
    funds = Funds(usd, Decimal("0.30"), others)

    if readers == 1 or 20 + 10 * readers <= cents:
        assert len(_check(draft, turns=27, funds=funds).subtasks) == readers
    else:
        [error] = _errors(draft, turns=27, funds=funds)
        assert f"($0.3000 to start the first, ${others:.4f} for the others), but ${usd:.4f} was left" in error


def test_a_draft_is_refused_with_all_its_mistakes_at_once() -> None:
    """A single further turn can then correct them all."""
    draft = plan(
        _subtask("T1", agent="pirate", depends_on=["T2"]),
        _subtask("T2", instruction="Do it", depends_on=["T1", "T7"]),
        _subtask("T2", required=["T1"]),
        strategy="vote",
    )
    found = _errors(draft, turns=2)

    assert found == (
        TOO_FEW.format(6, "the reader 3", 2),
        "strategy: must be 'merge', 'select', 'reduce' or 'deliver'",
        "subtask T1: there is no agent 'pirate'; the agents are reader, supervisor, writer",
        f"subtask T2: {VAGUE}",
        "subtask T2: the id occurs 2 times",
        "subtask T2: depends on 'T7', which is not in the plan",
        "subtask T2: requires 'T1', which is not among its depends_on",
    )


TEXT = st.text(max_size=30) | st.sampled_from(
    ["T1", "T2", "reader", "supervisor", "x" * 5_000, "../../etc", "reader/1", "\x00\x1b[31m", "Find the fact of T1"]
)
SUBTASKS = st.builds(
    SubtaskDraft,
    id=TEXT,
    agent=TEXT,
    instruction=TEXT,
    depends_on=st.lists(TEXT, max_size=4),
    required=st.lists(TEXT, max_size=4),
)


@given(
    draft=st.builds(
        PlanAnswer,
        subtasks=st.lists(SUBTASKS, max_size=6),
        strategy=TEXT,
        final_instruction=TEXT,
        omitted=st.lists(TEXT, max_size=2),
    )
)
def test_any_draft_is_accepted_or_refused(draft: PlanAnswer) -> None:
    plan, errors = None, ()
    try:
        plan = _check(draft, turns=5, may_nest=False)
    except InvalidPlan as error:
        errors = error.errors

    assert (plan is None) == (1 <= len(errors) <= 20)
    assert all(told.isprintable() and len(told) < 1_000 for told in errors)
    assert plan is None or len(plan.subtasks) in range(1, 6)
    assert plan is None or {subtask.agent for subtask in plan.subtasks} <= {"reader", "writer"}


def test_a_huge_draft_is_refused_quickly() -> None:
    cases = [
        plan(*(_subtask(f"T{number}") for number in range(10_000))),  # 10,000 subtasks
        plan(_subtask(instruction="word " * 2_000_000)),  # 10 MB instruction
        plan(_subtask(depends_on=[f"U{number}" for number in range(200_000)])),  # 200,000 inputs
        plan(
            *(_subtask(f"T{n}", depends_on=[f"T{m}" for m in range(200)] * 20) for n in range(200))
        ),  # everything needs everything
        plan(*(_subtask("T" * 5_000 + str(number)) for number in range(200))),  # 5 KB ids
    ]
    for draft in cases:
        with processor_seconds(1.5):
            found = _errors(draft)
        assert sum(map(len, found)) < 10_000


def test_the_deliver_strategy_must_name_a_subtask_of_the_plan() -> None:
    cases: list[tuple[str, str, str | None]] = [
        ("deliver", "T2", "T2"),
        ("merge", "T2", None),
        ("merge", "T9", None),
        ("merge", "", None),
    ]
    for strategy, deliver, kept in cases:
        draft = plan(_subtask("T1"), _subtask("T2", instruction="Write the letter to the landlord."), strategy=strategy)
        assert _check(draft.model_copy(update={"deliver": deliver})).deliver == kept
        [error] = _errors(draft.model_copy(update={"strategy": "deliver", "deliver": "T9"}))
        assert error == "deliver: 'T9' is not in the plan; name the subtask whose text is the report"


INSTRUCTIONS = tomllib.loads(Path(__file__).with_name("instructions.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("instruction", INSTRUCTIONS["fit_any_task"])
def test_vague_instructions_are_rejected(instruction: str) -> None:
    assert is_vague(instruction, has_inputs=False)


@pytest.mark.parametrize("instruction", INSTRUCTIONS["clear"])
def test_specific_instructions_are_not_vague(instruction: str) -> None:
    assert not is_vague(instruction, has_inputs=False)


def test_an_instruction_may_refer_to_its_inputs() -> None:
    assert not is_vague("Summarize all results in detail.", has_inputs=True)
    assert is_vague("Do it.", has_inputs=True)
