"""Every recorded shape of session: how its model behaves and what is requested."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from activities.contracts.cards import AgentDraft
from activities.models.protocol import ModelCall, ModelReply
from activities.turn_kinds.plan import DesignAnswer
from chargehand import Conversation
from chargehand.contracts import AddSubtask, Limits, Plan, SessionRequest, SessionState, Subtask
from chargehand.errors import SessionEnded
from chargehand.session import Session
from tests.scripted_model import (
    Held,
    Script,
    Turn,
    answer,
    cite,
    compressed,
    criticised,
    disagreement,
    judged,
    plan,
    refined,
    refuse,
    report,
    reviewed,
    say,
    subtask,
    topics,
    use,
)
from tests.waiting import until, until_state

GOAL: Final = "What do the documents say about the topics?"
WEBHOOK_HOST: Final = "webhook.invalid"
"""An unreachable host: the workflow that calls it is recorded while it waits."""
_USUAL: Final = SessionRequest(goal=GOAL)
_NESTED: Final = "Look into the second topic as a whole."


@dataclass(frozen=True)
class Shape:
    script: Script
    request: SessionRequest = _USUAL
    meanwhile: Callable[[Session], Awaitable[None]] | None = None
    """What is done to the session while it is running."""
    afterwards: Callable[[Session], Awaitable[str]] | None = None
    """Starts something after the session has ended; returns the id of its workflow."""
    talk: Callable[[Conversation], Awaitable[None]] | None = None
    """Messages of a conversation, if the shape is a conversation instead of a session."""
    most_events: int | None = None
    """After how many events it continues as new; its last run is recorded."""


def _read(call: ModelCall) -> Turn:
    return use(call.tools[0].name) if call.tools else answer("From what is given.")


_USUALLY: Final = Script().synthesis(report("What is known [S1].")).work("", _read, cite("Known [{ref}]."))
"""Agents use one tool, if they have any, and answer."""
_GEOLOGIST: Final = AgentDraft(
    name="geologist",
    description="Knows rocks and their ages.",
    prompt="Look at the layers first, then at the maps.",
    tools=["read_document"],
    tier="medium",
)
_SHORTLY: Final = Script().synthesis(report("What is known."))


def _held() -> Script:
    """Hold the second of two subtasks for ever."""
    return _USUALLY.plan(*topics(2)).work("T2", Held(answer("Never.")))


def _recovering() -> Script:
    """Fail, be refined, fail again, and leave it to the fallback agent; the other is unsure, then sure."""
    script = _SHORTLY.plan(subtask("T1"), subtask("T2", agent="analyst"))
    script = script.work("", answer("", status="no_answer"), agent="reader")
    script = script.work("", answer("Perhaps.", status="confidence_too_low"), agent="analyst").on("judge", judged("A2"))
    return script.refine(refined("Look in the second chapter of the handbook, and nowhere else."))


def _thorough() -> Script:
    """Find a missing part, contradictions and faults in the report."""
    year = disagreement("the year", "T1 says 1987", "T2 says 1990")
    missing = reviewed(subtask("T3", after=["T1"]), missing=["a third"], contradictions=[year])
    script = Script().plan(*topics(2)).on("judge", judged("T2"))
    script = script.on("review", missing).on("review", reviewed(), when=lambda call: "T3" in call.messages[0].text)
    script = script.on("critique", criticised("The second sentence has no source."))
    return script.synthesis(report("What is known."), report("What is known, mended."))


def _long_winded() -> Script:
    """Answer at such length that answers are compressed, and summarised in a tree."""
    script = Script().plan(*topics(14), strategy="reduce").synthesis(report("It is so."))
    script = script.work("", answer("It is so. " * 790)).work("T1", answer("It is so. " * 1_200))
    return script.on("compress", compressed("It is so."))


def _unclear() -> Script:
    """Ask what is meant, and know the answer once told."""
    script = _SHORTLY.plan(subtask("T1"), subtask("T2", agent="analyst"))
    return script.work("T1", answer("", status="ambiguous_input")).work("which decides", answer("Known."))


def _repeating(rounds: int, words: str = "") -> Script:
    """Search for something new in each of this many rounds, and then answer."""
    searches = [use("search_documents", about=f"{number} {words}") for number in range(rounds)]
    return Script().plan(subtask("T1")).work("", *searches, answer("Known at last."))


def _when(state: SessionState, act: Callable[[Session], Awaitable[object]]) -> Callable[[Session], Awaitable[None]]:
    async def wait_and_act(session: Session) -> None:
        await until_state(session, state)
        await act(session)

    return wait_and_act


async def _decide_calls(session: Session) -> None:
    """Have one of two calls that wait made with other arguments, and reject the other."""

    async def both_wait() -> bool:
        return len((await session.status()).calls) == 2

    await until(both_wait)
    one, other = (await session.status()).calls
    edited: dict[str, JsonValue] = {"query": "the other handbook"}
    await session.approve_call(one, edited)
    await session.reject_call(other)


async def _steer(session: Session) -> None:
    await session.tell(text="Only the handbook, please.", subtask="T2")
    await session.interrupt(subtask="T2")
    added = Subtask(id="T3", agent="reader", instruction="Read the bulletin.")
    await session.edit_plan(edits=(AddSubtask(subtask=added),))
    await session.finish_now()


async def _ask(session: Session) -> str:
    asked = await session.ask("And what do they not say?", session_id=f"{session.id}-asked")
    await asked.result()
    return asked.id


async def _verify(session: Session) -> str:
    await session.verify()
    return f"{session.id}/verification"


async def ended(session: Session) -> None:
    """Wait for a session, whichever way it ends."""
    try:
        await session.result()
    except SessionEnded:
        return


def _talking() -> Script:
    """Use a tool, hand over, and delegate a job."""
    return (
        _USUALLY.plan(subtask("T1"))
        .replies("Hello", use("search_documents"), say("Hello."))
        .replies("figures", say("I ask the analyst.", hand_over="analyst"), agent="reader")
        .replies("figures", say("There are three."), agent="analyst")
        .replies("report", say("It has begun.", job=_NESTED))
        .replies("job j1", say("It says what is known."))
    )


async def _talk(talk: Conversation) -> None:
    """Send these messages, wait for the job's report, and close."""
    for text in ("Hello", "What are the figures?", "Write a report."):
        await talk.say(text=text)
    await until(lambda: _is_reported(talk))
    await talk.close()
    await talk.result()


async def _is_reported(talk: Conversation) -> bool:
    return "It says what is known." in [line.text for line in (await talk.transcript()).lines]


def shapes() -> dict[str, Shape]:
    five = _USUALLY.plan(*topics(5))
    two = _USUALLY.plan(*topics(2))
    chain = (
        subtask("T1"),
        subtask("T2", agent="analyst"),
        subtask("T3", after=["T1"]),
        subtask("T4", agent="analyst", after=["T2"]),
        subtask("T5", agent="writer", after=["T3", "T4"], required=["T4"]),
    )
    nested = _USUALLY.plan(subtask("T1"), subtask("N1", agent="supervisor", after=["T1"], instruction=_NESTED))
    candidates = Script().plan(subtask("T1"), subtask("T2", agent="analyst"), strategy="select")
    not_json = ModelReply(stop="answer", text="not JSON", model="scripted-1", provider="scripted")
    two_tries = Script().plans(plan(subtask("T1", agent="nobody")), plan(subtask("T1")))
    two_tries = two_tries.work("", not_json, answer("Known."))
    pausing = SessionRequest(goal=GOAL, limits=Limits(max_turns=5, on_limit="pause"))
    approval = SessionRequest(goal=GOAL, approval="plan")
    only = Subtask(id="E1", agent="reader", instruction="Read only the handbook, please.")
    return {
        "one-subtask": Shape(_USUALLY.plan(subtask("T1"))),
        "five-in-parallel": Shape(five),
        "two-at-once": Shape(five, SessionRequest(goal=GOAL, limits=Limits(max_parallel=2))),
        "chains": Shape(_USUALLY.plan(*chain)),
        "lost-input": Shape(_USUALLY.plan(*chain).work("T1", refuse)),
        "lost-required-input": Shape(_USUALLY.plan(*chain).work("T2", refuse)),
        "everything-lost": Shape(two.work("", refuse)),
        "nested": Shape(nested.plan(subtask("X1"), subtask("X2", agent="analyst"), goal=_NESTED)),
        "nested-duplicate": Shape(nested.plan(subtask("X1", instruction=subtask("T1").instruction), goal=_NESTED)),
        "few-turns": Shape(five, SessionRequest(goal=GOAL, limits=Limits(max_turns=8))),
        "deadline": Shape(_held(), SessionRequest.model_validate({"goal": GOAL, "limits": {"deadline": 2}})),
        "cancelled": Shape(_held(), meanwhile=_when("executing", lambda session: session.cancel())),
        "repaired": Shape(two_tries),
        "described-agents": Shape(
            _USUALLY.on("design", DesignAnswer(agents=[_GEOLOGIST])).plan(subtask("T1", "geologist"), subtask("T2")),
            SessionRequest(goal=GOAL, crew="custom"),
        ),
        "undivided": Shape(Script().plan()),
        "approved-after-edit": Shape(
            two, approval, _when("awaiting_approval", lambda session: session.edit(Plan(subtasks=(only,))))
        ),
        "grants": Shape(_repeating(7)),
        "recovered": Shape(_recovering()),
        "paused-and-raised": Shape(
            _USUALLY.plan(*topics(3)), pausing, _when("paused", lambda session: session.raise_limits(max_turns=12))
        ),
        "finished-early": Shape(_held(), meanwhile=_when("executing", lambda session: session.finish_now())),
        "looked-at-again": Shape(_thorough(), SessionRequest(goal=GOAL, review="always")),
        "condensed": Shape(_long_winded(), SessionRequest(goal=GOAL, limits=Limits(max_turns=60, max_parallel=14))),
        "selected": Shape(candidates.on("judge", judged("T2"))),
        "asked-and-answered": Shape(
            _unclear(),
            SessionRequest(goal=GOAL, questions="allowed"),
            _when("awaiting_answer", lambda session: session.answer(subtask="T1", text="The one of this year.")),
        ),
        "calls-decided": Shape(
            _SHORTLY.plan(*topics(2)).work("", use("search_documents"), answer("Known.")),
            SessionRequest(goal=GOAL, crew="approved"),
            _decide_calls,
        ),
        "asked-in-vain": Shape(
            _unclear(), SessionRequest.model_validate({"goal": GOAL, "questions": "allowed", "answer_within": 1})
        ),
        "out-of-time": Shape(
            _held(), SessionRequest.model_validate({"goal": GOAL, "limits": {"subtask_deadline": 2, "max_depth": 1}})
        ),
        "long-conversation": Shape(_repeating(5, "and on " * 400)),
        "rejected": Shape(two, approval, _when("awaiting_approval", lambda session: session.reject("Not now."))),
        "steered": Shape(_held(), meanwhile=_when("executing", _steer)),
        "followed": Shape(_USUALLY.plan(subtask("T1")), afterwards=_ask),
        "verified": Shape(_USUALLY.plan(subtask("T1")), afterwards=_verify),
        "announced": Shape(
            _USUALLY.plan(subtask("T1")), SessionRequest(goal=GOAL, webhook=f"https://{WEBHOOK_HOST}/end")
        ),
        "conversation": Shape(_talking(), talk=_talk),
        "continued": Shape(_USUALLY.plan(*chain), most_events=60),
    }
