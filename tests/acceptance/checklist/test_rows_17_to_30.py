"""Rows 17 to 30 of the list of what Chargehand must do: failures, recovery, time, reports. A test for each row."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import BaseModel
from temporalio.client import Client

from activities.contracts.crew import CodeReviewRules
from activities.models.failures import ProviderError, ProviderFault
from activities.models.protocol import ModelCall
from activities.turn.retry_policy import pause_after
from activities.turn_kinds.judge_outcomes import JudgeTask
from activities.turn_kinds.refine_instruction import RefineTask
from activities.turn_kinds.synthesis import SynthesisTask
from chargehand.contracts import Contradiction, Escalation, Issue, Limits, SessionRequest, Tier
from chargehand.wire import ErrorType
from chargehand_plugins.code_review.contracts import FoundIssue
from chargehand_plugins.code_review.diff import ChangedFile, Line
from chargehand_plugins.code_review.findings import sift
from tests.environment import PRICES, TOOLS, Backends, open_environment, scripted_cards
from tests.scripted_model import (
    Held,
    Script,
    ScriptedModel,
    ScriptedTool,
    answer,
    disagreement,
    found,
    judged,
    keep_using,
    refined,
    report,
    reviewed,
    subtask,
    topics,
    use,
    work_task,
)
from tests.simulation.directed import VirtualSession
from tests.workflows.conftest import RunSession
from worker.composition import turns_queue
from worker.settings import Settings
from worker.workers import build_workers
from workflows.rules.recovery import Action, Attempts, Means, next_action

GOAL = SessionRequest(goal="What do the documents say about the topics?", review="never")
ROOMY = GOAL.model_copy(update={"limits": Limits(max_turns=60)})
ALWAYS = GOAL.model_copy(update={"review": "always"})
BETTER = "Look in the second chapter of the handbook, and nowhere else."


async def test_row_17_typed_result(run: RunSession) -> None:
    """Each subtask ends as success, partial, failure or escalation, with a reason and what it used; a tool that breaks
    is told to its agent; nothing is swallowed."""
    statuses = {"T1": "success", "T2": "partial", "T3": "no_answer", "T4": "out_of_scope"}
    script = Script().plan(*(subtask(id_, "researcher") for id_ in statuses))
    for id_, status in statuses.items():
        script = script.work(id_, answer("" if id_ in {"T3", "T4"} else "Known.", status=status))
    result, _ = await run(script, ROOMY)

    states = {record.id: (record.state, bool(record.reason)) for record in result.subtasks}
    assert states == {
        "T1": ("success", False),
        "T2": ("partial", True),
        "T3": ("failure", True),
        "T4": ("escalation", True),
    }
    assert all(record.usage.turns > 0 for record in result.subtasks)
    assert all(any(id_ in gap for gap in result.gaps) for id_ in ("T3", "T4"))


async def test_row_18_retries(run: RunSession) -> None:
    """A provider errs: it is asked again after 1, 2 and 4 seconds. A subtask whose 3 attempts fail is given up, and
    the session goes on to a report of the rest that names it."""
    busy = ProviderError("busy", ProviderFault(provider="scripted"), ErrorType.RATE_LIMITED)
    fails = [busy]

    def hesitate(_: ModelCall) -> BaseModel | Exception:
        return fails.pop() if fails else answer("Known.")

    script = Script().plan(*topics(2)).refine(refined(BETTER)).work("", answer("", status="no_answer"))
    result, opened = await run(script.work("T2", hesitate), ROOMY)

    assert Limits().max_attempts == 3
    ended = [(record.state, record.attempts, record.reason) for record in result.subtasks]
    assert ended == [("failure", 3, "no_answer"), ("success", 1, "")]
    assert not fails
    waits = [round(pause_after(count) / timedelta(seconds=1)) for count in (1, 2, 3)]
    assert waits == [1, 2, 4]
    assert (result.stop_reason, result.answer) == ("partial", "All of it.")
    assert len(opened.model.of_kind("synthesis")) == 1


async def test_row_19_retry_with_refinement(run: RunSession) -> None:
    """After the first failure the supervisor rewrites the instruction in view of the error, and the new one is carried
    out."""
    script = Script().plan(subtask("T1")).refine(refined(BETTER))
    script = script.work("", answer("", status="no_answer")).work(BETTER, answer("Found."))
    result, opened = await run(script, ROOMY)

    [asked] = opened.model.tasks(RefineTask)
    assert asked.problem == "because of no_answer"
    assert asked.instruction == "Find out everything about topic T1 in the documents."
    assert result.answer == "Found."
    assert [(record.state, record.attempts) for record in result.subtasks] == [("success", 2)]
    assert result.usage.turns == len(opened.model.calls)


async def test_row_20_circuit_breaker(run: RunSession) -> None:
    """After 3 bad ends a subtask is given up for good: nothing is tried a fourth time, and its sibling goes on."""
    script = Script().plan(*topics(2)).refine(refined(BETTER)).work("", answer("", status="no_answer"))
    result, opened = await run(script.work("T2", answer("Known.")), ROOMY)

    tries = [call for call in opened.model.of_kind("work") if "T2" not in work_task(call).instruction]
    assert len(tries) == 3 == result.subtasks[0].attempts
    assert result.subtasks[1].state == "success"


async def test_row_21_tool_loop(run: RunSession) -> None:
    """At most 10 rounds an attempt: then the agent has to answer with what it has, without any more tools."""
    assert Limits().max_rounds == 10
    script = Script().plan(subtask("T1")).work("", keep_using("search_documents"), forced=answer("Known so far."))
    result, opened = await run(script, GOAL.model_copy(update={"limits": Limits(max_turns=100)}))

    tasks = [work_task(call) for call in opened.model.of_kind("work")]
    assert len(tasks) == 10
    assert [task.must_answer for task in tasks] == [False] * 9 + [True]
    assert len(opened.tools["search_documents"].calls) == 9
    assert result.answer == "Known so far."


def test_row_22_time_limits() -> None:
    """An agent gets 120 seconds if the request says so, and its sibling's work is kept; a session out of time
    writes the best report it can. By default these are 5 and 10 minutes."""
    assert (Limits().subtask_deadline, Limits().deadline) == (timedelta(minutes=5), timedelta(minutes=10))
    never = Script().plan(*topics(2)).work("T1", use("search_documents"), Held(answer("Never said.")))
    limits = Limits(subtask_deadline=timedelta(seconds=120), max_depth=1, max_turns=40)
    late = VirtualSession(GOAL.model_copy(update={"limits": limits}), never).report()
    whole = VirtualSession(GOAL.model_copy(update={"limits": Limits(subtask_deadline=timedelta(hours=1))}), never)

    assert [(record.state, record.reason) for record in late.subtasks] == [("partial", "timeout"), ("success", "")]
    assert late.timing.wall < timedelta(minutes=3)
    out_of_time = whole.report()
    assert out_of_time.stop_reason == "deadline"
    assert out_of_time.subtasks[1].state == "success"
    assert out_of_time.timing.wall <= timedelta(minutes=10)
    assert out_of_time.answer
    assert "Never said." not in late.answer + out_of_time.answer


async def test_row_23_rate_limiter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """5 subtasks at a time, and 60 requests a minute if the operator says one a second: of all workers together, since
    the server holds the rate of the queue that they share."""
    assert Limits().max_parallel == 5
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


async def test_row_24_aggregation_strategies(run: RunSession) -> None:
    """The plan chooses: `merge` writes one text from all, `reduce` the same in steps, `select` has a judge take one."""
    written = dict[str, tuple[str, list[str]]]()
    for strategy in ("merge", "reduce", "select"):
        script = Script().plan(*topics(2), strategy=strategy).on("judge", judged("T2", "it is primary"))
        result, opened = await run(script.work("T2", answer("Two.")), GOAL)
        kinds = [call.task.kind for call in opened.model.calls if call.task.kind in {"synthesis", "judge"}]
        written[strategy] = (result.answer.partition("\n")[0], kinds)

    assert written == {
        "merge": ("All of it.", ["synthesis"]),
        "reduce": ("All of it.", ["synthesis"]),
        "select": ("Two.", ["judge"]),
    }


async def test_row_25_synthesis(tmp_path: Path) -> None:
    """The report is written from all outcomes, names what is missing and what contradicts, and states a confidence; the
    model, if it takes a temperature, plans at 0.2, writes at 0.3 and refines at 0.4."""
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


@pytest.mark.parametrize(
    ("verdict", "resolution", "confidence"),
    [
        pytest.param(
            judged("T2", "the charter itself says so", 90),
            "T2 is followed: the charter itself says so",
            90,
            id="decided",
        ),
        pytest.param(judged(""), "", 0, id="open"),
    ],
)
async def test_row_26_conflict_judge(run: RunSession, verdict: BaseModel, resolution: str, confidence: int) -> None:
    """It sees the outcomes that disagree, and decides or leaves it open; the report states both sides, the decision and
    why."""
    looked = reviewed(contradictions=[disagreement("the year", "T1 says 1987", "T2 says 1990")])
    script = Script().plan(*topics(2)).on("review", looked).on("judge", verdict)
    result, opened = await run(script, ALWAYS)

    [asked] = opened.model.tasks(JudgeTask)
    [written] = opened.model.tasks(SynthesisTask)
    expected = Contradiction(
        about="the year",
        positions=("T1 says 1987 (confidence T1: 80)", "T2 says 1990 (confidence T2: 80)"),
        resolution=resolution,
        confidence=confidence,
    )
    assert [given.id for given in asked.candidates] == ["T1", "T2"]
    assert result.contradictions == written.contradictions == (expected,)


@pytest.mark.parametrize(("required", "third"), [((), "success"), (("T1",), "skipped")])
async def test_row_27_partial_failure(run: RunSession, required: tuple[str, ...], third: str) -> None:
    """T1, T3, T5 and T2, T4, T5: without T1 its siblings go on; T3 runs with the gap stated, or is skipped if it
    requires T1; T5, which depends on T3, still runs."""
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


def test_row_28_escalation() -> None:
    """4 reasons, each with its answer: refine it or ask a person, another agent, a stronger model, or split it."""
    able = Means(max_attempts=3, fallback="researcher", stronger=Tier.LARGE, may_nest=True)
    partial = "Perhaps three months."
    first = Attempts(agents=("reader",))
    escalations = [
        Escalation(reason="out_of_scope", content=partial),
        Escalation(reason="ambiguous_input", content=partial),
        Escalation(reason="confidence_too_low", content=partial),
        Escalation(reason="timeout", content=partial),
    ]
    actions = {outcome.reason: next_action(outcome, first, able) for outcome in escalations}

    assert actions == {
        "out_of_scope": Action.FALLBACK,
        "ambiguous_input": Action.REFINE,
        "confidence_too_low": Action.STRONGER,
        "timeout": Action.SPLIT,
    }
    person = replace(able, may_ask=True)
    assert next_action(Escalation(reason="ambiguous_input", content=partial), first, person) is Action.ASK


async def test_row_29_fallback_agents(run: RunSession) -> None:
    """After the refined instruction fails too, the agent that the crew names as fallback gets its try."""
    script = Script().plan(subtask("T1")).refine(refined(BETTER))
    script = script.work("", answer("", status="no_answer")).work("", answer("Found."), agent="researcher")
    result, opened = await run(script, ROOMY)

    assert [call.agent for call in opened.model.of_kind("work")] == ["reader", "reader", "researcher"]
    assert [(record.state, record.attempts) for record in result.subtasks] == [("success", 3)]


def test_row_30_confidence_filter() -> None:
    """Findings of a review from 80 of 100 on are reported, others are counted; what two agents found is one entry."""
    assert CodeReviewRules(checker="checker").threshold == 80
    file = ChangedFile("a.py", tuple(Line("+", number, f"y{number}") for number in range(1, 10)))
    shell = "Text is run as a program."
    seen = (("T1.1", "logic", 2, shell, 95), ("T2.1", "security", 2, shell, 80), ("T3.1", "style", 5, "A name.", 79))
    seen_issues = [
        FoundIssue(
            id=id_,
            agent=agent,
            issue=Issue(severity="major", location="", file="a.py", line=line, message=message, confidence=confidence),
        )
        for id_, agent, line, message, confidence in seen
    ]
    confirmed = [Issue(severity="major", location=each.id, message="", confidence=90) for each in seen_issues]

    sifted = sift(seen_issues, confirmed, [file], (), threshold=80, added_lines_only=True)

    assert [{each.id for each in entry.findings} for entry in sifted.reported] == [{"T1.1", "T2.1"}]
    assert sum(count for dropped in sifted.dropped.values() for count in dropped.values()) == 1
