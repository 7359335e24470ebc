"""Rows 31 to 46 of the list of what Chargehand must do: contracts, routing, traces, crews. A test for each row."""

from datetime import timedelta
from pathlib import Path

import pytest

from activities.contracts.cards import AgentDraft
from activities.contracts.crew import Crew
from activities.contracts.tool import tool_capabilities
from activities.crews.checks import crew_warnings
from activities.crews.files import CrewError, load_crew, load_crews
from activities.turn_kinds.design_agents import DesignAnswer
from activities.turn_kinds.plan import PlanTask
from activities.turn_kinds.work import WorkTask
from benchmarks.evaluation.dataset import read_datasets
from chargehand.contracts import Limits, SessionRequest, Trace
from chargehand_plugins.testing import Script as Lines
from chargehand_plugins.testing import run_session
from chargehand_plugins.testing import subtask as planned
from tests.activities.models.test_jobs import Keeper, a_job, open_provider
from tests.environment import TOOLS
from tests.scripted_model import (
    Held,
    Script,
    ScriptedTool,
    answer,
    compressed,
    found,
    judged,
    plan,
    report,
    subtask,
    topics,
    use,
)
from tests.scripted_provider import Tokens
from tests.scripted_provider import answer as provided
from tests.simulation.directed import VirtualSession
from tests.workflows.conftest import OpenEnvironment, RunSession

ROOT = Path(__file__).resolve().parents[3]
GOAL = SessionRequest(goal="What do the documents say about the topics?", review="never")
ROOMY = GOAL.model_copy(update={"limits": Limits(max_turns=60)})
TOOL_KINDS = tool_capabilities({name: ScriptedTool(name, found("a", "b")) for name in TOOLS})
DOMAINS = (
    "competitive-intelligence",
    "contract-review",
    "curriculum",
    "patient-summary",
    "portfolio",
    "product-launch",
)


def desk(folder: Path, more: str = "", agents: int = 1) -> Path:
    """Write a crew of this many agents."""
    head = f'name = "desk"\ndescription = "Answers customers."\nguidance = "Plan little."\n{more}\n'
    each = '\n[[agents]]\nname = "agent{}"\ndescription = "Answers them well."\nprompt = "Answer them well."\n'
    file = folder / "desk.toml"
    file.write_text(head + "".join(each.format(number) for number in range(1, agents + 1)), encoding="utf-8")
    return file


async def test_row_31_task_contract(run: RunSession, tmp_path: Path) -> None:
    """A subtask has an id, an agent, an instruction, inputs, and constraints that hold: tokens, time, model; a request
    has a priority."""
    desk(tmp_path, "subtask_limits = true")
    bound = subtask("T1", "agent1").model_copy(update={"tier": "small", "deadline": 90.0, "max_output_tokens": 900})
    script = Script().plan(bound, subtask("T2", "agent1", ["T1"]))
    request = ROOMY.model_copy(update={"crew": "desk", "priority": 1})
    result, opened = await run(script, request, own_crews=(tmp_path,))

    first, second = opened.model.of_kind("work")
    assert (first.model, first.max_output_tokens) == ("scripted-small", 900)
    assert (second.model, second.max_output_tokens) == ("scripted-medium", 12_000)
    assert [(record.id, record.depends_on) for record in result.subtasks] == [("T1", ()), ("T2", ("T1",))]


async def test_row_32_result_contract(run: RunSession) -> None:
    """A result has findings with their confidence, tokens, duration and the model that was used."""
    script = Script().plan(*topics(2)).work("", use("search_documents"), answer("Known.", ref="search_documents.md#L1"))
    result, opened = await run(script.work("T2", answer("Known, too.")), ROOMY)

    read = opened.model.of_kind("synthesis")[0].messages[0].text
    assert "(confidence 80)" in read
    [first, _] = result.subtasks
    assert (first.usage.input_tokens, first.usage.output_tokens) == (200, 100)
    assert first.started_at is not None
    assert first.ended_at is not None
    assert first.ended_at > first.started_at
    assert {line.model for line in result.spend if line.purpose == "work"} == {"scripted-1"}


async def test_row_33_bounded_context(run: RunSession) -> None:
    """An agent is told its prompt, its task and the outcomes that it depends on, never another's conversation; agents
    of the six domain crews that read, compute or search are not told the request either."""
    asked = SessionRequest(goal="May our tenant Zibulski leave in May?", crew="contract-review", review="never")
    script = Script().plan(subtask("T1", "clause_reader"), subtask("T2", "risk_reviewer", ["T1"]))
    words = "The notice is three months."
    script = script.work("T1", use("search_documents"), answer(words)).work("T2", answer("Not in May."))
    _, opened = await run(script, asked)

    texts = {
        call.agent: "\n".join([call.system, *(message.text for message in call.messages)])
        for call in opened.model.of_kind("work")
    }
    assert "Zibulski" not in texts["clause_reader"]
    assert "Zibulski" in texts["risk_reviewer"]
    assert words in texts["risk_reviewer"]
    assert "what search_documents read" not in texts["risk_reviewer"]
    tasks = {task.instruction: [each.id for each in task.inputs] for task in opened.model.tasks(WorkTask)}
    assert tasks == {subtask("T1").instruction: [], subtask("T2").instruction: ["T1"]}
    crews = load_crews([ROOT / "crews"], TOOL_KINDS)
    assert all(any(not agent.sees_goal for agent in crews[name].agents) for name in DOMAINS)


async def test_row_34_stateless_agents(environment: OpenEnvironment) -> None:
    """Each turn is told all that it needs: a worker that forgets every session after each step comes to the same."""
    script = Script().plan(*topics(2)).work("", use("search_documents"), answer("Known.", ref="search_documents.md#L1"))
    reports = list[tuple[str, int, tuple[str, ...]]]()
    for kept in (1_000, 0):
        async with environment(script, cached_workflows=kept) as opened:
            result = await opened.run(ROOMY)
            reports.append((result.answer, len(opened.model.calls), tuple(source.ref for source in result.sources)))

    assert reports[0] == reports[1]


@pytest.mark.parametrize(("goal", "by"), [("Where is my INVOICE?", "rule"), ("What is this about?", "fallback")])
async def test_row_35_routing(run: RunSession, tmp_path: Path, goal: str, by: str) -> None:
    """A fixed rule takes no model; a model routes the rest, and if its reply is no JSON the fallback agent gets the
    request after one turn."""
    rule = '[[routing.rules]]\nmatch = ["*invoice*"]\nagents = ["agent2"]\n'
    routing = f'[routing]\notherwise = "model"\nfallback = "agent1"\n{rule}'
    desk(tmp_path, routing, agents=2)
    result, opened = await run(
        Script().on("route", answer("Never mind.")),
        SessionRequest(goal=goal, crew="desk", review="never"),
        own_crews=(tmp_path,),
    )

    expected = {"rule": (["work"], "agent2"), "fallback": (["route", "work"], "agent1")}
    assert ([call.task.kind for call in opened.model.calls], result.subtasks[0].agent) == expected[by]
    assert result.routes[-1].by == by


async def test_row_36_nested_supervisors(run: RunSession) -> None:
    """Sessions nest 5 deep at most, or as deep as the request says: at the last level none is offered."""
    assert Limits().max_depth == 5
    inner = subtask("N1", "supervisor", instruction="Look into the second topic as a whole.")
    request = GOAL.model_copy(update={"limits": Limits(max_depth=2)})
    result, opened = await run(Script().plan(subtask("X1")).plan(inner, goal=GOAL.goal), request)

    assert [task.may_nest for task in opened.model.tasks(PlanTask)] == [True, False]
    assert [record.state for record in result.subtasks] == ["success"]
    used = {use.limit: (use.used, use.allowed) for use in result.limits}
    assert used["max_depth"] == (2, 2)


@pytest.mark.parametrize(("agents", "verdict"), [(7, "fine"), (8, "warned"), (11, "refused")])
def test_row_37_agents_per_supervisor(tmp_path: Path, agents: int, verdict: str) -> None:
    """Up to 7 are fine, above that their author is warned, and above 10 the crew is refused."""
    file = desk(tmp_path, agents=agents)
    if verdict == "refused":
        with pytest.raises(CrewError):
            load_crew(file, TOOL_KINDS)
        return
    crew: Crew = load_crew(file, TOOL_KINDS)

    assert bool(crew_warnings(crew)) is (verdict == "warned")


async def test_row_38_dynamic_agent_factory(environment: OpenEnvironment) -> None:
    """A model describes an agent for the request: it is planned for, told its own prompt, and has its own tools only;
    one more turn is all that it costs. (The ten tasks by which it is compared with a fixed crew are not here.)"""
    prompt = "Look at the layers first, then at the maps. Say how sure you are of each age."
    draft = AgentDraft(
        name="geologist",
        description="Knows rocks and their ages.",
        prompt=prompt,
        tools=["read_document"],
        tier="large",
    )
    script = Script().on("design", DesignAnswer(agents=[draft]))
    script = script.plan(subtask("T1", "geologist"), subtask("T2", "reader", after=["T1"]))
    async with environment(script.work("T1", use("read_document"), answer("Old."), agent="geologist")) as opened:
        result = await opened.run(SessionRequest(goal="How old are the rocks?", crew="custom", review="never"))
        own = [call for call in opened.model.of_kind("work") if call.agent == "geologist"]

    assert [(record.agent, record.state) for record in result.subtasks] == [
        ("geologist", "success"),
        ("reader", "success"),
    ]
    assert all(prompt in call.system for call in own)
    assert [[tool.name for tool in call.tools if tool.name != "note"] for call in own] == [["read_document"]] * 2
    assert opened.model.of_kind("plan")[0].agent_names[:2] == ("reader", "geologist")
    assert len(opened.model.of_kind("design")) == 1


async def test_row_39_model_tiers(run: RunSession) -> None:
    """3 tiers: the supervisor plans and writes on the middle one, a reader and the summariser work on the small one, a
    reviewer on the large one, and an unsure answer is tried again one tier up."""
    unsure = answer("Perhaps.", status="confidence_too_low")
    script = Script().plan(subtask("T1"), subtask("T2", "reviewer", ["T1"]), subtask("T3"))
    script = script.on("judge", judged("A1")).on("compress", compressed("Short.")).work("T3", unsure)
    _, opened = await run(script, ROOMY)

    models = {(call.task.kind, call.agent, call.model.removeprefix("scripted-")) for call in opened.model.calls}
    assert {("plan", "supervisor", "medium"), ("synthesis", "supervisor", "medium")} <= models
    assert {("work", "reader", "small"), ("work", "reader", "medium"), ("work", "reviewer", "large")} <= models


@pytest.mark.real_server
async def test_row_40_execution_trace(environment: OpenEnvironment) -> None:
    """One JSON document with the plan, each subtask, turn and tool call with its result, each below its parent, and the
    tags: session, agent, hash of the task."""
    script = Script().plan(subtask("T1"), subtask("T2", "analyst")).work("", use("search_documents"), answer("Known."))
    async with environment(script.work("", answer("So."), agent="analyst")) as opened:
        session = await opened.chargehand.start(GOAL)
        await session.result()
        trace = Trace.model_validate_json((await session.trace()).model_dump_json())

    steps = {step.id: step for step in trace.steps}
    assert all(step.parent in steps for step in trace.steps[1:])
    assert trace.steps[0].parent is None
    assert {"session", "subtask", "turn", "tool"} <= {step.kind for step in trace.steps}
    assert {step.purpose for step in trace.steps if step.kind == "turn"} >= {"plan", "work", "synthesis"}
    [read] = [step for step in trace.steps if step.tool]
    assert read.result is not None
    subtasks = [step for step in trace.steps if step.kind == "subtask"]
    assert {step.agent for step in subtasks} == {"reader", "analyst"}
    assert len({step.task_hash for step in subtasks}) == 2
    assert [each.id for each in trace.steps[0].plan] == ["T1", "T2"]


def test_row_41_speed_up() -> None:
    """What takes 60 seconds one after another takes 20 side by side, 10 of them for plan and report; the report says
    how much faster that was."""
    held = Held(answer("Known."), seconds=10)
    script = Script().plans(Held(plan(*topics(5)), seconds=5)).work("", held)
    timing = VirtualSession(ROOMY, script.synthesis(Held(report("All of it."), seconds=5))).report().timing

    assert timing.subtasks_one_after_another == pytest.approx(timedelta(seconds=50), abs=timedelta(seconds=1))
    assert timing.wall == pytest.approx(timedelta(seconds=20), abs=timedelta(seconds=1))
    assert timing.critical_path == pytest.approx(timedelta(seconds=10), abs=timedelta(seconds=1))
    assert timing.speed_up == pytest.approx(3, abs=0.2)


@pytest.mark.real_server
async def test_row_42_streaming_progress(environment: OpenEnvironment) -> None:
    """Followers are told of each state of the session and of each subtask, in order, up to the report."""
    async with environment(Script().plan(*topics(2))) as opened:
        session = await opened.chargehand.start(GOAL)
        events = [event async for event in session.follow()]

    states = [getattr(event, "state", "") for event in events if getattr(event, "subtask", "") == ""]
    assert [state for state in states if state in {"planning", "executing", "finished"}] == [
        "planning",
        "executing",
        "finished",
    ]
    for id_ in ("T1", "T2"):
        own = [getattr(event, "state", "") for event in events if getattr(event, "subtask", "") == id_]
        assert own.index("running") < own.index("success")


def test_row_43_evaluation() -> None:
    """Labelled requests for routing, good plans, and golden answers with words that are wrong, end to end."""
    cases = {name: dataset.cases for name, dataset in read_datasets(()).items()}
    routing = next(found for name, found in cases.items() if name.startswith("routing"))
    all_cases = [case for found in cases.values() for case in found]

    assert len(routing) >= 100
    assert all(case.agents for case in routing)
    assert any(case.plan for case in all_cases)
    assert any(case.answer and case.wrong for case in all_cases)


async def test_row_44_batch_mode() -> None:
    """A call that is not urgent goes through Anthropic's batches, at 50 % of the price."""
    reply = provided("At eight.").using(Tokens(input=1_000, output=200))
    async with open_provider("batch", lambda _: reply) as (server, model):
        job = a_job("batch", Keeper())
        batched = await model.complete(job)
        urgent = await model.complete(job.model_copy(update={"urgency": "now", "job": None}))

        assert len(server.jobs.all) == 1
    assert batched.usage is not None
    assert urgent.usage is not None
    assert 2 * batched.usage.cost_usd == urgent.usage.cost_usd > 0


@pytest.mark.parametrize("name", DOMAINS)
def test_row_45_six_variants(name: str) -> None:
    """Each of the six domains has its crew of three agents and more, its example documents, and a tape to replay."""
    crew = load_crews([ROOT / "crews"], TOOL_KINDS)[name]

    assert len(crew.agents) >= 3
    assert crew.disclaimer
    assert (ROOT / "examples" / "tapes" / f"{name}.jsonl").is_file()
    assert any((ROOT / "examples" / name).iterdir())


async def test_row_46_when_not_to_use_it() -> None:
    """The page says that under 50,000 tokens without tools one call is better; and a request that one agent can answer
    costs no more than its plan and its answer."""
    page = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
    assert "under 50,000 tokens and needs no tools | one call of your provider's own SDK" in page

    request = SessionRequest(goal="Write a greeting to the tenants.", review="never")
    result = await run_session(request, Lines().plan(planned("T1", "writer", "Write a greeting to the tenants.")))

    assert [turn.kind for turn in result.turns] == ["plan", "work"]
