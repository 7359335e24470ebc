"""Answers that say that there is none."""

from collections.abc import Sequence

from activities.contracts import AgentAnswer


def no_answer(message: str, content: str = "", gaps: Sequence[str] = ()) -> AgentAnswer:
    """Answer that nothing was found, and why; `gaps` are those that the message does not name."""
    return AgentAnswer(
        status="no_answer", content=content or message, findings=[], confidence=0, gaps=list(gaps), message=message
    )
