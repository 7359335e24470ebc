"""Where a session stands: one record a subtask, and the status that people see."""

from collections.abc import Sequence
from datetime import datetime

from chargehand.contracts import Outcome, Plan, Question, SessionState, Status, SubtaskRecord, Usage
from workflows.budget.ledger import Ledger
from workflows.rules.report_content import reason_of, state_of, usage_of


class Progress:
    """The session's state as it is told to others; decisions are made elsewhere."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.goal = ""
        self.state: SessionState = "planning"
        self.plan: Plan | None = None
        self.ledger: Ledger | None = None
        self.started_at: datetime | None = None
        self.deadline_at: datetime | None = None
        self.questions: dict[str, Question] = {}
        """What waits for a person's answer, by subtask."""
        self._records: dict[str, SubtaskRecord] = {}

    @property
    def records(self) -> Sequence[SubtaskRecord]:
        return tuple(self._records.values())

    def planned(self, plan: Plan) -> None:
        """Take over a plan; records of subtasks that are in it already are kept."""
        self.plan = plan
        self._records = {
            subtask.id: self._records.get(subtask.id)
            or SubtaskRecord(
                id=subtask.id, agent=subtask.agent, instruction=subtask.instruction, depends_on=subtask.depends_on
            )
            for subtask in plan.subtasks
        }

    def started(self, subtask_id: str, workflow_id: str, at: datetime) -> None:
        """Note that a subtask runs."""
        record = self._records[subtask_id]
        self._records[subtask_id] = record.model_copy(
            update={
                "state": "running",
                "workflow_id": workflow_id,
                "attempts": record.attempts + 1,
                "started_at": record.started_at or at,
            }
        )

    def ended(self, subtask_id: str, outcome: Outcome, at: datetime) -> None:
        """Note how a subtask ended."""
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

    def wasted(self, subtask_id: str, usage: Usage) -> None:
        """Note what a subtask spent on attempts that were not used."""
        self._records[subtask_id] = self._records[subtask_id].model_copy(update={"wasted": usage})

    def status(self) -> Status:
        """Say where the session stands."""
        status = Status(
            session=self.session,
            goal=self.goal,
            state=self.state,
            plan=self.plan,
            subtasks=tuple(self.records),
            questions=tuple(self.questions.values()),
            started_at=self.started_at,
            deadline_at=self.deadline_at,
        )
        if self.ledger is None:
            return status
        return status.model_copy(
            update={
                "turns": self.ledger.spent.turns,
                "max_turns": self.ledger.granted.turns,
                "spent_usd": self.ledger.spent.usd,
                "reserved_usd": self.ledger.reserved.usd,
                "budget_usd": self.ledger.granted.usd,
            }
        )
