"""A script can express every kind of reply, and an error says what to write where it does not fit."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from activities.models.protocol import ModelCall
from activities.turn.activity import interpret
from activities.turn_kinds.registry import TASK_TYPES
from chargehand.contracts import ConversationRequest, JsonSchema, Limits, PendingCall, SessionRequest
from chargehand.tools import tool
from chargehand_plugins.testing import (
    Reply,
    Script,
    ScriptedRun,
    ToolUse,
    answer,
    issue,
    run_conversation,
    run_session,
    subtask,
    use,
)
from chargehand_plugins.testing.scripted_model import ScriptedModel
from tests.activities.models.calls import a_call
from tests.crew_files import crew_folder
from tests.unit.activities.prompt_files import TASKS
from tests.unit.strategies import contracts

PRICE: JsonSchema = {"type": "object", "properties": {"price": {"type": "number"}}, "required": ["price"]}
PRICED_OUTPUT = '[agents.output]\ntype = "object"\nrequired = ["price"]\nproperties.price.type = "number"'
GOAL = "What does A-17 cost?"
PLAN = Script().plan(
    subtask("T1", "clerk", "Find the price of A-17 in the list."),
    subtask("T2", "checker", "Check the price of A-17.", after=("T1",)),
)
PRICED = PLAN.work("Find", answer("It costs 40.", data={"price": 40}))


@pytest.fixture
def crews(tmp_path: Path) -> Path:
    return crew_folder(tmp_path, "shop", clerk=PRICED_OUTPUT, checker="reviews = true")


async def ask(crews: Path, script: Script, output_schema: JsonSchema | None = None) -> ScriptedRun:
    request = SessionRequest(goal=GOAL, crew="shop", review="never", output_schema=output_schema)
    return await run_session(request, script, crews=crews)


def call_of(kind: str) -> ModelCall:
    agent, task = next(each for each in TASKS.values() if each[1].kind == kind)
    call = a_call(messages=(), tools=(), answer_type=task.answer_type_for(None))
    return call.model_copy(update={"task": task, "agent": agent})


@pytest.mark.parametrize("kind", TASK_TYPES)
@settings(max_examples=settings().max_examples // 10)
@given(data=st.data())
async def test_every_kind_of_turn_can_be_scripted(kind: str, data: st.DataObject) -> None:
    """Without a script the default reply is usable, or the error says what to write."""
    call = call_of(kind)
    fields = data.draw(contracts(call.answer_type)).model_dump(exclude={"kind", "data"})
    told, silent = ScriptedModel(Script().on(kind, Reply(fields))), ScriptedModel(Script())

    said = interpret(await told.complete(call), call.answer_type).answer
    default = interpret(await silent.complete(call), call.answer_type).answer

    assert said is not None
    assert (said.model_dump(exclude={"kind", "data"}), told.problem) == (fields, "")
    assert default is not None if not silent.problem else f"turn '{kind}'" in silent.problem
    assert not silent.problem or "is missing; write: ." in silent.problem


async def test_data_issues_and_output_can_be_scripted(crews: Path) -> None:
    """An agent's data reaches the next agent; its issues and the request's output reach the report."""
    wrong = issue("The price has no currency.", location="T1: 40", severity="minor")
    script = PRICED.work("Check", answer("Checked.", issues=(wrong,))).output({"price": 40})

    run = await ask(crews, script.report("It costs 40."), PRICE)

    assert [each.message for each in run.report.issues] == ["The price has no currency."]
    assert (run.report.output, run.unused) == ({"price": 40}, ())
    assert Counter(turn.kind for turn in run.turns) == {"plan": 1, "work": 2, "synthesis": 1, "output": 1}
    assert '{"price":40}' in next(turn.prompt for turn in run.turns if turn.agent == "checker")


@pytest.mark.parametrize("most", [1, 2, 5])
async def test_a_report_states_how_many_agents_worked_at_once(crews: Path, most: int) -> None:
    """It is as many as allowed, nested sessions included, also with the `deep` profile."""
    request = SessionRequest(goal=GOAL, crew="shop", profile="deep", review="never", limits=Limits(max_parallel=most))
    lists = [f"Find all prices of list {number}, line by line." for number in (1, 2)]
    script = Script().plan(*(subtask(f"T{at}", "supervisor", each) for at, each in enumerate(lists, 1)), goal=GOAL)
    for each in lists:
        script = script.plan(*(subtask(f"P{at}", "clerk", f"{each} Take line {at}.") for at in range(3)), goal=each)
    run = await run_session(request, script.work("", answer("40.", data={"price": 40})), crews=crews)

    assert Counter(turn.kind for turn in run.turns)["work"] == 6
    assert {each.limit: each.used for each in run.report.limits}["max_parallel"] == most


@tool(capabilities=[], acts=True, approval=True)
def refund(order: str) -> str:
    """Refund an order."""
    return f"Refunded {order}."


async def test_a_scripted_conversation_runs_to_its_end(crews: Path) -> None:
    """Each message is answered before the next, with the calls that a person approves; then it is closed."""
    crew_folder(crews.parent, "desk", clerk='tools = ["refund"]')
    script = Script().converse("money", use("refund", order="A-17"), answer("It is refunded."))
    script = script.converse("Thanks", answer("Goodbye.")).converse("unsaid", answer("Never."))
    approved: list[PendingCall] = []

    desk, said = ConversationRequest(crew="desk"), ("I want my money.", "Thanks.")
    run = await run_conversation(
        desk, said, script, crews=crews, tools=[refund], approve=lambda call: not approved.append(call)
    )

    assert [(reply.agent, reply.text) for reply in run.replies] == [("clerk", "It is refunded."), ("clerk", "Goodbye.")]
    assert (run.end.reason, run.end.messages, run.end.replies) == ("closed", 2, 2)
    assert (len(approved), run.tool_calls) == (1, (ToolUse("refund", {"order": "A-17"}),))
    assert ("Refunded A-17." in run.turns[-1].prompt, run.unused) == (True, ("converse 'unsaid'",))


async def test_an_invalid_scripted_conversation_says_why(crews: Path) -> None:
    """An empty message is refused, and so is a reply with a field that no conversation turn has."""
    for message, reply, problem in (("", answer("Hi."), "at least 1 char"), ("Hi.", Reply({"x": 1}), "has 'x'")):
        with pytest.raises(ValueError, match=problem):
            await run_conversation(ConversationRequest(), (message,), Script().converse("", reply), crews=crews)


async def test_a_scripted_follow_up_session_is_refused(crews: Path) -> None:
    """There is no earlier session to follow."""
    with pytest.raises(ValueError, match=r"follows: .* as a document"):
        await run_session(SessionRequest(goal=GOAL, crew="shop", follows="session-1"), PRICED, crews=crews)


async def test_a_refused_reply_may_be_followed_by_a_better_one(crews: Path) -> None:
    """A script can play a model that corrects its data, or one that writes no JSON; unused lines are listed."""
    mended = PLAN.work("Find", answer("It costs 40.", data={"cost": 40}), answer("It costs 40.", data={"price": 40}))
    garbled = PLAN.work("Find", Reply(text="Forty."))

    runs = [await ask(crews, script.work("Mend it", answer("Never."))) for script in (mended, garbled)]

    assert [run.report.subtasks[0].state for run in runs] == ["success", "failure"]
    assert [run.unused for run in runs] == [("work 'Mend it'",)] * 2


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (Script(), r"'plan' of 'supervisor' is missing; write: \.plan\(subtask\('T1', "),
        (Script().plan(subtask("T1", "clark", "Find the price.")), r"'plan' .* is refused \(.*'clark'.*a further one"),
        (PLAN.work("Find", answer("40.")), r"of 'clerk' is refused \(.*data=<valid by \{\"type\": \"object\""),
        (PLAN.work("Find", answer("40.", data={"price": "x"})), r"is refused \(.*data\.price.*data=<valid by"),
        (PRICED.work("Check", answer("Yes.", data=3)), r"has 'data' \(data is for agents with an `output` schema\)"),
        (PLAN.work("Find", answer("40.", issues=({},))), r"has 'issues' \(issues are for agents with `reviews = true`"),
        (PRICED.work("Check", Reply({"confidence": "high"})), r"is not valid \(confidence: .*; write: \.work\("),
        (PRICED.work("Check", use("serch", query="A")), r"uses 'serch', and its tools are "),
        (PRICED.output({"cost": 1}), r"'output' .* is refused \(.*price.*; .* \.output\(<data>\)"),
        (PRICED.on("sinthesis", Reply()), r"there is no turn 'sinthesis'; a script replies to plan, "),
    ],
)
async def test_an_invalid_script_error_says_what_to_write(crews: Path, script: Script, message: str) -> None:
    """It names the turn, its agent, what is wrong, and the line to write."""
    with pytest.raises(ValueError, match=message):
        await ask(crews, script, PRICE)


async def test_a_scripted_session_reuses_no_reply_of_an_earlier_one(crews: Path) -> None:
    """A paid turn kept in case the worker is lost is no reply to the same subtask of the next session."""
    long = [issue("x" * 900, location="T1") for _ in range(90)]
    runs = [await ask(crews, PRICED.work("Check", answer(text, issues=tuple(long)))) for text in ("A.", "B.")]

    assert [[turn.agent for turn in run.turns if turn.kind == "work"] for run in runs] == [["clerk", "checker"]] * 2
