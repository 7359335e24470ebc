"""A session's progress: its plan, outcomes and open questions, and the status shown to people."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any, Final, Literal

from pydantic import PrivateAttr

from activities.contracts.rounds import InputOutcome
from chargehand.contracts import (
    Answer,
    Contradiction,
    DecisionRecord,
    EditRecord,
    FailureCause,
    Outcome,
    Plan,
    PlanDecision,
    Question,
    Report,
    Route,
    SessionState,
    Status,
    StopReason,
    Subtask,
    SubtaskRecord,
    Usage,
    Wait,
    left_out,
)
from chargehand.contracts.problems import printable
from chargehand.contracts.report import awaiting_records
from chargehand.contracts.waits import Verdict
from chargehand.state_words import EndReason, standing
from workflows.budget.ledger import Ledger
from workflows.carried import Carried, present
from workflows.contracts import LimitUsage
from workflows.rules.forms import read_form
from workflows.rules.refusal import Refused
from workflows.rules.report_content import input_for, reason_of, state_of, usage_of
from workflows.state.call_approvals import Approvals
from workflows.state.clock import Clock
from workflows.state.steering import Steering

VERDICTS: dict[Literal["approve", "edit", "reject", "answer", "decline"], Verdict] = {
    "approve": "approved",
    "edit": "edited",
    "reject": "rejected",
    "answer": "answered",
    "decline": "declined",
}
_MOST_NAMED: Final = 5
_NAME_CHARACTERS: Final = 60
_REPORTING: Final[frozenset[SessionState]] = frozenset({"synthesising", "finished", "failed", "cancelled"})
_OVERRUN: Final = "Model providers charged"
"""The beginning of the gap that states an overrun."""


class Waits(Carried):
    """Decisions that a session waits for, and those already made."""

    decisions: list[DecisionRecord] = left_out([])
    """Decisions in order; one per finished wait."""
    open: dict[str, Wait] = present({})
    _verdicts: dict[str, tuple[Verdict, str]] = PrivateAttr(default_factory=dict[str, tuple[Verdict, str]])
    """Verdicts on open waits that are not applied yet, and who decided."""
    unannounced: int = present(0)
    """Announcements of waits and decisions that are still being sent."""
    claimed: set[str] = present(set[str]())
    """Waits that have received a decision, applied or not, and accept no other."""

    def claim(self, wait_id: str) -> None:
        self.claimed.add(wait_id)

    def release(self, wait_id: str) -> None:
        """Accept decisions about a wait again."""
        self.claimed.discard(wait_id)

    def begin(self, wait: Wait) -> None:
        self.open[wait.id] = wait

    def begin_announcement(self) -> None:
        self.unannounced += 1

    def end_announcement(self, _: object) -> None:
        self.unannounced -= 1

    def decide(self, wait_id: str, verdict: Verdict, by: str) -> None:
        """Record a decision that the session is about to act on."""
        if wait_id in self.open:
            self._verdicts[wait_id] = verdict, by

    def end(self, wait: Wait, at: datetime) -> DecisionRecord:
        del self.open[wait.id]
        verdict, by = self._verdicts.pop(wait.id, ("none", ""))
        self.decisions.append(DecisionRecord(wait=wait.id, kind=wait.kind, decision=verdict, by=by, at=at))
        return self.decisions[-1]

    @property
    def limits_id(self) -> str:
        """Id of the open or next wait for higher limits."""
        return f"limits-{1 + sum(each.kind == 'limits' for each in self.decisions)}"


class Progress(Carried):
    """A session's progress so far. It exists before the session is opened, so that its status can always be read."""

    session: str = present("")
    goal: str = present("")
    state: SessionState = present("planning")
    plan: Plan | None = None
    decision: PlanDecision | None = present(None)
    ledger: Ledger | None = present(None)
    clock: Clock | None = present(None)
    failure: FailureCause | None = present(None)
    outcomes: dict[str, Outcome] = left_out({})
    records: tuple[SubtaskRecord, ...] = left_out(())
    """One per subtask, in plan order."""
    questions: dict[str, Question] = present({})
    answers: dict[str, Answer] = present({})
    approvals: Approvals = left_out(Approvals())
    waits: Waits = left_out(Waits())
    steering: Steering = left_out(Steering())
    begun: set[str] = present(set[str]())
    """Ids of subtasks that were started, skipped or expanded."""
    children: tuple[str, ...] = left_out(())
    """Ids of all started child workflows, including those of earlier runs."""
    limit_usage: LimitUsage = left_out(LimitUsage())
    booked: tuple[str, ...] = left_out(())
    edits: list[EditRecord] = left_out([])
    gaps: list[str] = left_out([])
    """Gaps found by the session itself."""
    routes: list[Route] = left_out([])
    """How the request was routed to agents without a plan."""
    contradictions: list[Contradiction] = left_out([])
    compatible: list[str] = left_out([])
    """Differences between outcomes that do not contradict each other."""
    reviews: int = left_out(0)
    outcomes_read: int = left_out(0)
    """Number of outcomes at the last decision on whether to review."""
    ignored_messages: int = left_out(0)
    """Signals that were not from this session's workflows or could not be handled."""
    unknown_signals: dict[str, None] = present({})
    _ending: dict[str, Any] = PrivateAttr(default_factory=dict[str, Any])
    """Status fields about the report, once there is one."""
    _outcomes_before: int = 0
    """Number of outcomes from earlier runs."""

    def resume(self, before: "Progress") -> None:
        ignored = self.ignored_messages
        self.take_over(before)
        self.ignored_messages += ignored
        self.begun, self._outcomes_before = set(before.outcomes), len(before.outcomes)

    @property
    def subtasks(self) -> Sequence[Subtask]:
        return self.plan.subtasks if self.plan else ()

    @property
    def waiting(self) -> Sequence[Subtask]:
        return [subtask for subtask in self.subtasks if subtask.id not in self.begun]

    def ready(self, begun: Collection[str]) -> list[Subtask]:
        """List the subtasks that have not begun and whose inputs have all ended, in plan order."""
        started = {*self.outcomes, *begun}
        return [each for each in self.subtasks if each.id not in started and self.outcomes.keys() >= {*each.depends_on}]

    @property
    def is_reporting(self) -> bool:
        """Whether the report is being written, or there will be none."""
        return self.state in _REPORTING

    @property
    def work_is_over(self) -> bool:
        """Whether all subtasks have ended or are about to be stopped."""
        return self.is_reporting or (self.clock is not None and self.clock.work_is_over)

    def refuse_if_over(self) -> None:
        if self.work_is_over:
            raise Refused(f"The session can no longer be changed: it is {standing(self.state).words}.")

    @property
    def has_moved(self) -> bool:
        """Whether this run has produced an outcome."""
        return len(self.outcomes) > self._outcomes_before

    @property
    def outcome_bytes(self) -> int:
        outcomes = [entry.outcome for entry in self.inputs()]
        findings = [finding for outcome in outcomes for finding in outcome.findings]
        texts = (outcome.content for outcome in outcomes)
        claims = (finding.claim + finding.quote for finding in findings)
        return sum(len(text.encode()) for text in (*texts, *claims))

    @property
    def state_after_waiting(self) -> SessionState:
        """The state after a person's decision; another decision may still be pending."""
        if self.questions:
            return "awaiting_answer"
        return "awaiting_call_approval" if self.approvals.pending else "executing"

    def set_goal(self, goal: str) -> None:
        self.goal = goal

    def open(self, ledger: Ledger, clock: Clock) -> None:
        self.ledger, self.clock = ledger, clock

    def enter(self, state: SessionState) -> None:
        self.state = state

    def finish(self, stop_reason: StopReason | EndReason, report: Report | None) -> None:
        """Finish with a report, or without one as a conversation."""
        self.state, self._ending = "finished", {"stop_reason": stop_reason}
        if report:
            self._ending["verification"] = report.verification
            self.records = report.subtasks

    def fail(self, failure: FailureCause) -> None:
        self.state, self.failure = "failed", failure

    def adopt(self, plan: Plan) -> Plan:
        """Adopt and return a plan, keeping the records of subtasks that have begun."""
        begun_records = {record.id: record for record in self.records if record.id in self.begun}
        self.plan = plan
        self.records = tuple(
            begun_records[subtask.id].replace(depends_on=subtask.depends_on)
            if subtask.id in begun_records
            else subtask.make(SubtaskRecord)
            for subtask in plan.subtasks
        )
        return plan

    def forget_others(self) -> None:
        known = {record.id for record in self.records}
        self.outcomes = {id_: outcome for id_, outcome in self.outcomes.items() if id_ in known}
        self.begun &= known

    def begin(self, subtask_id: str) -> None:
        """Record that a subtask begins, or ends without beginning; it can no longer be edited."""
        self.begun.add(subtask_id)

    def edit(self, plan: Plan, edits: Iterable[EditRecord]) -> None:
        self.adopt(plan)
        self.edits.extend(edits)

    def planned_version(self, subtask: Subtask) -> Subtask:
        """Return the plan's version of a subtask, before its agent or instruction was changed."""
        return next((planned for planned in self.subtasks if planned.id == subtask.id), subtask)

    def start(self, subtask: Subtask, workflow_id: str, at: datetime) -> None:
        self.begin(subtask.id)
        record = self._record(subtask.id)
        began = {"agent": subtask.agent, "attempts": record.attempts + 1, "started_at": record.started_at or at}
        self._change(record, state="running", workflow_id=workflow_id, **began)

    def end(self, subtask_id: str, outcome: Outcome, at: datetime) -> None:
        self.outcomes[subtask_id] = outcome
        self.begin(subtask_id)
        record = self._record(subtask_id)
        self._change(
            record,
            state=state_of(outcome),
            reason=reason_of(outcome),
            ended_at=at if record.started_at else None,
            confidence=outcome.confidence,
            usage=usage_of(outcome.spend),
        )

    def record_child(self, child: str) -> bool:
        """Record the start of a child workflow; False if any run already started one with that id."""
        is_new = child not in self.children
        self.children += (child,) if is_new else ()
        return is_new

    def count_use(self, use: LimitUsage) -> None:
        self.limit_usage = self.limit_usage.at_least(use)

    def note_booked(self, charges: Iterable[str]) -> None:
        """Record charges of a lost history as booked."""
        self.booked += tuple(charges)

    def settle(self, subtask_id: str, wasted: Usage, agent: str = "") -> None:
        """Record the cost of discarded attempts, and the agent whose outcome is used."""
        record = self._record(subtask_id)
        self._change(record, wasted=wasted, agent=agent or record.agent)

    def inputs(self, ids: Iterable[str] | None = None) -> tuple[InputOutcome, ...]:
        agents = {record.id: record.agent for record in self.records}
        subtasks = {each.id: each.replace(agent=agents[each.id]) for each in self.subtasks}
        chosen = subtasks if ids is None else ids
        return tuple(input_for(subtasks[id_], self.outcomes[id_]) for id_ in chosen if id_ in self.outcomes)

    def ask(self, question: Question) -> None:
        self.questions[question.subtask] = question

    def check_decision(self) -> None:
        """Refuse a decision about the plan if the session is not waiting for one."""
        if self.state != "awaiting_approval" or "plan" in self.waits.claimed:
            raise Refused("This session is not awaiting approval.")

    def decide(self, decision: PlanDecision) -> Plan:
        """Store a person's decision; return the plan it is about."""
        if self.plan is None:
            raise AssertionError("decisions are accepted only when there is a plan")
        self.decision = decision
        self.waits.decide("plan", VERDICTS[decision.decision], decision.by)
        return self.plan

    def check_answer(self, answer: Answer) -> None:
        """Refuse an answer to a question that is not open, or one that does not fit its form."""
        subtask_id = answer.subtask
        unanswered = [id_ for id_ in self.questions if f"question-{id_}" not in self.waits.claimed]
        if subtask_id not in unanswered:
            raise Refused(
                f"subtask: '{subtask_id}' has no open question; subtasks that have one: "
                f"{', '.join(unanswered) or 'none'}."
            )
        if (form := self.questions[subtask_id].form) and answer.text is not None:
            read_form(form, answer.text)

    def answer(self, answer: Answer) -> None:
        if answer.text is not None:
            self.steering.hear(answer.text)
        self.answers[answer.subtask] = answer
        self.waits.decide(f"question-{answer.subtask}", VERDICTS[answer.decision], answer.by)

    def close_question(self, subtask_id: str) -> Answer | None:
        del self.questions[subtask_id]
        self.waits.release(f"question-{subtask_id}")
        return self.answers.pop(subtask_id, None)

    def add_gaps(self, gaps: Iterable[str]) -> None:
        self.gaps.extend(gaps)

    def state_overrun(self, charged: str) -> None:
        """State what was charged beyond the budget, replacing any earlier statement."""
        self.gaps = [each for each in self.gaps if not each.startswith(_OVERRUN)]
        self.gaps.append(f"{_OVERRUN} {charged}")

    def add_route(self, route: Route) -> None:
        self.routes.append(route)

    def add_contradictions(self, found: Iterable[Contradiction]) -> None:
        self.contradictions.extend(found)

    def add_compatible(self, about: Iterable[str]) -> None:
        self.compatible.extend(about)

    @property
    def known_differences(self) -> set[str]:
        """Topics of known differences between outcomes."""
        return {*self.compatible, *(contradiction.about for contradiction in self.contradictions)}

    def ignore_message(self) -> None:
        self.ignored_messages += 1

    def ignore_unknown(self, signal: str) -> None:
        """Count an unknown signal, and keep the first few names."""
        self.ignore_message()
        if len(self.unknown_signals) < _MOST_NAMED:
            self.unknown_signals[printable(signal, _NAME_CHARACTERS)] = None

    def mark_outcomes_read(self) -> None:
        """Record that a review of the present outcomes was decided on."""
        self.outcomes_read = len(self.outcomes)

    def count_review(self) -> None:
        self.reviews += 1

    def status(self) -> Status:
        status = self.make(
            Status,
            subtasks=awaiting_records(self.records, (*self.questions.values(), *self.approvals.pending)),
            routes=tuple(self.routes),
            edits=tuple(self.edits),
            waits=tuple(self.waits.open.values()),
            decisions=tuple(self.waits.decisions),
            questions=tuple(self.questions.values()),
            calls=self.approvals.pending,
            unknown_signals=tuple(self.unknown_signals),
            **self._ending,
        )
        if self.ledger is None or self.clock is None:
            return status
        return status.replace(
            started_at=self.clock.started_at,
            deadline_at=self.clock.deadline_at,
            turns=self.ledger.spent.turns,
            max_turns=self.ledger.granted.turns,
            spent_usd=self.ledger.spent.usd,
            reserved_usd=self.ledger.reserved.usd,
            budget_usd=self.ledger.granted.usd,
        )

    def _record(self, subtask_id: str) -> SubtaskRecord:
        return next(record for record in self.records if record.id == subtask_id)

    def _change(self, record: SubtaskRecord, **changes: object) -> None:
        changed = record.replace(**changes)
        self.records = tuple(changed if each is record else each for each in self.records)
