"""The list of what Chargehand must do, by row: which tests show it, and tests of rows not shown elsewhere."""

import tomllib
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Final

import pytest
from pydantic import BaseModel
from temporalio.client import Client

from activities.contracts.tool import tool_capabilities
from activities.crews.files import load_crews
from activities.models.failures import ProviderError, ProviderFault
from activities.models.protocol import ModelCall
from activities.turn.retry_policy import pause_after
from activities.turn_kinds.plan import PlanTask, RefineTask
from activities.turn_kinds.synthesis import CompressTask, SynthesisTask
from activities.turn_kinds.work import WorkTask
from chargehand.contracts import Limits, SessionRequest
from chargehand.tools import tool
from chargehand.wire import ErrorType
from chargehand_plugins import testing
from tests.crew_files import crew_folder
from tests.environment import PRICES, TOOLS, Backends, open_environment, scripted_cards
from tests.scripted_model import (
    COST,
    Script,
    ScriptedModel,
    ScriptedTool,
    answer,
    compressed,
    disagreement,
    found,
    judged,
    plan,
    refined,
    report,
    subtask,
    topics,
    use,
)
from tests.workflows.conftest import RunSession
from worker.composition import turns_queue
from worker.settings import Settings
from worker.workers import build_workers
from workflows.rules.inputs import rendered_tokens

GOAL = SessionRequest(goal="What do the documents say about the topics?", review="never")


@pytest.mark.parametrize(("minutes", "is_kept"), [(50, True), (61, False)])
async def test_row_13_shared_state(tmp_path: Path, minutes: int, is_kept: bool) -> None:  # noqa: FBT001  # a column
    """A later agent can read an earlier agent's full outcome for 1 hour after that agent has ended."""

    @tool(capabilities=[], approval=True)
    def stamp(letter: str) -> str:
        """Return a stamp for a letter."""
        return letter

    crews = crew_folder(tmp_path, "desk", reader="", writer='tools = ["recall", "stamp"]')
    limits = Limits(deadline=timedelta(hours=3))
    waiting = timedelta(minutes=minutes)
    request = SessionRequest(goal="Write to the tenants.", crew="desk", limits=limits, answer_within=waiting)
    script = testing.Script().plan(
        testing.subtask("T1", "reader", "Read the papers of the tenants."),
        testing.subtask("T2", "writer", "Write them a letter about it.", after=("T1",)),
    )
    # Time passes while a call waits for a person.
    wait, recall = testing.use("stamp", letter="A"), testing.use("recall", id="T1", page=1)
    script = script.work("Read", testing.answer("Three months."))
    script = script.work("letter", wait, recall, testing.answer("Dear tenants."))
    result = await testing.run_session(request, script, crews=crews, tools=[stamp])

    last = [turn.prompt for turn in result.turns if turn.agent == "writer"][-1]
    assert ("reader: success, confidence 80" in last) is is_kept
    assert ("it is no longer kept" in last) is not is_kept


def test_row_14_numbers_of_the_limits() -> None:
    """A request gets 20 turns, $2, 5 hops, 5 agents at once, 10 rounds an agent and 3 attempts a subtask."""
    limits = SessionRequest(goal="How deep is it?").limits

    assert (limits.max_turns, limits.budget_usd, limits.max_depth) == (20, 2, 5)
    assert (limits.max_parallel, limits.max_rounds, limits.max_attempts) == (5, 10, 3)


async def test_row_16_result_compression(run: RunSession) -> None:
    """Beyond 50,000 tokens, outcomes over 2,000 are summarised by the small tier for the writer."""
    sentence = "It is so in all of the harbours. "
    script = Script().plan(*topics(6)).work("", answer(sentence * 1_500)).work("T6", answer(sentence * 150))
    _, opened = await run(script, GOAL.model_copy(update={"limits": Limits(max_turns=40)}))

    shortened = opened.model.tasks(CompressTask)
    assert shortened
    assert {call.model for call in opened.model.of_kind("compress")} == {"scripted-small"}
    assert not any("T6" in task.instruction for task in shortened)
    [written] = opened.model.tasks(SynthesisTask)
    assert rendered_tokens(written) <= 52_000
    assert written.outcomes[-1].outcome.content == sentence * 150


ROOMY = GOAL.model_copy(update={"limits": Limits(max_turns=60)})
ALWAYS = GOAL.model_copy(update={"review": "always"})
BETTER = "Look in the second chapter of the handbook, and nowhere else."


async def test_row_18_retries(run: RunSession) -> None:
    """A failing provider is asked again after 1, 2 and 4 s; after 3 attempts a subtask fails, not the session."""
    busy = ProviderError("busy", ProviderFault(provider="scripted"), ErrorType.RATE_LIMITED)
    fails = [busy]

    def hesitate(_: ModelCall) -> BaseModel | Exception:
        return fails.pop() if fails else answer("Known.")

    script = Script().plan(*topics(2)).refine(refined(BETTER)).work("", answer("", status="no_answer"))
    result, opened = await run(script.work("T2", hesitate), ROOMY)

    ended = [(record.state, record.attempts, record.reason) for record in result.subtasks]
    assert ended == [("failure", 3, "no_answer"), ("success", 1, "")]
    lost, kept = result.subtasks
    assert lost.wasted == lost.usage
    assert (lost.wasted.turns, kept.wasted.turns, result.wasted.turns) == (3, 0, 3)
    assert not fails
    waits = [round(pause_after(count) / timedelta(seconds=1)) for count in (1, 2, 3)]
    assert waits == [1, 2, 4]
    assert (result.stop_reason, result.answer) == ("partial", "All of it.")
    assert len(opened.model.of_kind("synthesis")) == 1


async def test_row_19_retry_with_refinement(run: RunSession) -> None:
    """After the first failure the supervisor rewrites the instruction; only the first attempt is wasted."""
    script = Script().plan(subtask("T1")).refine(refined(BETTER))
    script = script.work("T1", use("search_documents"), answer("", status="no_answer")).work(BETTER, answer("Found."))
    result, opened = await run(script, ROOMY)

    [asked] = opened.model.tasks(RefineTask)
    assert asked.problem == "because of no_answer"
    assert asked.instruction == "Find out everything about topic T1 in the documents."
    assert result.answer == "Found."
    [record] = result.subtasks
    assert (record.state, record.attempts, record.usage.turns) == ("success", 2, 3)
    assert record.wasted == result.wasted
    assert (result.wasted.turns, result.wasted.cost_usd) == (2, 2 * COST)
    assert result.usage.turns == len(opened.model.calls)
    assert next(use.used for use in result.limits if use.limit == "max_attempts") == 2


async def test_row_23_rate_limiter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All workers together make 60 requests a minute if the operator allows one a second."""
    rates = dict[str, float | None]()

    def note(
        _: Client, *, task_queue: str, max_task_queue_activities_per_second: float | None, **_rest: object
    ) -> None:
        rates[task_queue] = max_task_queue_activities_per_second

    monkeypatch.setattr("worker.workers.Worker", note)
    settings = Settings(state_dir=tmp_path, requests_per_second=1)
    tools = {name: ScriptedTool(name, found("a", "b")) for name in TOOLS}
    activities = Backends(ScriptedModel(Script()), {**tools}).activities(tmp_path, Limits())
    build_workers(await Client.connect("localhost:1", lazy=True), settings, activities)

    assert rates == {settings.task_queue: None, turns_queue(settings): 1}


async def test_row_25_synthesis(tmp_path: Path) -> None:
    """The report uses all outcomes and names gaps and contradictions; each purpose has its temperature."""
    cards = {
        tier: card.model_copy(update={"name": "gpt-4.1", "prices": PRICES}) for tier, card in scripted_cards().items()
    }
    script = Script().plan(*topics(3)).refine(refined()).work("T3", answer("", status="no_answer"))
    written_text = report("1987 or 1990.").model_copy(
        update={"contradictions": [disagreement("the year", "T1 says 1987", "T2 says 1990")], "gaps": ["the month"]}
    )
    async with open_environment(None, tmp_path, script.synthesis(written_text), cards=cards) as opened:
        result = await opened.run(ROOMY)

    temperatures = {call.task.kind: call.temperature for call in opened.model.calls}
    assert (temperatures["plan"], temperatures["synthesis"], temperatures["refine"]) == (0.2, 0.3, 0.4)
    assert temperatures["work"] is None
    [written, *_] = opened.model.tasks(SynthesisTask)
    assert [given.id for given in written.outcomes] == ["T1", "T2", "T3"]
    assert "the month" in result.gaps
    assert any("T3" in gap for gap in result.gaps)
    assert [each.about for each in result.contradictions] == ["the year"]
    assert 0 < result.confidence < 90


@pytest.mark.parametrize(("required", "third"), [((), "success"), (("T1",), "skipped")])
async def test_row_27_partial_failure(run: RunSession, required: tuple[str, ...], third: str) -> None:
    """If T1 fails, its siblings continue; T3 runs with the gap, or is skipped if it requires T1; T5 still runs."""
    script = Script().plan(
        subtask("T1"),
        subtask("T2", agent="analyst"),
        subtask("T3", after=["T1"], required=required),
        subtask("T4", agent="analyst", after=["T2"]),
        subtask("T5", agent="writer", after=["T3", "T4"]),
    )
    script = script.work("T1", answer("", status="out_of_scope"))
    result, _ = await run(script, ROOMY)

    assert [record.state for record in result.subtasks] == ["escalation", "success", third, "success", "success"]


ROOT = Path(__file__).resolve().parents[3]
TOOL_KINDS = tool_capabilities({name: ScriptedTool(name, found("a", "b")) for name in TOOLS})
DOMAINS = (
    *("competitive-intelligence", "contract-review", "curriculum"),
    *("patient-summary", "portfolio", "product-launch"),
)


async def test_row_32_result_contract(run: RunSession) -> None:
    """A subtask's record has its tokens, time and model."""
    result, _ = await run(Script().plan(subtask("T1")), GOAL)

    [record] = result.subtasks
    assert record.usage.input_tokens
    assert record.usage.output_tokens
    assert record.started_at
    assert record.ended_at
    assert record.started_at <= record.ended_at
    [line] = [each for each in result.spend if each.purpose == "work"]
    assert (line.model, line.usage.turns) == ("scripted-1", record.usage.turns)


async def test_row_33_bounded_context(run: RunSession) -> None:
    """An agent gets its prompt, task and inputs; readers of the six domain crews do not get the request."""
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


async def test_row_36_nesting(run: RunSession) -> None:
    """Sessions nest down to the fifth hop, which must be an agent; a plan that nests further is rejected."""
    parts = [f"Look into stretch {number} of the coast as a whole." for number in range(5)]
    deeper = [subtask("N1", "supervisor", instruction=part) for part in parts]
    script = Script()
    for above, nested in zip((GOAL.goal, *parts), deeper[:4], strict=False):
        script = script.plan(nested, goal=above)
    script = script.plans(plan(deeper[4]), plan(subtask("T1")), goal=parts[3])
    wide = Limits(max_turns=100, budget_usd=Decimal(20))
    result, opened = await run(script, GOAL.model_copy(update={"limits": wide}))

    planned = opened.model.tasks(PlanTask)
    assert [task.goal for task in planned] == [GOAL.goal, *parts[:4], parts[3]]
    assert [again.errors for again in planned[-1].rejected] == [
        ("subtask N1: the depth limit allows no nested session; name an agent instead",)
    ]
    assert {use.limit: (use.used, use.allowed) for use in result.limits}["max_depth"] == (5, 5)
    assert result.answer == "Known."


async def test_row_39_model_tiers(run: RunSession) -> None:
    """Supervisors plan on the medium tier, readers work on the small one, and an unsure answer moves one tier up."""

    def unsure(call: ModelCall) -> BaseModel:
        return answer(f"Perhaps {call.model}.", status="confidence_too_low")

    script = Script().plan(subtask("T1"), subtask("T2", "reviewer", ["T1"]), subtask("T3"))
    script = script.on("judge", judged("A1")).on("compress", compressed("Short.")).work("T3", unsure)
    result, opened = await run(script, ROOMY)

    models = {(call.task.kind, call.agent, call.model.removeprefix("scripted-")) for call in opened.model.calls}
    assert {("plan", "supervisor", "medium"), ("synthesis", "supervisor", "medium")} <= models
    assert {("work", "reader", "small"), ("work", "reader", "medium"), ("work", "reviewer", "large")} <= models
    assert [(each.state, each.attempts) for each in result.subtasks if each.id == "T3"] == [("partial", 2)]
    [written] = opened.model.tasks(SynthesisTask)
    assert written.outcomes[-1].outcome.content == "Perhaps scripted-small."


ROWS: Final[dict[str, list[str]]] = tomllib.loads(Path(__file__).with_name("rows.toml").read_text(encoding="utf-8"))
"""The tests that show each row, below `tests/`; the one for row 30 is with the plug-in of its crew."""


def test_every_checklist_row_has_a_test() -> None:
    """Each of the 46 rows has a test in this file, or the tests that the table names exist."""
    here = {int(name.split("_")[2]) for name in globals() if name.startswith("test_row_")}
    named = {int(row): tuple(tests) for row, (_, *tests) in ROWS.items()}

    assert {*here, *named} == set(range(1, 47))
    for file, _, name in (test.partition("::") for tests in named.values() for test in tests):
        assert f"def {name}(" in (ROOT / "tests" / file).read_text(encoding="utf-8"), name


def test_row_46_comparison_page_states_when_not_to_use_chargehand() -> None:
    """It gives the sizes from which one model call, or several agents, is the better choice."""
    page = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")

    assert "under 50,000 tokens and needs no tools | your provider's SDK" in page
    assert "three skills or more, or more than 10 to 15 tools" in page
