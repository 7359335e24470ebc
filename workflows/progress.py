"""How far a session has come: its plan, outcomes and open questions, and the status that people see."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from activities.contracts import InputOutcome
from chargehand.contracts import (
    Contradiction,
    Outcome,
    Plan,
    Question,
    SessionState,
    Status,
    Subtask,
    SubtaskRecord,
    Usage,
)
from workflows.budget.ledger import Ledger
from workflows.clock import Clock
from workflows.rules.report_content import input_for, reason_of, state_of, usage_of


class Progress:
    """What a session has done so far. It exists before the session is open, so that its status can always be read."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._goal = ""
        self._state: SessionState = "planning"
        self._plan: Plan | None = None
        self._ledger: Ledger | None = None
        self._clock: Clock | None = None
        self._records: dict[str, SubtaskRecord] = {}
        self._outcomes: dict[str, Outcome] = {}
        self._questions: dict[str, Question] = {}
        self._answers: dict[str, str] = {}
        self._gaps: list[str] = []
        self._contradictions: list[Contradiction] = []
        self._reviews = 0

    @property
    def state(self) -> SessionState:
        return self._state

    @property
    def plan(self) -> Plan | None:
        return self._plan

    @property
    def subtasks(self) -> Sequence[Subtask]:
        """The subtasks of the plan; none before there is one."""
        return self._plan.subtasks if self._plan else ()

    @property
    def records(self) -> Sequence[SubtaskRecord]:
        return tuple(self._records.values())

    @property
    def outcomes(self) -> Mapping[str, Outcome]:
        """How subtasks ended, by their id."""
        return self._outcomes

    @property
    def questions(self) -> Mapping[str, Question]:
        """Questions that are open, by subtask."""
        return self._questions

    @property
    def answers(self) -> Mapping[str, str]:
        """What a person answered, by the subtask that asked."""
        return self._answers

    @property
    def gaps(self) -> Sequence[str]:
        """What the session itself knows to be missing."""
        return self._gaps

    @property
    def contradictions(self) -> Sequence[Contradiction]:
        """Where outcomes are known to disagree."""
        return self._contradictions

    @property
    def reviews(self) -> int:
        """How often the outcomes were reviewed."""
        return self._reviews

    def set_goal(self, goal: str) -> None:
        """Show the goal in the status from now on."""
        self._goal = goal

    def open(self, ledger: Ledger, clock: Clock) -> None:
        """Show budget and times in the status from now on."""
        self._ledger, self._clock = ledger, clock

    def enter(self, state: SessionState) -> None:
        """Change to another state."""
        self._state = state

    def adopt(self, plan: Plan) -> None:
        """Follow a plan; records of subtasks that are in it already are kept."""
        self._plan = plan
        self._records = {
            subtask.id: self._records.get(subtask.id)
            or SubtaskRecord(
                id=subtask.id, agent=subtask.agent, instruction=subtask.instruction, depends_on=subtask.depends_on
            )
            for subtask in plan.subtasks
        }

    def planned(self, subtask: Subtask) -> Subtask:
        """Find the plan's version of a subtask whose agent or instruction was changed since."""
        return next((planned for planned in self.subtasks if planned.id == subtask.id), subtask)

    def start(self, subtask_id: str, workflow_id: str, at: datetime) -> None:
        """Record that an attempt at a subtask starts."""
        record = self._records[subtask_id]
        self._records[subtask_id] = record.model_copy(
            update={
                "state": "running",
                "workflow_id": workflow_id,
                "attempts": record.attempts + 1,
                "started_at": record.started_at or at,
            }
        )

    def end(self, subtask_id: str, outcome: Outcome, at: datetime) -> None:
        """Record the outcome of a subtask."""
        self._outcomes[subtask_id] = outcome
        record = self._records[subtask_id]
        self._records[subtask_id] = record.model_copy(
            update={
                "state": state_of(outcome),
                "reason": reason_of(outcome),
                "ended_at": at if record.started_at else None,
                "confidence": outcome.confidence,
                "usage": usage_of(outcome.spend),
            }
        )

    def record_waste(self, subtask_id: str, usage: Usage) -> None:
        """Record what a subtask spent on attempts that were not used."""
        self._records[subtask_id] = self._records[subtask_id].model_copy(update={"wasted": usage})

    def inputs(self, ids: Iterable[str] | None = None) -> tuple[InputOutcome, ...]:
        """Collect the outcomes of some subtasks, or of all, as others read them."""
        subtasks = {subtask.id: subtask for subtask in self.subtasks}
        chosen = subtasks if ids is None else ids
        return tuple(input_for(subtasks[id_], self._outcomes[id_]) for id_ in chosen if id_ in self._outcomes)

    def ask(self, question: Question) -> None:
        """Open a question to a person."""
        self._questions[question.subtask] = question

    def answer(self, subtask_id: str, text: str) -> None:
        """Keep a person's answer for the subtask that asked."""
        self._answers[subtask_id] = text

    def close_question(self, subtask_id: str) -> str | None:
        """Close a question; returns its answer, or None if nobody gave one."""
        del self._questions[subtask_id]
        return self._answers.pop(subtask_id, None)

    def add_gaps(self, gaps: Iterable[str]) -> None:
        """Note what is missing and cannot be added."""
        self._gaps.extend(gaps)

    def add_contradictions(self, found: Iterable[Contradiction]) -> None:
        """Note where outcomes disagree."""
        self._contradictions.extend(found)

    def count_review(self) -> None:
        """Note that the outcomes are reviewed."""
        self._reviews += 1

    def status(self) -> Status:
        """Build the session status."""
        status = Status(
            session=self._session,
            goal=self._goal,
            state=self._state,
            plan=self._plan,
            subtasks=tuple(self.records),
            questions=tuple(self._questions.values()),
        )
        if self._ledger is None or self._clock is None:
            return status
        return status.model_copy(
            update={
                "started_at": self._clock.started_at,
                "deadline_at": self._clock.deadline_at,
                "turns": self._ledger.spent.turns,
                "max_turns": self._ledger.granted.turns,
                "spent_usd": self._ledger.spent.usd,
                "reserved_usd": self._ledger.reserved.usd,
                "budget_usd": self._ledger.granted.usd,
            }
        )
