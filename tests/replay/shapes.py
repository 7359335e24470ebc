"""Every shape of session that is recorded: how its model behaves and what is asked."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel

from activities.contracts import SubtaskDraft
from activities.models.protocol import ModelCall, ModelReply
from activities.turn_kinds.compress import CompressTask
from activities.turn_kinds.critique import CritiqueTask
from activities.turn_kinds.judge import JudgeTask
from activities.turn_kinds.plan import PlanTask
from activities.turn_kinds.refine import RefineTask
from activities.turn_kinds.review import ReviewTask
from activities.turn_kinds.synthesis import SynthesisTask
from activities.turn_kinds.work import WorkTask
from chargehand.client import Session
from chargehand.contracts import Answer, Limits, Plan, PlanDecision, RaisedLimits, SessionRequest, Subtask
from chargehand.errors import SessionEnded
from tests.scripted_model import (
    Held,
    Respond,
    answer,
    compressed,
    criticised,
    disagreement,
    judged,
    plan,
    refined,
    reply,
    report,
    reviewed,
    subtask,
    use,
)
from tests.waiting import until

GOAL: Final = "What do the documents say about the topics?"
_USUAL: Final = SessionRequest(goal=GOAL)
NESTED: Final = "Look into the second topic as a whole."


@dataclass(frozen=True)
class Shape:
    """One shape of session."""

    respond: Respond
    request: SessionRequest = _USUAL
    meanwhile: Callable[[Session], Awaitable[None]] | None = None
    """What is done to the session while it runs."""


def _model(*subtasks: SubtaskDraft, lost: str = "", held: str = "", below: tuple[SubtaskDraft, ...] = ()) -> Respond:
    """Script a model: agents use one tool and answer, but for the topic that is lost and the one that is held."""
    never = asyncio.Event()

    def respond(call: ModelCall) -> ModelReply | Held:
        task = call.task
        if task.kind == "plan":
            return reply(plan(*(below if task.goal.startswith(NESTED) else subtasks)))
        if not isinstance(task, WorkTask):
            return reply(report("What is known [S1]."))
        if held and held in task.instruction:
            return Held(reply(answer("Never.")), never)
        if lost and lost in task.instruction:
            return ModelReply(stop="refused", model="scripted-1", provider="scripted")
        if not task.rounds:
            may_look = call.tools and not task.must_answer
            return use(call.tools[0].name) if may_look else reply(answer("From what is given."))
        source = task.rounds[0].results[0].sources[0]
        return reply(answer(f"Known [{source.ref}].", ref=source.ref, quote=source.quote))

    return respond


def _repairing(call: ModelCall) -> ModelReply:
    """Write an unusable plan first and a valid one then; answer in words that are not JSON first."""
    if call.task.kind == "plan":
        return reply(plan(subtask("T1")) if call.task.rejected else plan(subtask("T1", agent="nobody")))
    if isinstance(call.task, WorkTask) and not call.task.rounds:
        return ModelReply(stop="answer", text="not JSON", model="scripted-1", provider="scripted")
    return reply(answer("Known."))


def _untaught(call: ModelCall) -> ModelReply:
    """Write nothing but plans that cannot be carried out."""
    return reply(plan() if call.task.kind == "plan" else answer("Known."))


def _insatiable(call: ModelCall) -> ModelReply:
    """Ask for more and more, and only then answer."""
    if not isinstance(call.task, WorkTask):
        return reply(plan(subtask("T1")))
    rounds = len(call.task.rounds)
    return use("search_documents", about=rounds) if rounds < 7 else reply(answer("Known at last."))


def _recovering(call: ModelCall) -> ModelReply:
    """Fail at first, be refined, fail again, and leave it to the fallback agent; be unsure, and then sure."""
    match call.task:
        case WorkTask():
            if call.agent == "analyst":
                return reply(answer("Perhaps.", status="confidence_too_low"))
            return reply(answer("Known.") if call.agent == "researcher" else answer("", status="no_answer"))
        case RefineTask():
            return reply(refined("Look in the second chapter of the handbook, and nowhere else."))
        case JudgeTask():
            return reply(judged("A2"))
        case PlanTask():
            return reply(plan(subtask("T1"), subtask("T2", agent="analyst")))
        case _:
            return reply(report("What is known."))


def _thorough(call: ModelCall) -> ModelReply:
    """Find something missing, contradictions, and faults in the report."""
    said: BaseModel
    match call.task:
        case PlanTask():
            said = plan(subtask("T1"), subtask("T2"))
        case ReviewTask() if len(call.task.outcomes) == 2:
            found = disagreement("the year", "T1 says 1987", "T2 says 1990")
            said = reviewed(subtask("T3", after=["T1"]), missing=["a third"], contradictions=[found])
        case ReviewTask():
            said = reviewed()
        case JudgeTask():
            said = judged("T2")
        case CritiqueTask():
            said = criticised("The second sentence has no source.")
        case SynthesisTask():
            said = report("What is known, mended." if call.task.problems else "What is known.")
        case _:
            said = answer("Known.")
    return reply(said)


def _long_winded(call: ModelCall) -> ModelReply:
    """Answer at such length that answers are compressed, and summarised in a tree."""
    match call.task:
        case PlanTask():
            return reply(plan(*(subtask(f"T{number}") for number in range(1, 15)), strategy="reduce"))
        case WorkTask() if "topic T1 " in call.task.instruction:
            return reply(answer("It is so. " * 1_200))
        case WorkTask():
            return reply(answer("It is so. " * 790))
        case CompressTask():
            return reply(compressed("It is so."))
        case _:
            return reply(report("It is so."))


def _choosing(call: ModelCall) -> ModelReply:
    """Have several candidates, of which a judge selects one."""
    match call.task:
        case PlanTask():
            return reply(plan(subtask("T1"), subtask("T2", agent="analyst"), strategy="select"))
        case JudgeTask():
            return reply(judged("T2"))
        case _:
            return reply(answer("Known."))


def _unclear(call: ModelCall) -> ModelReply:
    """Ask what is meant, and know it once that is answered."""
    match call.task:
        case PlanTask():
            return reply(plan(subtask("T1"), subtask("T2", agent="analyst")))
        case WorkTask() if "topic T1" in call.task.instruction and "which decides" not in call.task.instruction:
            return reply(answer("", status="ambiguous_input"))
        case WorkTask():
            return reply(answer("Known."))
        case _:
            return reply(report("What is known."))


async def _answer(session: Session) -> None:
    await until(lambda: _in_state(session, "awaiting_answer"))
    await session.answer(Answer(subtask="T1", text="The one of this year."))


def _lengthy(call: ModelCall) -> ModelReply:
    """Read so much that the conversation is kept outside of the history."""
    if not isinstance(call.task, WorkTask):
        return reply(plan(subtask("T1")))
    rounds = len(call.task.rounds)
    if rounds == 5:
        return reply(answer("Known at last."))
    return use("search_documents", about=f"{rounds} {'and on ' * 400}")


async def _cancel(session: Session) -> None:
    await until(lambda: _in_state(session, "carrying_out"))
    await session.cancel()


async def _edit(session: Session) -> None:
    await until(lambda: _in_state(session, "awaiting_approval"))
    only = Subtask(id="E1", agent="reader", instruction="Read only the handbook, please.")
    await session.decide_plan(PlanDecision(decision="edit", plan=Plan(subtasks=(only,))))


async def _reject(session: Session) -> None:
    await until(lambda: _in_state(session, "awaiting_approval"))
    await session.decide_plan(PlanDecision(decision="reject", reason="Not now."))


async def _raise(session: Session) -> None:
    await until(lambda: _in_state(session, "paused"))
    await session.raise_limits(RaisedLimits(max_turns=12))


async def _finish(session: Session) -> None:
    await until(lambda: _in_state(session, "carrying_out"))
    await session.finish_now()


async def _in_state(session: Session, state: str) -> bool:
    return (await session.status()).state == state


async def ended(session: Session) -> None:
    """Wait for a session, whichever way it ends."""
    try:
        await session.result()
    except SessionEnded:
        return


def shapes() -> dict[str, Shape]:
    """List the shapes by name."""
    five = tuple(subtask(f"T{number}") for number in range(1, 6))
    chain = (
        subtask("T1"),
        subtask("T2", agent="analyst"),
        subtask("T3", after=["T1"]),
        subtask("T4", agent="analyst", after=["T2"]),
        subtask("T5", agent="writer", after=["T3", "T4"], required=["T4"]),
    )
    nested = (subtask("T1"), subtask("N1", agent="supervisor", after=["T1"], instruction=NESTED))
    approval = SessionRequest(goal=GOAL, approval="plan")
    return {
        "one-subtask": Shape(_model(subtask("T1"))),
        "five-in-parallel": Shape(_model(*five)),
        "two-at-once": Shape(_model(*five), SessionRequest(goal=GOAL, limits=Limits(max_parallel=2))),
        "chains": Shape(_model(*chain)),
        "lost-input": Shape(_model(*chain, lost="topic T1")),
        "lost-required-input": Shape(_model(*chain, lost="topic T2")),
        "everything-lost": Shape(_model(subtask("T1"), subtask("T2"), lost="topic")),
        "nested": Shape(_model(*nested, below=(subtask("X1"), subtask("X2", agent="analyst")))),
        "nested-duplicate": Shape(_model(*nested, below=(subtask("X1", instruction=five[0].instruction),))),
        "few-turns": Shape(_model(*five), SessionRequest(goal=GOAL, limits=Limits(max_turns=8))),
        "deadline": Shape(
            _model(subtask("T1"), subtask("T2"), held="topic T2"),
            SessionRequest.model_validate({"goal": GOAL, "limits": {"deadline": 2}}),
        ),
        "cancelled": Shape(_model(subtask("T1"), subtask("T2"), held="topic T2"), meanwhile=_cancel),
        "repaired": Shape(_repairing),
        "undivided": Shape(_untaught),
        "approved-after-edit": Shape(_model(subtask("T1"), subtask("T2")), approval, _edit),
        "grants": Shape(_insatiable),
        "recovered": Shape(_recovering),
        "paused-and-raised": Shape(
            _model(*five[:3]), SessionRequest(goal=GOAL, limits=Limits(max_turns=5, on_limit="pause")), _raise
        ),
        "finished-early": Shape(_model(subtask("T1"), subtask("T2"), held="topic T2"), meanwhile=_finish),
        "looked-at-again": Shape(_thorough, SessionRequest(goal=GOAL, review="always")),
        "condensed": Shape(_long_winded, SessionRequest(goal=GOAL, limits=Limits(max_turns=60, max_parallel=14))),
        "selected": Shape(_choosing),
        "asked-and-answered": Shape(_unclear, SessionRequest(goal=GOAL, questions="allowed"), _answer),
        "asked-in-vain": Shape(
            _unclear, SessionRequest.model_validate({"goal": GOAL, "questions": "allowed", "answer_within": 1})
        ),
        "out-of-time": Shape(
            _model(subtask("T1"), subtask("T2"), held="topic T2"),
            SessionRequest.model_validate({"goal": GOAL, "limits": {"subtask_deadline": 2, "max_depth": 1}}),
        ),
        "long-conversation": Shape(_lengthy),
        "rejected": Shape(_model(subtask("T1"), subtask("T2")), approval, _reject),
    }
