"""The memo of a session: what its followers and lists of sessions read of it."""

from collections.abc import Sequence
from typing import Any, Final

from chargehand.contracts import Plan, PlannedSubtask, Question, SessionState, Subtask
from workflows.state.call_approvals import Pending
from workflows.state.progress import Progress

_TITLE_CHARACTERS: Final = 80


class Memo:
    """What a session has written into its memo last, for followers of its history and for people who list sessions.

    The memo stands in lists of sessions too: it holds the beginning of each instruction, and of a tool call only which
    request it answers.
    """

    def __init__(self) -> None:
        self._state: SessionState | None = None
        self._plan: Plan | None = None
        self._questions: tuple[Question, ...] = ()
        self._calls: tuple[Pending, ...] = ()
        self._decisions = 0

    def changes(self, progress: Progress) -> dict[str, Any]:
        """Return the fields of the memo that have changed since the last call."""
        fields: dict[str, Any] = {}
        if progress.state != self._state:
            fields["state"] = self._state = progress.state
        if progress.plan is not None and progress.plan is not self._plan:
            self._plan = progress.plan
            fields["plan"] = [_plan_entry(subtask) for subtask in progress.plan.subtasks]
        questions = tuple(progress.questions.values())
        if questions != self._questions:
            self._questions = questions
            fields["questions"] = [question.model_dump(mode="json") for question in questions]
        calls = progress.approvals.open_calls
        if calls != self._calls:
            self._calls = calls
            fields["calls"] = _calls(calls)
        if fields and (new := progress.waits.decisions[self._decisions :]):
            self._decisions += len(new)
            fields["decisions"] = [each.model_dump(mode="json") for each in new]
        return fields


def _plan_entry(subtask: Subtask) -> dict[str, Any]:
    return PlannedSubtask(
        id=subtask.id,
        agent=subtask.agent,
        depends_on=subtask.depends_on,
        for_each=subtask.for_each,
        title=" ".join(subtask.instruction.split())[:_TITLE_CHARACTERS],
    ).model_dump(mode="json")


def _calls(calls: Sequence[Pending]) -> list[dict[str, Any]]:
    """Describe calls by the requests that a follower finds in the history, with their arguments."""
    return [
        call.shown.model_dump(mode="json", include={"id", "hash", "workflow_id", "open_until"})
        | {"number": call.number}
        for call in calls
    ]
