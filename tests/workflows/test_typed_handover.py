"""Agents that take and give data: by schemas of their crew, checked before and after, and limits of their own."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from pydantic import JsonValue

from activities.contracts.cards import AgentCard, CrewCard
from activities.contracts.drafts import SubtaskDraft
from activities.crews.files import CrewError, load_crews
from activities.turn_kinds.work import WorkAnswer
from chargehand.contracts import JsonSchema, Limits, SessionRequest, Tier, Tiers
from tests.scripted_model import Script, answer, plan, report, subtask, work_task
from tests.workflows.conftest import OpenEnvironment, RunSession
from workflows.rules.plan_validation import InvalidPlan, check_plan

CREW = """
name = "office"
description = "Adds up invoices and says what they come to."
guidance = "One subtask for each invoice."
subtask_limits = true

[[agents]]
name = "clerk"
description = "Adds up the lines of one invoice."
prompt = "Add up the lines of the invoice that you are given."
input = { type = "object", properties = { invoice = { type = "string" } }, required = ["invoice"] }
output = { type = "object", properties = { total = { type = "number" } }, required = ["total"] }

[[agents]]
name = "writer"
description = "Writes letters about invoices."
prompt = "Write a letter about what others have found."
"""
GOAL = SessionRequest(goal="What do the two invoices come to?", crew="office", review="never")


@pytest.fixture
def crew_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "crews"
    folder.mkdir()
    (folder / "office.toml").write_text(CREW, encoding="utf-8")
    return folder


def clerk(id_: str, invoice: str, **more: object) -> SubtaskDraft:
    plain = subtask(id_, "clerk", instruction="Add up the lines of the invoice that you are given.")
    return SubtaskDraft.model_validate(plain.model_dump() | {"input": f'{{"invoice": "{invoice}"}}', **more})


def adding(data: JsonValue, **more: object) -> WorkAnswer:
    return answer("It comes to that.").model_copy(update={"data": data, **more})


async def test_data_goes_in_and_comes_out_by_schema(run: RunSession, crew_folder: Path) -> None:
    """Two subtasks that differ in their data only are two; an agent that depends on them is given what each gives."""
    letter = subtask("T3", "writer", after=["T1", "T2"])
    script = (
        Script()
        .plan(clerk("T1", "A"), clerk("T2", "B"), letter)
        .work("Add up", lambda call: adding({"total": len(str(work_task(call).input))}))
        .synthesis(report("Done."))
    )
    result, opened = await run(script, GOAL, own_crews=(crew_folder,))

    tasks = [work_task(call) for call in opened.model.of_kind("work")]
    assert [record.state for record in result.subtasks] == ["success"] * 3
    assert sorted(str(task.input) for task in tasks[:2]) == ["{'invoice': 'A'}", "{'invoice': 'B'}"]
    assert [given.outcome.data for given in tasks[2].inputs] == [{"total": 16}, {"total": 16}]
    assert '{"total":16}' in opened.model.of_kind("work")[2].messages[0].text


@pytest.mark.parametrize(
    ("given", "turns", "state"),
    [
        pytest.param([{"total": "12"}, {"total": 12}], 2, "success", id="the second is valid"),
        pytest.param([{"total": "12"}] * 4, 3, "failure", id="none is"),
    ],
)
async def test_invalid_data_of_an_agent_is_mended_twice_at_most(
    run: RunSession, crew_folder: Path, given: Sequence[JsonValue], turns: int, state: str
) -> None:
    """Each error is named to the agent; without valid data the subtask fails for that reason, and its text is kept."""
    script = Script().plan(clerk("T1", "A")).work("", *map(adding, given))
    result, opened = await run(
        script, GOAL.model_copy(update={"limits": Limits(max_attempts=1)}), own_crews=(crew_folder,)
    )

    [record] = result.subtasks
    told = work_task(opened.model.of_kind("work")[-1]).rounds
    assert [past.correction for past in told] == ["its data is not valid: data.total: '12' is not of type 'number'"] * (
        turns - 1
    )
    assert (record.state, record.reason) == (state, "" if state == "success" else "invalid_output")
    assert "It comes to that." in result.answer


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"input": '{"invoice": 3}'}, "subtask T1: input.invoice: 3 is not of type 'string'"),
        ({"input": ""}, "subtask T1: input: 'invoice' is a required property"),
        ({"input": "{"}, "subtasks.0.input: is not JSON"),
        ({"agent": "writer"}, "subtask T1: input: the agent 'writer' takes none; leave it empty"),
        ({"deadline": 100_000}, "subtasks.0.deadline: Input should be less than or equal to 1 day"),
        ({"tier": "huge"}, "subtasks.0.tier: Input should be 'small', 'medium' or 'large'"),
    ],
)
def test_a_plan_with_unusable_data_is_refused(wrong: dict[str, JsonValue], error: str) -> None:
    """The error names the subtask and the place in its data."""
    schema: JsonSchema = {"properties": {"invoice": {"type": "string"}}, "required": ["invoice"]}
    agents = (
        AgentCard(name="clerk", tier=Tier.SMALL, prompt_bytes=1, input=schema),
        AgentCard(name="writer", tier=Tier.SMALL, prompt_bytes=1),
    )
    crew = CrewCard(name="office", tier=Tier.SMALL, agents=agents, prompt_bytes=1)

    with pytest.raises(InvalidPlan) as refused:
        check_plan(plan(clerk("T1", "A", **wrong)), crew, turns=20, may_nest=False, ancestors=())

    assert refused.value.errors == (error,)


@pytest.mark.real_server
async def test_a_subtask_has_limits_of_its_own_within_the_sessions(
    environment: OpenEnvironment, crew_folder: Path
) -> None:
    """Its tier and its output tokens are those of the plan; a tier that the user sets for the agent comes first."""
    limited = clerk("T1", "A", tier="large", max_output_tokens=5_000, deadline=20)
    script = Script().plan(limited).work("", adding({"total": 1}))
    async with environment(script, own_crews=(crew_folder,)) as opened:
        await opened.run(GOAL)
        await opened.run(GOAL.model_copy(update={"tiers": Tiers(agents={"clerk": Tier.SMALL})}))

    first, second = opened.model.of_kind("work")
    assert (first.model, second.model) == ("scripted-large", "scripted-small")
    assert first.max_output_tokens <= 5_000
    assert first.timeout_seconds <= 20


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('{ type = "string" }', '{ "$ref" = "https://example.com" }', r"agents\.clerk\.input\.properties\.invoice"),
        ('{ type = "number" }', "{ type = 1 }", r"agents\.clerk\.output\.properties\.total\.type: "),
        ('name = "clerk"', 'name = "clerk"\nfallback = "writer"', "'writer' has another input or output"),
        (
            "subtask_limits = true",
            '[routing]\nrules = [{ match = ["*"], agents = ["clerk"] }]',
            r"routing\.rules\.0\.agents: the agent 'clerk' requires input",
        ),
    ],
)
def test_a_crew_with_unusable_schemas_is_refused(crew_folder: Path, old: str, new: str, problem: str) -> None:
    """When the worker starts, with the place in the file."""
    assert old in CREW
    (crew_folder / "office.toml").write_text(CREW.replace(old, new, 1), encoding="utf-8")

    with pytest.raises(CrewError, match=problem):
        load_crews([crew_folder], {})
