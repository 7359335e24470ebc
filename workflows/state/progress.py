"""How far a session has come: its plan, outcomes and open questions, and the status that people see."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
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
    WaitKind,
    left_out,
)
from chargehand.contracts.problems import printable
from chargehand.contracts.report import awaiting_records
from chargehand.state_words import EndReason, standing
from workflows.budget.ledger import Ledger
from workflows.carried import Carried, present
from workflows.contracts import LimitUsage
from workflows.rules import graph
from workflows.rules.forms import read_form
from workflows.rules.refusal import Refused
from workflows.rules.report_content import input_for, reason_of, state_of, usage_of
from workflows.state.call_approvals import Approvals
from workflows.state.clock import Clock
from workflows.state.steering import Steering

Verdict = Literal["approved", "edited", "rejected", "answered", "raised", "none"]
VERDICTS: dict[Literal["approve", "edit", "reject"], Verdict] = {
    "approve": "approved",
    "edit": "edited",
    "reject": "rejected",
}
_QUESTION_TIME: Final = timedelta(minutes=15)
_DAY: Final = timedelta(days=1)
_SATURDAY: Final = 5
_MOST_NAMED: Final = 5
_NAME_CHARACTERS: Final = 60
_REPORTING: Final[frozenset[SessionState]] = frozenset({"synthesising", "finished", "failed", "cancelled"})
_OVERRUN: Final = "Model providers charged"
"""How the gap begins that names an overrun."""


class Waits(Carried):
    """What a session waits for people to decide, and what they have decided."""

    decisions: list[DecisionRecord] = left_out([])
    """How waits ended, in order."""
    open: dict[str, Wait] = present({})
    _verdicts: dict[str, tuple[Verdict, str]] = PrivateAttr(default_factory=dict[str, tuple[Verdict, str]])
    """What was decided about waits that have not ended yet, and by whom."""
    claimed: set[str] = present(set[str]())
    """Waits about which a decision was received, even if it is not applied yet: they take no other."""

    def claim(self, wait_id: str) -> None:
        self.claimed.add(wait_id)

    def release(self, wait_id: str) -> None:
        """Take decisions about a wait again."""
        self.claimed.discard(wait_id)

    def begin(self, wait: Wait) -> None:
        self.open[wait.id] = wait

    def decide(self, wait_id: str, verdict: Verdict, by: str) -> None:
        """Note a decision that the session is about to act on."""
        if wait_id in self.open:
            self._verdicts[wait_id] = verdict, by

    def end(self, wait: Wait, at: datetime) -> DecisionRecord:
        del self.open[wait.id]
        verdict, by = self._verdicts.pop(wait.id, ("none", ""))
        self.decisions.append(DecisionRecord(wait=wait.id, kind=wait.kind, decision=verdict, by=by, at=at))
        return self.decisions[-1]

    @property
    def limits_id(self) -> str:
        """Id of the wait for higher limits: the one that is open, or the next."""
        return f"limits-{1 + sum(each.kind == 'limits' for each in self.decisions)}"


class Progress(Carried):
    """What a session has done so far. It exists before the session is open, so that its status can always be read."""

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
    """One for each subtask, in the order of the plan."""
    questions: dict[str, Question] = present({})
    answers: dict[str, str] = present({})
    approvals: Approvals = left_out(Approvals())
    waits: Waits = left_out(Waits())
    steering: Steering = left_out(Steering())
    begun: set[str] = present(set[str]())
    """Subtasks that were started, skipped or expanded, by their id."""
    children: tuple[str, ...] = left_out(())
    """Ids of the child workflows that were started, in earlier runs too."""
    limit_usage: LimitUsage = left_out(LimitUsage())
    booked: tuple[str, ...] = left_out(())
    edits: list[EditRecord] = left_out([])
    gaps: list[str] = left_out([])
    """What the session itself knows to be missing."""
    routes: list[Route] = left_out([])
    """How the request got to its agents without a plan."""
    contradictions: list[Contradiction] = left_out([])
    compatible: list[str] = left_out([])
    """What outcomes state differently, though all of it can be right."""
    reviews: int = left_out(0)
    outcomes_read: int = left_out(0)
    """How many outcomes there were when it was last decided whether to review them."""
    ignored_messages: int = left_out(0)
    """Signals that no workflow of this session can have sent, or that could not be handled."""
    unknown_signals: dict[str, None] = present({})
    _ending: dict[str, Any] = PrivateAttr(default_factory=dict[str, Any])
    """What the status says of its report, once there is one."""
    _outcomes_before: int = 0
    """Outcomes that earlier runs have handed on."""

    def resume(self, before: "Progress") -> None:
        ignored = self.ignored_messages + before.ignored_messages
        for name, field in Progress.model_fields.items():
            if not field.exclude:
                setattr(self, name, getattr(before, name))
        self.ignored_messages = ignored
        self.begun, self._outcomes_before = set(before.outcomes), len(before.outcomes)

    @property
    def subtasks(self) -> Sequence[Subtask]:
        return self.plan.subtasks if self.plan else ()

    @property
    def waiting(self) -> Sequence[Subtask]:
        return [subtask for subtask in self.subtasks if subtask.id not in self.begun]

    def ready(self, begun: Collection[str]) -> list[Subtask]:
        """List the subtasks that have not begun or ended and whose inputs have all ended, in the plan's order."""
        return graph.ready(self.subtasks, {*self.outcomes, *begun}, self.outcomes)

    @property
    def is_reporting(self) -> bool:
        """Whether the report is being written, or there will be none."""
        return self.state in _REPORTING

    @property
    def work_is_over(self) -> bool:
        """Whether no subtask runs any more, or is about to be stopped."""
        return self.is_reporting or (self.clock is not None and self.clock.work_is_over)

    def refuse_if_over(self) -> None:
        if self.work_is_over:
            raise Refused(f"The session can no longer be changed: it is {standing(self.state).words}.")

    @property
    def has_moved(self) -> bool:
        """Whether this run has an outcome that earlier runs did not have."""
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
        """The state in which the session goes on once a person has decided: another may have to."""
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
        """End with a report, or as a conversation without one."""
        self.state, self._ending = "finished", {"stop_reason": stop_reason}
        if report:
            self._ending["verification"] = report.verification
            self.records = report.subtasks

    def fail(self, failure: FailureCause) -> None:
        self.state, self.failure = "failed", failure

    def adopt(self, plan: Plan) -> Plan:
        """Follow a plan, which is returned; records of subtasks that have begun are kept."""
        kept = {record.id: record for record in self.records if record.id in self.begun}
        self.plan = plan
        self.records = tuple(
            kept[subtask.id].replace(depends_on=subtask.depends_on)
            if subtask.id in kept
            else subtask.make(SubtaskRecord)
            for subtask in plan.subtasks
        )
        return plan

    def forget_others(self) -> None:
        known = {record.id for record in self.records}
        self.outcomes = {id_: outcome for id_, outcome in self.outcomes.items() if id_ in known}
        self.begun &= known

    def begin(self, subtask_id: str) -> None:
        """Note that a subtask begins, or ends without beginning: it can no longer be edited."""
        self.begun.add(subtask_id)

    def edit(self, plan: Plan, edits: Iterable[EditRecord]) -> None:
        self.adopt(plan)
        self.edits.extend(edits)

    def planned_version(self, subtask: Subtask) -> Subtask:
        """Find the plan's version of a subtask whose agent or instruction was changed since."""
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
        """Note that a child workflow of this id is started; False if one was before, in whichever run."""
        is_new = child not in self.children
        self.children += (child,) if is_new else ()
        return is_new

    def count_use(self, use: LimitUsage) -> None:
        self.limit_usage = self.limit_usage.at_least(use)

    def note_booked(self, charges: Iterable[str]) -> None:
        """Note which charges of a history that is gone are in the books."""
        self.booked += tuple(charges)

    def settle(self, subtask_id: str, wasted: Usage, agent: str = "") -> None:
        """Note what attempts cost whose outcome is not used, and the agent whose outcome is."""
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
        """Refuse a decision about the plan that the session does not wait for."""
        if self.state != "awaiting_approval" or "plan" in self.waits.claimed:
            raise Refused("This session is not awaiting approval.")

    def decide(self, decision: PlanDecision) -> Plan:
        """Keep a person's decision; returns the plan that it is about."""
        if self.plan is None:
            raise AssertionError("decisions are accepted only when there is a plan")
        self.decision = decision
        self.waits.decide("plan", VERDICTS[decision.decision], decision.by)
        return self.plan

    def check_answer(self, answer: Answer) -> None:
        """Refuse an answer to a question that is not open, and one that does not fit its form."""
        subtask_id = answer.subtask
        unanswered = [id_ for id_ in self.questions if f"question-{id_}" not in self.waits.claimed]
        if subtask_id not in unanswered:
            raise Refused(
                f"subtask: '{subtask_id}' has no open question; subtasks that have one: "
                f"{', '.join(unanswered) or 'none'}."
            )
        if form := self.questions[subtask_id].form:
            read_form(form, answer.text)

    def answer(self, answer: Answer) -> None:
        self.steering.hear(answer.text)
        self.answers[answer.subtask] = answer.text
        self.waits.decide(f"question-{answer.subtask}", "answered", answer.by)

    def close_question(self, subtask_id: str) -> str | None:
        del self.questions[subtask_id]
        self.waits.release(f"question-{subtask_id}")
        return self.answers.pop(subtask_id, None)

    def add_gaps(self, gaps: Iterable[str]) -> None:
        self.gaps.extend(gaps)

    def state_overrun(self, charged: str) -> None:
        """Name what was charged beyond the budget, in the place of what was named before."""
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
        """What is known of differences between outcomes: by what each is about."""
        return {*self.compatible, *(found.about for found in self.contradictions)}

    def ignore_message(self) -> None:
        self.ignored_messages += 1

    def ignore_unknown(self, signal: str) -> None:
        """Count a signal that means nothing to a session, and remember the first few names."""
        self.ignore_message()
        if len(self.unknown_signals) < _MOST_NAMED:
            self.unknown_signals[printable(signal, _NAME_CHARACTERS)] = None

    def mark_outcomes_read(self) -> None:
        """Note that it is decided whether to review the present outcomes."""
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


def usual_time(kind: WaitKind, now: datetime) -> timedelta:
    """Compute the time for a decision: for an answer 15 minutes, for anything else a working day.

    That ends at the same hour of the next day from Monday to Friday, in UTC.
    """
    if kind == "question":
        return _QUESTION_TIME
    then = now + _DAY
    while then.weekday() >= _SATURDAY:
        then += _DAY
    return then - now
