"""Rows 1 to 16 of the list of what Chargehand must do: requests, plans, agents, state, limits. A test for each row."""

import asyncio
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from pydantic import BaseModel
from temporalio.client import Client

from activities.contracts.tool import ToolContext
from activities.crews.files import CrewError, load_crew
from activities.documents.artifacts import ArtifactStore
from activities.models.protocol import ModelCall
from activities.tools.code.monty import MontyRunner
from activities.tools.code.tool import RunCode
from activities.tools.search.protocol import SearchHit, SearchResults
from activities.tools.search.tool import Search
from activities.turn_kinds.compress_outcomes import CompressTask
from activities.turn_kinds.critique_report import CritiqueTask
from activities.turn_kinds.plan import PlanTask
from activities.turn_kinds.synthesis import SynthesisTask
from chargehand.contracts import Limits, Plan, Report, SessionRequest
from chargehand.tools import tool
from chargehand_plugins.testing import (
    Script as Lines,
)
from chargehand_plugins.testing import (
    answer as said,
)
from chargehand_plugins.testing import (
    run_session,
)
from chargehand_plugins.testing import (
    subtask as planned,
)
from chargehand_plugins.testing import (
    use as call_tool,
)
from tests.activities.documents.made_documents import folder, library, pdf
from tests.scripted_model import (
    Held,
    Script,
    answer,
    criticised,
    keep_using,
    plan,
    reply,
    report,
    subtask,
    topics,
    use,
)
from tests.waiting import until_state
from tests.workflows.conftest import OpenEnvironment, RunSession
from workflows.rules.inputs import rendered_tokens

GOAL = SessionRequest(goal="What do the documents say about the topics?", review="never")
CONTEXT = ToolContext(session="s", agent="researcher", idempotency_key="k")


def limited(**limits: object) -> SessionRequest:
    return GOAL.model_copy(update={"limits": Limits.model_validate(limits)})


async def test_row_1_client_request(environment: OpenEnvironment) -> None:
    """A session starts from text, from JSON that only has a goal, by the workflow's name alone, and on a schedule's
    way: as any Temporal client starts it. (Webhooks and Slack: `test_recipes.py`; HTTP: the console's tests.)"""
    async with environment(Script().plan(subtask("T1"))) as opened:
        client: Client = opened.chargehand.client
        by_text = await opened.run(SessionRequest(goal=GOAL.goal))
        by_json = await opened.run(SessionRequest.model_validate_json(f'{{"goal": "{GOAL.goal}"}}'))
        by_name = await client.execute_workflow(
            "Supervisor",
            {"goal": GOAL.goal},
            id="by-name",
            task_queue=opened.chargehand.task_queue,
            result_type=Report,
        )

    assert {each.answer for each in (by_text, by_json, by_name)} == {"Known."}


async def test_row_2_supervisor(run: RunSession) -> None:
    """It plans, monitors and synthesises, and is never offered a tool; all work is that of agents."""
    _, opened = await run(Script().plan(subtask("T1"), subtask("T2", "analyst")), GOAL)

    own = {call.task.kind for call in opened.model.calls if call.agent == "supervisor"}
    assert {"plan", "synthesis"} <= own <= {"plan", "synthesis", "judge_claims"}
    assert not any(call.tools for call in opened.model.calls if call.agent == "supervisor")
    assert {call.agent for call in opened.model.of_kind("work")} == {"reader", "analyst"}


async def test_row_3_structured_plan(environment: OpenEnvironment) -> None:
    """It is typed data that can be read before anything is carried out: ids, instructions, agents, dependencies, and
    how the report is to be written."""
    script = Script().plan(subtask("T1"), subtask("T2", "writer", ["T1"]))
    async with environment(script) as opened:
        session = await opened.chargehand.start(GOAL.model_copy(update={"approval": "plan"}))
        await until_state(session, "awaiting_approval")
        shown = await session.plan()
        worked = opened.model.of_kind("work")
        await session.approve()
        await session.result()

    assert worked == []
    assert isinstance(shown, Plan)
    assert [(each.id, each.agent, each.depends_on) for each in shown.subtasks] == [
        ("T1", "reader", ()),
        ("T2", "writer", ("T1",)),
    ]
    assert shown.subtasks[0].instruction == subtask("T1").instruction
    assert shown.final_instruction == "Briefly."


@pytest.mark.parametrize(
    "after",
    [
        pytest.param({"T2": ["T1"], "T3": ["T2"], "T4": ["T3"]}, id="sequential"),
        pytest.param({}, id="parallel"),
        pytest.param({"T3": ["T1", "T2"], "T4": ["T3"]}, id="hybrid"),
    ],
)
async def test_row_4_plan_is_a_dag(run: RunSession, after: dict[str, list[str]]) -> None:
    """A subtask begins when all that it depends on has ended, and what depends on nothing begins at once."""
    ids = ("T1", "T2", "T3", "T4")
    result, _ = await run(Script().plan(*(subtask(id_, after=after.get(id_, ())) for id_ in ids)), GOAL)

    records = {record.id: record for record in result.subtasks}
    began = {id_: record.started_at for id_, record in records.items() if record.started_at}
    ended = {id_: record.ended_at for id_, record in records.items() if record.ended_at}
    assert all(began[id_] >= ended[before] for id_, needed in after.items() for before in needed)
    assert all(began[id_] <= min(ended.values()) for id_ in ids if id_ not in after)


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ([subtask("T1", "pirate")], "there is no agent 'pirate'"),
        ([subtask("T1", after=["T2"]), subtask("T2", after=["T1"])], "is a cycle"),
        ([subtask("T1", instruction="Analyze the data")], "T1"),
        ([subtask("T1"), subtask("T1", "analyst")], "T1"),
    ],
    ids=["agent", "cycle", "vague", "twice"],
)
async def test_row_5_plan_validation(run: RunSession, broken: list[BaseModel], reason: str) -> None:
    """Missing agents, cycles and vague instructions go back with the reason before anything runs; a reply that is no
    plan does, too."""
    no_plan = answer("I would rather answer.")
    script = Script().plans(plan(*broken), no_plan, plan(subtask("T1")))  # pyright: ignore[reportArgumentType]  # drafts
    _, opened = await run(script, GOAL)

    _, second, third = opened.model.tasks(PlanTask)
    assert reason in str(second.rejected[0].errors)
    assert len(third.rejected) == 2
    assert [call.task.kind for call in opened.model.calls][:4] == ["plan", "plan", "plan", "work"]


async def test_row_6_fixed_set_of_agents(run: RunSession) -> None:
    """Only agents of the crew get work, whatever a model insists on: after three plans one of the crew gets it all."""
    _, opened = await run(Script().plan(subtask("T1", "pirate")), GOAL)

    first = opened.model.calls[0]
    assert set(first.agent_names) == {"analyst", "reader", "researcher", "reviewer", "supervisor", "writer"}
    assert len(opened.model.of_kind("plan")) == 3
    assert {call.agent for call in opened.model.of_kind("work")} <= set(first.agent_names)


@pytest.mark.parametrize("limit", [5, 3])
async def test_row_7_dispatcher(run: RunSession, limit: int) -> None:
    """Of six subtasks, 5 are under way together, or as many as `max_parallel`, and never more; all are carried out."""
    at_work, peaks, gate = 0, list[int](), asyncio.Event()

    def start(_: ModelCall) -> Held:
        nonlocal at_work
        at_work += 1
        peaks.append(at_work)
        if at_work == limit:
            gate.set()
        return Held(use("search_documents"), gate)

    def finish(_: ModelCall) -> BaseModel:
        nonlocal at_work
        at_work -= 1
        return answer("Done.")

    request = GOAL if limit == 5 else limited(max_parallel=limit)
    result, _ = await run(Script().plan(*topics(6)).work("", start, finish), request)

    assert [record.state for record in result.subtasks] == ["success"] * 6
    assert max(peaks) == limit


async def test_row_8_search_agent() -> None:
    """A search returns `{query, results[{title, snippet, url}], confidence}`, and what it found can be cited."""

    class Engine:
        name = "engine"
        reaches_out = True

        async def search(self, query: str, limit: int, documents: tuple[str, ...]) -> SearchResults:  # noqa: ARG002
            return SearchResults(query=query, results=(hit,), confidence=70)

    hit = SearchHit(title="Tides", snippet="Twice a day.", url="https://a.example/1")
    found = await Search(Engine()).use({"query": "tides"}, CONTEXT)

    results = [{"title": "Tides", "snippet": "Twice a day.", "url": "https://a.example/1"}]
    assert found.output == {"query": "tides", "results": results, "confidence": 70}
    assert [(source.ref, source.quote) for source in found.sources] == [("https://a.example/1", "Twice a day.")]


async def test_row_9_code_agent(tmp_path: Path) -> None:
    """A program runs in a sandbox; what it printed and its error come back, and the machine is out of its reach."""
    tool = RunCode(MontyRunner(), ArtifactStore(tmp_path))
    texts = [
        str((await tool.use({"language": "python", "code": code, "documents": [], "sql": ""}, CONTEXT)).model_dump())
        for code in ("print(6 * 7)", "print(1)\nraise ValueError('no')", "open('/etc/passwd').read()")
    ]

    assert "42" in texts[0]
    assert "ValueError" in texts[1]
    assert "root:" not in texts[2]


async def test_row_10_document_agent(tmp_path: Path) -> None:
    """PDFs and tables are read together, and what is in them can be written as JSON."""
    documents = folder(tmp_path / "docs", **{"a.pdf": pdf(), "b.csv": "item,price\noar,12\n"})
    opened = await library(tmp_path, tmp_path / "docs").open((documents,))

    assert [(entry.name, entry.problem) for entry in opened.catalog.documents] == [("a.pdf", ""), ("b.csv", "")]
    [table] = opened.catalog.tables
    assert (table.document, table.rows) == ("b.csv", 1)
    assert '"price"' in opened.catalog.model_dump_json()


async def test_row_11_specialised_agents(run: RunSession, tmp_path: Path) -> None:
    """Three and more work for one request, each by its own prompt and with its own tools; a tool that changes something
    belongs to one agent only."""
    agents = ("reader", "analyst", "researcher", "writer")
    script = Script().plan(*(subtask(f"T{number}", agent) for number, agent in enumerate(agents, start=1)))
    _, opened = await run(script, GOAL)
    calls = {call.agent: call for call in opened.model.of_kind("work")}

    assert len({call.system for call in calls.values()}) == len(agents)
    own = [{tool.name for tool in call.tools} - {"note"} for call in calls.values()]
    assert all(not (one & other) for number, one in enumerate(own) for other in own[number + 1 :])
    agent = '\n[[agents]]\nname = "{}"\ndescription = "Does the thing."\nprompt = "Do the thing."\ntools = ["refund"]\n'
    head = 'name = "desk"\ndescription = "Does the things."\nguidance = "Plan little."\n'
    (tmp_path / "desk.toml").write_text(head + agent.format("one") + agent.format("two"))
    with pytest.raises(CrewError, match="refund"):
        load_crew(tmp_path / "desk.toml", {"refund": ()}, acting={"refund"})


async def test_row_12_critic(run: RunSession) -> None:
    """It reads the report before it is delivered, and may send it back once; the second version is delivered."""

    def mend(call: ModelCall) -> BaseModel:
        return report(f"Mended: {getattr(call.task, 'problems', [])[0]}")

    script = Script().plan(*topics(2)).synthesis(report("First."), mend).on("critique", criticised("no source"))
    result, opened = await run(script, GOAL.model_copy(update={"review": "always"}))

    [read] = opened.model.tasks(CritiqueTask)
    assert read.draft.answer == "First."
    assert len(opened.model.of_kind("synthesis")) == 2
    assert result.answer == "Mended: no source"


@pytest.mark.parametrize(("minutes", "is_kept"), [(50, True), (61, False)])
async def test_row_13_shared_state(tmp_path: Path, minutes: int, is_kept: bool) -> None:  # noqa: FBT001  # a column
    """A later agent reads the outcome of an earlier one in full, for 1 hour after that has ended."""

    @tool(capabilities=[], approval=True)
    def stamp(letter: str) -> str:
        """Return a stamp for a letter."""
        return letter

    (tmp_path / "desk.toml").write_text(
        'name = "desk"\ndescription = "Reads and writes."\nguidance = "First read, then write."\n'
        '[[agents]]\nname = "reader"\ndescription = "Reads the papers."\nprompt = "Read the papers."\n'
        '[[agents]]\nname = "writer"\ndescription = "Writes the letters."\nprompt = "Write the letters."\n'
        'tools = ["recall", "stamp"]\n'
    )
    limits = Limits(deadline=timedelta(hours=3))
    waiting = timedelta(minutes=minutes)
    request = SessionRequest(goal="Write to the tenants.", crew="desk", limits=limits, answer_within=waiting)
    script = Lines().plan(
        planned("T1", "reader", "Read the papers of the tenants."),
        planned("T2", "writer", "Write them a letter about it.", after=("T1",)),
    )
    # A call that waits for a person lets the time pass.
    wait, recall = call_tool("stamp", letter="A"), call_tool("recall", id="T1", page=1)
    script = script.work("Read", said("Three months.")).work("letter", wait, recall, said("Dear tenants."))
    result = await run_session(request, script, crews=tmp_path, tools=[stamp])

    last = [turn.prompt for turn in result.turns if turn.agent == "writer"][-1]
    assert ("reader: success, confidence 80" in last) is is_kept
    assert ("it is no longer kept" in last) is not is_kept


async def test_row_14_loop_guard(run: RunSession) -> None:
    """Depth 5, 20 turns; the same (agent, task) is refused anywhere in the tree, and so is a session within itself; the
    report is written from the rest."""
    assert (Limits().max_depth, Limits().max_turns) == (5, 20)
    again = "Find out everything about the tides."
    tides = subtask("N1", agent="supervisor", after=["T1"], instruction="Look into the tides as a whole.")
    inner = subtask("X1", instruction=f"  {again.upper()}  ")
    script = Script().plan(inner).plan(subtask("T1", instruction=again), tides, goal=GOAL.goal)
    result, opened = await run(script, GOAL)

    assert len(opened.model.of_kind("work")) == 1
    assert [record.state for record in result.subtasks] == ["success", "failure"]
    assert (result.answer, result.stop_reason) == ("All of it.", "partial")

    itself = subtask("N1", agent="supervisor", instruction="Look into the tides as a whole.")
    script = Script().plans(plan(itself), plan(inner)).plan(itself, goal=GOAL.goal)
    _, opened = await run(script, GOAL)

    root, nested, repaired = opened.model.tasks(PlanTask)
    assert (root.rejected, nested.rejected) == ((), ())
    assert len(repaired.rejected[0].errors) == 1


async def test_row_15_budget(run: RunSession) -> None:
    """$2 a session, checked before each model call: agents that never have enough end in a report, within it."""
    assert Limits().budget_usd == Decimal(2)
    cost = Decimal("0.05")
    script = Script().plans(reply(plan(*topics(5)), cost)).synthesis(reply(report("As far as it went."), cost))
    request = limited(max_turns=100, max_rounds=50)
    result, opened = await run(script.work("", keep_using("search_documents", cost=cost)), request)

    assert result.usage.cost_usd == cost * len(opened.model.calls) <= Decimal(2)
    assert result.usage.cost_usd > Decimal(1)
    assert result.answer.startswith("As far as it went.")
    assert result.stop_reason != "completed"
    assert opened.model.calls[-1].task.kind in {"synthesis", "judge_claims"}


async def test_row_16_result_compression(run: RunSession) -> None:
    """Beyond 50,000 tokens, outcomes of more than 2,000 are summarised by the small tier, shorter ones never; that is
    all that the writer reads of them."""
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
