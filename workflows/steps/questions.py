"""Asking a person what an ambiguous subtask means, while the rest of the session goes on."""

from datetime import timedelta

from temporalio import workflow

from chargehand.contracts import Outcome, Question, Subtask
from workflows.rules.recovery import question_of
from workflows.session import Session


async def ask(session: Session, subtask: Subtask, outcome: Outcome) -> str | None:
    """Put a subtask's question to whoever watches the session; None if nobody answers in time."""
    left = min(session.request.answer_within, session.writing_starts_at - workflow.now())
    if left <= timedelta(0):
        return None
    question = Question(
        subtask=subtask.id, agent=subtask.agent, text=question_of(outcome), open_until=workflow.now() + left
    )
    session.progress.questions[subtask.id] = question
    session.enter("awaiting_answer")
    try:
        await workflow.wait_condition(
            lambda: subtask.id in session.answers or session.is_over,
            timeout=left,
            timeout_summary=f"until {subtask.id} goes on without an answer",
        )
    except TimeoutError:
        return None
    finally:
        del session.progress.questions[subtask.id]
        if session.progress.state == "awaiting_answer":
            session.go_on()
    return session.answers.pop(subtask.id, None)


def with_answer(instruction: str, question: str, answer: str) -> str:
    """Write an instruction anew that says what a person answered."""
    return f"{instruction}\n\nA person was asked: {question}\nThe answer, which decides: {answer}"
