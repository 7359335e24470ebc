"""Following a session: every follower gets the same events, from wherever it resumes."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic_core import to_json
from temporalio.client import Client

from activities.models.failures import ProviderError, ProviderFault
from activities.models.protocol import ModelCall
from activities.turn import journal
from activities.turn_kinds.work import WorkTask
from chargehand.contracts import (
    AgentTextEvent,
    EndEvent,
    Event,
    Limits,
    PlanEvent,
    SessionRequest,
    SpendEvent,
    SubtaskEvent,
    TextEvent,
    TurnEvent,
    Usage,
)
from chargehand.errors import ChargehandError, SessionNotFound
from chargehand.payloads.encryption import Encryption
from chargehand.session import Session
from chargehand.visibility import describe
from chargehand.wire import ErrorType
from tests.crew_files import crew_folder
from tests.environment import open_environment
from tests.scripted_model import Held, Script, answer, report, say, subtask, use
from tests.workflows.conftest import DESK, OpenEnvironment, connect
from tests.workflows.test_tool_approval import desk

pytestmark = pytest.mark.real_server

GOAL = SessionRequest(goal="What do the documents say about the topics?", review="never")
__all__ = ["desk"]
NESTED = "Look into the second topic as a whole."


def nesting() -> Script:
    """Plan a subtask and a nested session in parallel."""
    script = Script().plan(subtask("T1"), subtask("N1", agent="supervisor", instruction=NESTED))
    script = script.plan(subtask("X1"), subtask("X2"), goal=NESTED)
    return script.work("", use("search_documents"), answer("Known.")).synthesis(report("All of it is known."))


async def events_of(session: Session, after: str | None = None) -> list[Event]:
    """Follow a session to its end."""
    return [event async for event in session.follow(after)]


def by_workflow(events: Sequence[Event]) -> Mapping[str, Sequence[dict[str, Any]]]:
    """Group events by the workflow whose history they come from; only siblings arrive in any order."""
    told: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        path = event.subtask.rpartition("/")[0] if isinstance(event, SubtaskEvent) else event.subtask
        told[path].append(event.model_dump(exclude={"cursor"}))
    return told


def told(events: Sequence[Event]) -> list[str]:
    """List the subtasks and states that events report, sorted."""
    return sorted(f"{event.subtask} {event.state}" for event in events if isinstance(event, SubtaskEvent))


async def test_followers_get_the_same_events_and_can_resume_after_any(client: Client, tmp_path: Path) -> None:
    """Three followers get the same events; one that resumes from a cursor gets the others, each once."""
    encrypted = await connect(client, Encryption({"k": bytes(32)}, "k"))
    async with open_environment(encrypted, tmp_path, nesting()) as opened:
        session = await opened.chargehand.start(GOAL)
        events, *others = await asyncio.gather(*(events_of(session) for _ in range(3)))
        result = await session.result()
        rests = await asyncio.gather(*(events_of(Session(encrypted, session.id), each.cursor) for each in events))

    paths = ("T1", "N1", "N1/X1", "N1/X2")
    assert told(events) == sorted(f"{path} {state}" for path in paths for state in ("running", "success"))
    assert [by_workflow(each) for each in others] == [by_workflow(events)] * 2
    for given, rest in enumerate(rests, start=1):
        assert by_workflow([*events[:given], *rest]) == by_workflow(events)
    assert max(len(event.cursor) for event in events) < 400
    spent = sum((event.usage for event in events if isinstance(event, SpendEvent)), Usage())
    assert (spent.turns, spent.cost_usd) == (result.usage.turns, result.usage.cost_usd)
    assert [event.text for event in events if isinstance(event, TextEvent)] == [result.answer]
    assert isinstance(events[-1], EndEvent)
    assert events[-1].stop_reason == result.stop_reason


async def test_the_spend_of_a_terminated_subtask_is_in_the_events(environment: OpenEnvironment) -> None:
    """Its turns, plus what its session charges beyond them, add up to the totals of report and trace."""
    script = Script().plan(subtask("T1"), subtask("T2", after=["T1"]))
    script = script.work("T1", use("search_documents"), Held(answer("Never."))).synthesis(report("A part is known."))
    events: list[Event] = []
    async with environment(script) as opened:
        limited = GOAL.model_copy(update={"limits": Limits(max_attempts=1)})
        session = await opened.chargehand.start(limited)
        async for event in session.follow():
            events.append(event)
            if isinstance(event, TurnEvent) and (event.subtask, event.turn, event.state) == ("T1", "turn-2", "started"):
                (child,) = (each.workflow_id for each in events if isinstance(each, SubtaskEvent))
                await opened.chargehand.client.get_workflow_handle(child).terminate()
        rests = await asyncio.gather(*(events_of(session, each.cursor) for each in events))
        usage, trace = (await session.result()).usage, await session.trace()

    states = [event.state for event in events if isinstance(event, SubtaskEvent) and event.subtask == "T1"]
    assert states == ["running", "terminated", "failure"]
    for given, rest in enumerate(rests, start=1):
        spent = sum((each.usage for each in [*events[:given], *rest] if isinstance(each, SpendEvent)), Usage())
        assert (spent.turns, spent.cost_usd) == (usage.turns, usage.cost_usd)
    traced = sum((step.usage for step in trace.steps), Usage())
    assert (traced.turns, traced.cost_usd) == (usage.turns, usage.cost_usd)


async def test_a_trace_contains_the_arguments_and_results_of_tools(environment: OpenEnvironment) -> None:
    """It also has the plan and each task's hash; large values are references to the history."""
    asked, long = use("search_documents"), use("query_data", about="x" * 5_000)
    script = Script().plan(subtask("T1"), subtask("T2", agent="analyst"))
    async with environment(script.work("", asked, answer("Known.")).work("", long, agent="analyst")) as opened:
        session = await opened.chargehand.start(GOAL)
        await session.result()
        trace = await session.trace()
        (given,) = (step.arguments for step in trace.steps if step.tool == "query_data")
        assert given is not None
        workflow_id, _, place = given.reference.rpartition("/")
        run_id, _, number = place.partition("#")
        found = await opened.chargehand.client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history()

    steps = {step.tool or step.subtask: step for step in trace.steps}
    assert [planned.id for planned in trace.steps[0].plan] == ["T1", "T2"]
    assert steps["T1"].task_hash == steps["T1"].id.rpartition("/")[2]
    assert steps["search_documents"].arguments is not None
    assert steps["search_documents"].arguments.value == opened.tools["search_documents"].calls[0]
    assert steps["search_documents"].result is not None
    assert "what search_documents read" in str(steps["search_documents"].result.value)
    assert given.value is None
    assert given.bytes > 5_000
    assert found.events[int(number) - 1].activity_task_scheduled_event_attributes.activity_type.name == "use_tool"


@pytest.mark.usefixtures("short_histories")
async def test_events_continue_across_continue_as_new(environment: OpenEnvironment) -> None:
    """A session is followed from run to run, and a cursor of any run is valid."""
    chain = [subtask(f"T{n}", after=[f"T{n - 1}"] if n > 1 else []) for n in range(1, 4)]
    async with environment(Script().plan(*chain)) as opened:
        session = await opened.chargehand.start(GOAL)
        events = await events_of(session)
        rests = await asyncio.gather(*(events_of(session, each.cursor) for each in events[::5]))
        runs = {event.cursor[:60] for event in events}

    assert len(runs) > 1
    assert told(events) == sorted(f"T{n} {state}" for n in range(1, 4) for state in ("running", "success"))
    assert len([event for event in events if isinstance(event, PlanEvent)]) == 1
    for given, rest in zip(range(1, len(events) + 1, 5), rests, strict=True):
        assert by_workflow([*events[:given], *rest]) == by_workflow(events)


async def test_an_invalid_cursor_is_refused(environment: OpenEnvironment) -> None:
    """A cursor of a session that the server does not have is an error too."""
    async with environment(Script().plan(subtask("T1"))) as opened:
        session = await opened.chargehand.start(GOAL)
        cursor = (await events_of(session))[-1].cursor

        for forged in ("", "nonsense", "e30", cursor[:-4], "A" * 60_000):
            with pytest.raises(ChargehandError, match=r"^after: is not a cursor"):
                await events_of(session, forged)
        with pytest.raises(SessionNotFound):
            await events_of(opened.chargehand.session("another"), cursor)


@pytest.fixture(autouse=True)
def every_text_is_published(monkeypatch: pytest.MonkeyPatch) -> None:
    """Publish every shown text, however soon after the previous one."""
    monkeypatch.setattr(journal, "LIVE_SECONDS", 0)


def shown(call: ModelCall, text: str, field: str = "answer") -> None:
    """Stream a report or a reply's content up to this text."""
    assert call.live is not None
    call.live(lambda: f'{{"{field}": {to_json(text).decode()[:-1]}')


async def test_a_report_is_streamed_while_it_is_written(environment: OpenEnvironment) -> None:
    """The parts join to the whole report, even for a follower that starts in between."""
    first, second = asyncio.Event(), asyncio.Event()

    def begin(call: ModelCall) -> Held:
        shown(call, "All of it\n")
        return Held(go_on, first)

    def go_on(call: ModelCall) -> Held:
        shown(call, 'All of it\nis "kno')
        return Held(report('All of it\nis "known".'), second)

    async with environment(Script().plan(subtask("T1"), subtask("T2")).synthesis(begin)) as opened:
        session = await opened.chargehand.start(GOAL)
        texts: list[TextEvent] = []
        async for event in session.follow():
            if isinstance(event, TextEvent):
                texts.append(event)
                (first if len(texts) == 1 else second).set()
        rest = [event for event in await events_of(session, texts[0].cursor) if isinstance(event, TextEvent)]
        answer = (await session.result()).answer

    parts = [(each.draft, each.offset, each.text) for each in texts]
    assert parts == [(1, 0, "All of it\n"), (1, 10, 'is "kno'), (1, 17, 'wn".')]
    assert "".join([texts[0].text, *(each.text for each in rest)]) == answer


async def test_a_reply_is_streamed_while_it_is_written(client: Client, tmp_path: Path) -> None:
    """Each reply of a conversation is a separate text, sent in parts while the agent writes."""
    begun = asyncio.Event()

    def begin(call: ModelCall) -> Held:
        shown(call, "Good mo", "content")
        return Held(say("Good morning."), begun)

    script = Script().replies("Hello", begin).replies("Bye", say("Goodbye."))
    crews = (crew_folder(tmp_path, "desk", **DESK),)
    async with open_environment(client, tmp_path, script, own_crews=crews, acting=("refund",)) as opened:
        talk = await opened.chargehand.converse(crew="desk")
        replies = [asyncio.create_task(talk.say(text="Hello"))]
        texts: list[TextEvent] = []
        async for event in talk.follow():
            if isinstance(event, TextEvent):
                texts.append(event)
                begun.set()
                if len(texts) == 2:
                    replies.append(asyncio.create_task(talk.say(text="Bye")))
            if len(texts) == 3:
                break
        said = [(await each).text for each in replies]

    parts = [(each.subtask, each.draft, each.offset, each.text) for each in texts]
    assert parts == [("m1", 1, 0, "Good mo"), ("m1", 1, 7, "rning."), ("m2", 1, 0, "Goodbye.")]
    assert said == ["Good morning.", "Goodbye."]


async def test_an_abandoned_draft_is_replaced_in_the_stream(client: Client, tmp_path: Path) -> None:
    """Text of an attempt whose provider failed is a separate draft, and unreadable without the key."""
    failing = asyncio.Event()
    keyless: list[bytes] = []

    def write(call: ModelCall) -> Held:
        is_first = len(opened.model.of_kind("synthesis")) == 1
        shown(call, "Nothing" if is_first else "All")
        busy = ProviderError("It is busy.", ProviderFault(provider="scripted"), ErrorType.PROVIDER_UNAVAILABLE)
        return Held(busy if is_first else report("All of it."), failing)

    encrypted = await connect(client, Encryption({"k": bytes(32)}, "k"))
    script = Script().plan(subtask("T1"), subtask("T2")).synthesis(write)
    async with open_environment(encrypted, tmp_path, script) as opened:
        session = await opened.chargehand.start(GOAL)
        drafts: dict[int, str] = defaultdict(str)
        async for event in session.follow():
            if isinstance(event, TextEvent):
                drafts[event.draft] += event.text
            if isinstance(event, TextEvent) and not failing.is_set():
                keyless.append((await describe(client, session.id)).SerializeToString())
                failing.set()

    assert drafts == {1: "Nothing", 2: "All of it."}
    assert not any(b"Nothing" in stored for stored in keyless)


@pytest.mark.parametrize("asked", ["report", "agents"])
async def test_agent_text_is_streamed_only_on_request(
    environment: OpenEnvironment, asked: Literal["report", "agents"]
) -> None:
    """It comes in parts while agents write, and whole afterwards."""
    going_on = {path: asyncio.Event() for path in ("T1", "X1", "X2")}

    def begin(call: ModelCall) -> Held:
        assert isinstance(call.task, WorkTask)
        path = next(each for each in going_on if each in call.task.instruction)
        if asked == "agents":
            shown(call, f"{path} is", "content")
        else:
            assert call.live is None
            going_on[path].set()
        return Held(answer(f"{path} is known."), going_on[path])

    script = nesting().work("", begin)
    texts: dict[tuple[str, str], str] = defaultdict(str)
    parts = 0
    async with environment(script) as opened:
        session = await opened.chargehand.start(GOAL.model_copy(update={"live_text": asked}))
        async for event in session.follow():
            if isinstance(event, AgentTextEvent):
                key, parts = (event.subtask, event.agent), parts + 1
                texts[key] = texts[key][: event.offset] + event.text
                path = event.subtask.rpartition("/")[2]
                if path in going_on and event.text.endswith("is"):
                    going_on[path].set()
        afterwards = [event for event in await events_of(session) if isinstance(event, AgentTextEvent)]
        report_text = (await session.result()).answer

    known = {(path, "reader"): f"{path.rpartition('/')[2]} is known." for path in ("T1", "N1/X1", "N1/X2")}
    known |= {("N1", "supervisor"): "All of it is known."}
    assert texts == (known if asked == "agents" else {})
    assert {(each.subtask, each.agent): each.text for each in afterwards} == texts
    assert parts == (7 if asked == "agents" else 0)
    assert report_text == "All of it is known."
