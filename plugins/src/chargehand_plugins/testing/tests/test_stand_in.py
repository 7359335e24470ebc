"""The stand-in behaves like the client that it replaces, without a server."""

import inspect
from typing import Any

import pytest

from chargehand import Chargehand, Conversation, Session
from chargehand.contracts import Plan, PlanDecision, SessionRequest, Status, Subtask, Trace
from chargehand.errors import (
    AnotherRequest,
    SessionCancelled,
    SessionEnded,
    SessionFailed,
    SessionNotFound,
    SessionTerminated,
    UpdateRefused,
)
from chargehand.wire import ErrorType
from chargehand_plugins.testing import StandInChargehand, StandInConversation, StandInScript, StandInSession, report_of

REQUEST = SessionRequest(goal="When can we leave?")
PLAN = Plan(subtasks=(Subtask(id="T1", agent="reader", instruction="Find the notice"),))
_WORDING = {"approve", "edit", "reject", "approve_call", "reject_call"}
FAILED = SessionFailed("The plan cannot be carried out.", ErrorType.INVALID_PLAN)


def _public(kind: type) -> dict[str, Any]:
    """List a class's own public methods, except those that only send a message."""
    return {
        name: value
        for name, value in vars(kind).items()
        if inspect.isroutine(value) and not name.startswith("_") and name not in _WORDING
    }


@pytest.mark.parametrize(
    ("stand_in", "real"),
    [(StandInChargehand, Chargehand), (StandInSession, Session), (StandInConversation, Conversation)],
)
def test_a_stand_in_has_the_methods_of_the_real_class(stand_in: type, real: type) -> None:
    """Every public method has the same parameters and is awaited the same way."""
    same = _public(real)

    assert set(same) <= set(_public(stand_in))
    assert {name: list(_signature(real, name).parameters.values()) for name in same} == {
        name: list(_signature(stand_in, name).parameters.values()) for name in same
    }
    assert {name: _kind(getattr(real, name)) for name in same} == {
        name: _kind(getattr(stand_in, name)) for name in same
    }


def _signature(kind: type, name: str) -> inspect.Signature:
    return inspect.signature(getattr(kind, name))


def _kind(method: Any) -> tuple[bool, bool]:
    return inspect.iscoroutinefunction(method), inspect.isasyncgenfunction(method)


async def test_a_conversation_replies_in_order_until_it_is_closed() -> None:
    """The last reply repeats; the transcript has all messages, and one after the end is refused."""
    chargehand = StandInChargehand(report_of("Three months."), replies=["Hello.", "So it is."])
    talk = await chargehand.converse(agent="clerk")
    said = [(await talk.say(text=text)).text for text in ("Hi.", "Is it?", "Really?")]
    await talk.close()

    assert said == ["Hello.", "So it is.", "So it is."]
    assert [line.speaker for line in (await talk.transcript()).lines] == ["user", "clerk"] * 3
    assert ((await talk.result()).messages, (await talk.result()).replies) == (3, 3)
    with pytest.raises(UpdateRefused, match="has ended"):
        await talk.say(text="One more.")
    with pytest.raises(SessionNotFound):
        chargehand.conversation("unknown")


@pytest.mark.parametrize(
    ("ending", "state", "temporals_word"),
    [
        (FAILED, "failed", "failed"),
        (SessionCancelled("It was cancelled."), "cancelled", "canceled"),
        (SessionTerminated("It was terminated."), "failed", "terminated"),
    ],
)
async def test_a_session_raises_its_scripted_error(ending: SessionEnded, state: str, temporals_word: str) -> None:
    """It is raised each time the result is awaited."""
    chargehand = StandInChargehand(ending)
    session = await chargehand.start(REQUEST)

    for _ in range(2):
        with pytest.raises(SessionEnded) as caught:
            await session.result()
        assert caught.value is ending

    assert (await session.status()).state == state
    assert [summary.state async for summary in chargehand.list()] == [temporals_word]


async def test_sessions_use_their_scripts_in_order() -> None:
    """The last script is for all sessions that follow; an id that exists starts nothing."""
    first, last = report_of("One."), report_of("Two.")
    chargehand = StandInChargehand(first, last)

    sessions = [await chargehand.start(REQUEST, session_id=name) for name in ("mine", None, None)]
    same = await chargehand.start(REQUEST, session_id="mine")
    with pytest.raises(AnotherRequest, match="'mine' exists and differs in goal"):
        await chargehand.start(SessionRequest(goal="something else"), session_id="mine")

    assert [await each.result() for each in (*sessions, same)] == [first, last, last, first]
    assert [summary.id async for summary in chargehand.list(limit=2)] == ["session-3", "session-2"]
    assert chargehand.requests == dict.fromkeys(("mine", "session-2", "session-3"), REQUEST)
    assert await same.status() == Status(session="mine", goal=REQUEST.goal, state="finished")
    assert (await same.request(), await same.plan(), (await same.trace()).steps) == (REQUEST, None, ())


async def test_every_part_of_a_session_can_be_scripted() -> None:
    """Status, plan and trace are returned as given, and decisions on the plan are recorded."""
    status = Status(session="s", goal="g", state="awaiting_approval", plan=PLAN)
    trace = Trace(session="s", exported_at=report_of("").timing.ended_at)
    chargehand = StandInChargehand(StandInScript(report_of("One."), status=status, plan=PLAN, trace=trace))
    session = await chargehand.start(REQUEST)
    edited = Plan(subtasks=(*PLAN.subtasks, Subtask(id="T2", agent="writer", instruction="Write a letter")))
    decisions = [PlanDecision(decision="approve"), PlanDecision(decision="edit", plan=edited)]

    carried_out = [await session.approve(), await session.edit(edited)]

    assert (await session.status(), await session.plan(), await session.trace()) == (status, PLAN, trace)
    assert carried_out == [PLAN, edited]
    assert chargehand.sent == {"session-1": [("decide_plan", each) for each in decisions]}


async def test_a_cancelled_session_has_no_report() -> None:
    """Its result raises and its state is `cancelled`; a decision on nothing pending is refused."""
    chargehand = StandInChargehand(report_of("One."))
    session = await chargehand.start(REQUEST)

    with pytest.raises(UpdateRefused, match="This session is not awaiting approval"):
        await session.approve()
    await session.cancel()

    with pytest.raises(SessionCancelled, match="'session-1' was cancelled"):
        await session.result()
    assert (await session.status()).state == "cancelled"
    assert [summary.state async for summary in chargehand.list()] == ["canceled"]


async def test_a_session_that_was_never_started_is_not_found() -> None:
    """A handle exists for any id, but using it raises `SessionNotFound`."""
    session = StandInChargehand(report_of("One.")).session("other")

    for use in (session.status, session.plan, session.result, session.cancel, session.trace):
        with pytest.raises(SessionNotFound, match="no session or conversation 'other'"):
            await use()


async def test_a_stand_in_needs_a_script_and_cannot_connect() -> None:
    """Both errors say what to do instead."""
    with pytest.raises(ValueError, match="say how sessions end"):
        StandInChargehand()
    with pytest.raises(NotImplementedError, match="made, not connected"):
        await StandInChargehand.connect()
