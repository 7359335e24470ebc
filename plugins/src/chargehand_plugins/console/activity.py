"""The activity of a session's agents as a tree, derived from its histories."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from chargehand.contracts import PendingCall, Status, SubtaskRecord, Usage
from chargehand.contracts.report import awaiting_records
from chargehand.failure_causes import error_words
from chargehand.history.projection import Projection
from chargehand.history.steps import Draft
from chargehand.history.tree import status_of
from chargehand.state_words import Tone, reason_words
from chargehand_cli.rendering.text import count, dollars, duration

_TONES: Final[dict[str, Tone]] = {"running": "running", "completed": "success"}


@dataclass(frozen=True)
class Message:
    """A person's message to the agents."""

    text: str
    to: str
    at: datetime | None
    readers: tuple[str, ...]


@dataclass(frozen=True)
class AgentView:
    """An agent with its subtask, or a supervisor with the agents of its session, as far as its work is read."""

    record: SubtaskRecord | None
    """The agent's subtask; None for the session's supervisor."""
    attempts: Sequence[Projection]
    below: "tuple[AgentView, ...]"

    @property
    def draft(self) -> Draft | None:
        """Its workflow, by which the page identifies it."""
        return self.attempts[-1].scope.draft if self.attempts else None

    @property
    def spent(self) -> str:
        """Its cost so far, including everything below it."""
        spent = sum((each.spent for each in self.attempts), Usage())
        return " · ".join([count(spent.turns, "turn"), dollars(spent.cost_usd)]) if spent.turns else ""

    def steps(self, *, running: bool) -> list[Draft]:
        """List its running turns and tool calls, or those that are over, newest last."""
        steps = [step for attempt in self.attempts for step in attempt.scope.calls]
        return [step for step in steps if (step.state == "running") == running]


def supervisor_view(session: Projection, status: Status) -> AgentView:
    """Build the view of a session's supervisor from the session's status."""
    return AgentView(None, [session], tuple(_subtask(each, session, status.calls) for each in status.subtasks))


def messages_of(session: Projection) -> tuple[Message, ...]:
    """List people's messages to the agents of a session, with who read them in which turn."""
    sent = _messages(session)
    readers = [list[str]() for _ in sent]
    for path, projection in _everything("", session)[1:]:
        unread = [at for at, step in enumerate(sent) if f"{path}/".startswith(step.subtask and f"{step.subtask}/")]
        for step in (step for step in _messages(projection) if step.state == "completed"):
            # Of two messages with the same words, an agent reads the earlier one first.
            at = next((at for at in unread if sent[at].name == step.name), None)
            if at is not None:
                unread.remove(at)
                readers[at].append(f"{path}, {step.purpose.replace('-', ' ')}")
    return tuple(
        Message(step.name, step.subtask, step.started_at, tuple(sorted(by)))
        for step, by in zip(sent, readers, strict=True)
    )


def _messages(projection: Projection) -> list[Draft]:
    return [step for step in projection.scope.steps if step.kind == "message"]


def _everything(path: str, projection: Projection) -> list[tuple[str, Projection]]:
    below = [(child.subtask, child.projection) for child in projection.children if child.projection]
    return [(path, projection), *(entry for each in below for entry in _everything(*each))]


def _subtask(record: SubtaskRecord, above: Projection | None, calls: Sequence[PendingCall]) -> AgentView:
    read = [each.projection for each in (above.attempts(record.id) if above else ()) if each.projection]
    work = read[-1] if read else None
    records: tuple[SubtaskRecord, ...] = ()
    if work and work.scope.draft.kind == "session":
        records = awaiting_records(status_of(work).subtasks, calls, f"{work.scope.subtask}/")
    return AgentView(record, read, tuple(_subtask(each, work, calls) for each in records))


def step_tone(step: Draft) -> Tone:
    return "failure" if step.problem else _TONES.get(step.state, "failure")


def step_facts(step: Draft) -> list[str]:
    """Describe the outcome and the cost of a turn or a tool call."""
    began = step.started_at or step.scheduled_at
    facts = [
        "" if step.state in _TONES else step.state.replace("_", " "),
        count(step.attempts, "attempt") if step.attempts > 1 else "",
        error_words(step.error) or reason_words(step.problem),
        step.model,
        dollars(step.usage.cost_usd) if step.usage.cost_usd else "",
        duration(step.ended_at - began) if step.ended_at and began else "",
    ]
    return [fact for fact in facts if fact]
