"""Answers that say that there is none."""

from collections.abc import Sequence

from activities.turn_kinds.work import WorkAnswer


def no_answer(message: str, content: str = "", gaps: Sequence[str] = ()) -> WorkAnswer:
    """Answer that nothing was found, and why; `gaps` are those that the message does not name."""
    return WorkAnswer(
        status="no_answer", content=content or message, findings=[], confidence=0, gaps=list(gaps), message=message
    )
