"""A crew file's rules apply in its sessions, and data is passed in and out by schema."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from pydantic import BaseModel, JsonValue

from activities.contracts.cards import AgentCard, CrewCard
from activities.crews.files import CrewError, load_crews
from activities.turn_kinds.plan import PlanTask
from activities.turn_kinds.protocol import SubtaskDraft
from activities.turn_kinds.synthesis import OutputTask
from activities.turn_kinds.work import WorkAnswer, WorkTask
from chargehand import OutputInvalid, SessionFailed
from chargehand.contracts import JsonSchema, Limits, SessionRequest, Tier, Tiers
from tests.crew_files import READS_DOCUMENTS
from tests.crew_files import crew_folder as crew_folder_of
from tests.scripted_model import Script, answer, output, plan, report, subtask, topics, use, work_task
from tests.workflows.conftest import OpenEnvironment, RunSession
from workflows.rules.plan_validation import InvalidPlan, check_plan

CLERK = """input = { type = "object", properties = { invoice = { type = "string" } }, required = ["invoice"] }
output = { type = "object", properties = { total = { type = "number" } }, required = ["total"] }"""
OFFICE = ("subtask_limits = true", CLERK)
GOAL = SessionRequest(goal="What do the two invoices come to?", crew="office", review="never")


@pytest.fixture
def crew_folder(tmp_path: Path) -> Path:
    return crew_file(tmp_path, *OFFICE)


def crew_file(folder: Path, settings: str, clerk: str) -> Path:
    return crew_folder_of(folder, "office", settings, clerk=clerk, writer="")


def clerk(id_: str, invoice: str, **more: object) -> SubtaskDraft:
    plain = subtask(id_, "clerk", instruction="Add up the lines of the invoice that you are given.")
    return SubtaskDraft.model_validate(plain.model_dump() | {"input": f'{{"invoice": "{invoice}"}}', **more})


def adding(data: JsonValue, **more: object) -> WorkAnswer:
    return answer("It comes to that.").model_copy(update={"data": data, **more})


async def test_typed_data_is_passed_between_subtasks_by_schema(run: RunSession, crew_folder: Path) -> None:
    """Subtasks that differ only in their data are distinct; a dependent agent gets the data of each."""
    letter = subtask("T3", "writer", after=["T1", "T2"])
    script = Script().plan(clerk("T1", "A"), clerk("T2", "B"), letter).synthesis(report("Done."))
    script = script.work("Add up", lambda call: adding({"total": len(str(work_task(call).input))}))
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
async def test_an_agents_invalid_data_is_corrected_at_most_twice(
    run: RunSession, crew_folder: Path, given: Sequence[JsonValue], turns: int, state: str
) -> None:
    """Each error is named to the agent; without valid data the subtask fails with that reason and keeps its text."""
    script = Script().plan(clerk("T1", "A")).work("", *map(adding, given))
    request = GOAL.model_copy(update={"limits": Limits(max_attempts=1)})
    result, opened = await run(script, request, own_crews=(crew_folder,))

    [record] = result.subtasks
    told = work_task(opened.model.of_kind("work")[-1]).rounds
    problem = "the data of the reply is not valid: data.total: '12' is not of type 'number'"
    assert [past.correction for past in told] == [problem] * (turns - 1)
    assert (record.state, record.reason) == (state, "" if state == "success" else "invalid_output")
    assert "It comes to that." in result.answer


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"input": '{"invoice": 3}'}, "subtask T1: input.invoice: 3 is not of type 'string'"),
        ({"input": ""}, "subtask T1: input: 'invoice' is a required property"),
        ({"input": "{"}, "subtasks.0.input: is not JSON"),
        ({"agent": "writer"}, "subtask T1: input: the agent 'writer' takes none; leave it empty"),
        ({"deadline": 100_000}, "subtasks.0.deadline: must be less than or equal to 1 day"),
        ({"tier": "huge"}, "subtasks.0.tier: must be 'small', 'medium' or 'large'"),
    ],
)
def test_a_plan_with_invalid_data_is_refused(wrong: dict[str, JsonValue], error: str) -> None:
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
async def test_a_subtask_can_have_its_own_limits_within_the_sessions(
    environment: OpenEnvironment, crew_folder: Path
) -> None:
    """Tier and output tokens come from the plan; a tier that the user sets for the agent takes precedence."""
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
        ("output = ", 'fallback = "writer"\noutput = ', "'writer' has another input or output"),
        (
            "subtask_limits = true",
            '[routing]\nrules = [{ match = ["*"], agents = ["clerk"] }]',
            r"routing\.rules\.0\.agents: the agent 'clerk' requires input",
        ),
    ],
)
def test_a_crew_with_invalid_schemas_is_refused(tmp_path: Path, old: str, new: str, problem: str) -> None:
    """This happens at worker startup, with the location in the file."""
    settings, clerk = (part.replace(old, new, 1) for part in OFFICE)
    assert (settings, clerk) != OFFICE

    with pytest.raises(CrewError, match=problem):
        load_crews([crew_file(tmp_path, settings, clerk)], {})


class Notice(BaseModel):
    months: int
    party: str | None = None


OUTPUT_GOAL = SessionRequest(goal="How long is the notice period?", review="never")
ASKED = OUTPUT_GOAL.model_copy(update={"output_schema": Notice.model_json_schema()})
ONE = Script().plan(subtask("T1")).work("", answer("Three months."))


@pytest.mark.parametrize(
    ("script", "kinds"),
    [
        pytest.param(ONE, ["plan", "work", "output"], id="the text of a lone agent"),
        pytest.param(Script().plan(*topics(2)), ["plan", "work", "work", "synthesis", "output"], id="a synthesis"),
    ],
)
async def test_a_pydantic_output_model_is_returned_as_an_instance(
    environment: OpenEnvironment, script: Script, kinds: list[str]
) -> None:
    """The client sends the model's schema and validates the output; the report is written as usual."""
    async with environment(script.on("output", output({"months": 3, "party": None}))) as opened:
        found = await opened.chargehand.run(OUTPUT_GOAL, output=Notice)

    assert found == Notice(months=3)
    assert [call.task.kind for call in opened.model.calls] == kinds


@pytest.mark.parametrize(
    ("given", "turns", "found", "problems"),
    [
        pytest.param([{"months": "3"}, {"months": 3}], 2, {"months": 3}, (), id="the second is valid"),
        pytest.param(['{"months": 3}'], 1, {"months": 3}, (), id="as JSON text"),
        pytest.param([{"months": "3"}] * 4, 3, None, ("data.months: '3' is not of type 'integer'",), id="none"),
        pytest.param([None], 3, None, ("data: None is not of type 'object'",), id="nothing"),
    ],
)
async def test_an_invalid_output_is_corrected_at_most_twice(
    run: RunSession, given: list[JsonValue], turns: int, found: JsonValue, problems: tuple[str, ...]
) -> None:
    """The model gets each error with its location; without valid output, the session says so and keeps the text."""
    result, opened = await run(ONE.on("output", *map(output, given)), ASKED)

    tasks = opened.model.tasks(OutputTask)
    assert (result.output, result.output_problems) == (found, problems)
    assert result.stop_reason == ("invalid_output" if problems else "completed")
    assert result.answer == "Three months."
    assert len(tasks) == turns
    assert all("data" in rejected.errors for rejected in tasks[-1].rejected)
    assert result.usage.turns == 2 + turns


async def test_a_required_value_that_was_not_found_is_not_invented(environment: OpenEnvironment) -> None:
    """There is then no output, and the client's error contains the report."""
    async with environment(ONE.on("output", output({"months": 0}, "No period is named."))) as opened:
        with pytest.raises(OutputInvalid, match="No period is named") as failed:
            await opened.chargehand.run(OUTPUT_GOAL, output=Notice)

    assert failed.value.report.stop_reason == "invalid_output"
    assert failed.value.report.answer == "Three months."


async def test_a_session_always_reserves_a_turn_for_its_output(environment: OpenEnvironment) -> None:
    """It does so from the start, and agents cannot use that turn."""
    script = ONE.work("", answer("Three months.")).on("output", output({"months": 3}))
    async with environment(script) as opened:
        smallest = ASKED.model_copy(update={"limits": Limits(max_turns=4)})
        result = await opened.run(smallest)
        with pytest.raises(SessionFailed, match="max_turns 4"):
            await opened.run(ASKED.model_copy(update={"limits": Limits(max_turns=3)}))

    assert result.output == {"months": 3}
    assert result.reserved_usd == 0


YEAR = "What do the documents say about the topics of this year?"
SETTINGS = """profile = "quick"
strategy = "deliver"
confidence_threshold = 60
nested = "research"
limits = { max_parallel = 2, max_turns = 12 }"""
READER = f'tools = ["read_document"]\n{READS_DOCUMENTS}\ntier = "small"\nrounds = 2\nsees_goal = false'


@pytest.fixture
def crews(tmp_path: Path) -> tuple[Path, ...]:
    """Return a folder with the crew."""
    return (crew_folder_of(tmp_path, "letters", SETTINGS, reader=READER, writer=""),)


async def test_limits_come_from_the_request_then_the_crew_then_the_profile(
    run: RunSession, crews: tuple[Path, ...]
) -> None:
    """A request that names a profile gets that profile's limits instead of the crew's."""
    own = SessionRequest(goal=YEAR, crew="letters", limits=Limits(max_parallel=3))
    profile = SessionRequest(goal=YEAR, crew="letters", profile="standard")
    for request, expected in ((own, (3, 12, 4, 0.25)), (profile, (5, 20, 10, 2))):
        result, _ = await run(Script().plan(subtask("T1", "writer")), request, own_crews=crews)
        allowed = {use.limit: use.allowed for use in result.limits}
        assert tuple(allowed[name] for name in ("max_parallel", "max_turns", "max_rounds", "budget_usd")) == expected


async def test_the_crews_strategy_overrides_the_planners(run: RunSession, crews: tuple[Path, ...]) -> None:
    """This crew delivers a text, so a plan that names none is sent back, whatever strategy it chose."""
    subtasks = subtask("T1"), subtask("T2", "writer", ["T1"])
    good = plan(*subtasks).model_copy(update={"deliver": "T2"})
    script = Script().plans(plan(*subtasks), good).work("T2", answer("Dear customer, it is so."))
    result, opened = await run(script, SessionRequest(goal=YEAR, crew="letters"), own_crews=crews)

    repaired = opened.model.tasks(PlanTask)[-1].rejected
    assert [error.partition(":")[0] for attempt in repaired for error in attempt.errors] == ["deliver"]
    assert result.answer.startswith("Dear customer, it is so.")


async def test_an_agents_round_limit_and_hidden_goal_are_respected(run: RunSession, crews: tuple[Path, ...]) -> None:
    """Its second round is its last, and nothing that it is sent contains the request."""
    script = Script().plan(subtask("T1")).work("T1", use("read_document"), answer("It is so."))
    _, opened = await run(script, SessionRequest(goal=YEAR, crew="letters"), own_crews=crews)

    calls = opened.model.of_kind("work")
    assert [call.task.must_answer for call in calls if isinstance(call.task, WorkTask)] == [False, True]
    assert not any(YEAR in message.text for call in calls for message in call.messages)


async def test_an_answer_below_the_threshold_is_retried_on_a_stronger_tier(
    run: RunSession, crews: tuple[Path, ...]
) -> None:
    """An agent that is less confident than its crew requires gets a second attempt on the next tier."""
    unsure = answer("It may be so.").model_copy(update={"confidence": 59})
    script = Script().plan(subtask("T1", "writer"))
    script = script.work("T1", lambda call: answer("It is so.") if call.model == "scripted-large" else unsure)
    result, opened = await run(script, SessionRequest(goal=YEAR, crew="letters"), own_crews=crews)

    assert [call.model for call in opened.model.of_kind("work")] == ["scripted-medium", "scripted-large"]
    assert result.answer.startswith("It is so.")


async def test_a_nested_session_uses_the_nested_crew(run: RunSession, crews: tuple[Path, ...]) -> None:
    """Its agents are those of the crew that the outer crew names."""
    whole = subtask("T1", "supervisor", instruction="Look into the survey as a whole, with all that belongs to it.")
    script = Script().plan(whole).plan(subtask("T1", "analyst"), goal="Look into the survey")
    request = SessionRequest(goal=YEAR, crew="letters", profile="standard")
    result, opened = await run(script, request, own_crews=crews)

    assert [call.agent for call in opened.model.of_kind("work")] == ["analyst"]
    assert result.stop_reason == "completed"
