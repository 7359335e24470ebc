"""What must hold in every session, whatever happens: the invariants of INVARIANTS.md that a simulation can see.

`books_of` is the only thing here that looks into a workflow; all else is judged from outside.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import Final, cast

from activities.turn.contracts import TurnRequest
from chargehand.contracts import Limits, Report, SessionRequest, SubtaskRecord
from chargehand.wire import ErrorType, WorkflowType
from chargehand_plugins.testing.in_memory.executions import Execution
from chargehand_plugins.testing.in_memory.jobs import PAYLOADS
from chargehand_plugins.testing.in_memory.sdk import Job
from tests.recording_server import RecordedExecution
from tests.simulation.world import CEILINGS, World
from workflows.budget.ledger import Amount, Ledger
from workflows.contracts import SubtaskRequest, SubtaskResult
from workflows.rules.plan_validation import SUPERVISOR
from workflows.state.agent import AgentWork
from workflows.state.session import Session

_SECOND: Final = 1_000_000_000
_REPORT_KINDS: Final = frozenset({"synthesis", "critique", "grade", "compress", "judge"})
"""Turns that a report may take: `judge` chooses between outcomes when the plan says `select`."""
_USABLE: Final = frozenset({"success", "partial"})
_ENDS: Final = frozenset({"success", "partial", "failure", "escalation", "skipped"})
_TYPED_FAILURES: Final = frozenset(
    {
        ErrorType.INVALID_INPUT, ErrorType.INVALID_PLAN, ErrorType.PLAN_REJECTED, ErrorType.LIMIT_TOO_SMALL,
        ErrorType.PROVIDER_REFUSED, ErrorType.MODEL_DECLINED, ErrorType.PROVIDER_UNAVAILABLE,
        ErrorType.ATTEMPT_LOST, ErrorType.QUARANTINED, ErrorType.OUTCOME_UNKNOWN, "Timeout",
    }
)  # fmt: skip


@dataclass
class Books:
    ledger: Ledger
    session: Session | None
    """Of a supervisor."""


def books_of(execution: Execution) -> Books | None:
    """Find a workflow's ledger; None as long as it has none."""
    running = getattr(cast("object", execution.instance), "_object")  # noqa: B009  # the SDK's own name
    if execution.workflow_type == WorkflowType.SUBTASK:
        agent: AgentWork = running._agent
        return Books(agent.spending.ledger, None)
    session: Session | None = running._session
    return Books(session.budget.ledger, session) if session else None


@dataclass
class Invariants:
    limits: Limits
    """The highest limits that were requested."""
    cancelled_at: dict[str, int] = field(default_factory=dict[str, int])
    """When executions were told to stop, by workflow id."""
    over_at: dict[str, int] = field(default_factory=dict[str, int])
    """When sessions had to start writing their report."""
    terminated: set[str] = field(default_factory=set[str])
    """Executions that somebody terminated by hand."""
    downtime: int = 0
    """Nanoseconds without a worker."""
    people: int = 0
    """Nanoseconds spent waiting for a person."""
    _waits_since: int | None = None
    _books: dict[str, Books] = field(default_factory=dict[str, Books])
    _spent: Amount = field(default_factory=Amount)
    _turns_seen: int = 0

    def __call__(self, world: World, execution: RecordedExecution, given: Sequence[Job]) -> None:
        if execution.is_open:
            self.look_into(execution)
        self._count_people(world)
        new, self._turns_seen = world.turns_asked[self._turns_seen :], len(world.turns_asked)
        self.i01_never_more_than_allowed(world)
        self.i02_ledger_covers_the_provider(world)
        self.i03_turns(world)
        self.i04_depth(world, execution)
        self.i08_no_new_request_after_the_stop(world, execution, [turn for _, turn, _ in new], given)
        self.i10_every_error_is_met_as_it_must_be(world)
        self.i24_agents_at_once(world)
        self.i21_nothing_lowers_what_is_spent(world)

    @property
    def _allowed(self) -> Amount:
        turns, usd = self.limits.max_turns, self.limits.budget_usd
        return Amount(min(turns, CEILINGS.max_turns), min(usd, CEILINGS.budget_usd))

    def look_into(self, execution: Execution) -> None:
        """Find the books of an execution, again after each crash."""
        found = books_of(execution)
        if found is not None:
            self._books[execution.workflow_id] = found

    def _count_people(self, world: World) -> None:
        books = self._books.get(world.root.workflow_id)
        if self._waits_since is not None:
            self.people += world.server.now - self._waits_since
        waits = books is not None and books.session is not None and books.session.progress.waits.open
        self._waits_since = world.server.now if waits and world.root.is_open else None

    def raised(self, turns: int | None, dollars: Decimal | None, deadline: timedelta | None) -> None:
        """Note that higher limits were requested; whether they are granted is up to the session."""
        changes: dict[str, object] = {
            name: max(present, wanted)
            for name, present, wanted in (
                ("max_turns", self.limits.max_turns, turns),
                ("budget_usd", self.limits.budget_usd, dollars),
                ("deadline", self.limits.deadline, deadline),
            )
            if wanted is not None
        }
        self.limits = self.limits.model_copy(update=changes)

    def i21_a_crash_changes_no_books(self, world: World, down_for: timedelta) -> None:
        before = {id_: _amounts(books.ledger) for id_, books in self._books.items()}
        world.server.crash(down_for)
        self.downtime += int(down_for.total_seconds() * _SECOND)
        for execution in world.server.recorded:
            if execution.is_held_back:  # the books in the worker's memory are one task behind
                self._books.pop(execution.workflow_id, None)
            elif execution.is_open and execution.history:
                self.look_into(execution)
                if execution.workflow_id in before:
                    now = _amounts(self._books[execution.workflow_id].ledger)
                    was = before[execution.workflow_id]
                    assert now == was, f"I21: a crash changed the books of {execution.workflow_id}: {was}, now {now}"

    def i01_never_more_than_allowed(self, world: World) -> None:
        for workflow_id, books in self._books.items():
            execution = world.server.executions[workflow_id]
            if not execution.is_open:
                continue
            ledger = books.ledger
            total = ledger.spent + ledger.reserved + ledger.unspent
            assert total == ledger.granted, f"I01: {workflow_id} does not balance"
            assert ledger.granted.usd % Decimal("1e-9") == 0, f"I01: {workflow_id} was granted parts of a nanodollar"
            under_way = [call for call in world.calls if call.workflow == workflow_id and call.is_under_way]
            # A turn repeated because its call was lost is one turn, and may have been counted already.
            turns = sum(".again-" not in call.step and not call.is_repeated for call in under_way)
            dollars = sum((call.worst for call in under_way), Decimal(0))
            reserved = ledger.reserved
            if books.session is not None:
                for grant in books.session.budget.grants.amounts.values():
                    reserved = reserved - grant
            assert reserved.covers(Amount(turns, dollars)), f"I01: {workflow_id} has calls that are not reserved"
            parent = execution.parent
            above = self._books.get(parent.workflow_id) if parent and parent.is_open else None
            if above is not None and above.session is not None:
                grant = above.session.budget.grants.amounts.get(workflow_id)
                assert grant is None or grant.covers(ledger.granted), f"I01: {workflow_id} was lent less than it has"
        root = self._books.get(world.root.workflow_id)
        if root is not None:
            used = root.ledger.spent + root.ledger.reserved
            assert self._allowed.covers(used), f"I01: {used} is spent and reserved of {self._allowed}"
        assert world.at_risk <= self._allowed.usd, f"I01: the provider may charge {world.at_risk} of {self._allowed}"

    def i02_ledger_covers_the_provider(self, world: World) -> None:
        root = self._books.get(world.root.workflow_id)
        if root is not None and world.root.is_open and all(call.is_certain for call in world.calls):
            ledger = root.ledger.spent.usd + root.ledger.reserved.usd
            assert ledger >= world.charged, f"I02: the ledger holds {ledger}, the provider charged {world.charged}"

    def i03_turns(self, world: World) -> None:
        turns = _turns(world)
        assert turns <= self._allowed.turns, f"I03: {turns} turns of {self._allowed.turns}"

    def i04_depth(self, world: World, execution: RecordedExecution) -> None:
        depth = _depth(execution)
        assert depth <= world.scenario.request.limits.max_depth, f"I04: {execution.workflow_id} is {depth} deep"
        if execution.workflow_type == WorkflowType.SUPERVISOR and depth and len(execution.history) == 1:
            lent = _argument(execution, SessionRequest).delegation
            known = lent.depth if lent else None
            assert known == depth, f"I04: {execution.workflow_id} is {depth} deep and takes itself to be {known} deep"

    def i08_no_new_request_after_the_stop(
        self, world: World, execution: Execution, new: Sequence[TurnRequest], given: Sequence[Job]
    ) -> None:
        now, who = world.server.now, execution.workflow_id
        if any(job.HasField("cancel_workflow") for job in given):
            self.cancelled_at.setdefault(who, now)
        kinds = [turn.task.kind for turn in new]
        if who in self.cancelled_at:
            assert not kinds, f"I08: {who} was cancelled and asks for {kinds}"
        if who in self.over_at:
            assert set(kinds) <= _REPORT_KINDS, f"I08: {who} is over and asks for {kinds}"
        root = world.root.workflow_id
        stop = min((at for at in (self.cancelled_at.get(root), self.over_at.get(root)) if at is not None), default=None)
        if stop is not None and who != root and kinds:
            late = now - stop - self.downtime
            assert late < 2 * _SECOND, f"I08: {who} asks for {kinds} {late / _SECOND} s after the session was stopped"
        books = self._books.get(who)
        if books is not None and books.session is not None and execution.is_open and books.session.clock.work_is_over:
            self.over_at.setdefault(who, now)

    def i10_every_error_is_met_as_it_must_be(self, world: World) -> None:
        for execution, turn, asked in world.turns_asked[-3:]:
            final_errors = asked.retry_policy.non_retryable_error_types
            assert "PayloadsTooLarge" in final_errors, "I10: oversize replies are re-paid"
            assert asked.HasField("schedule_to_close_timeout"), "I10: a turn has no time limit over all its attempts"
            assert asked.HasField("heartbeat_timeout"), "I10: a lost worker would not be noticed"
            final = sum(call.turn == (execution.workflow_id, turn.step) and call.is_final for call in world.calls)
            assert final <= 1, f"I10: {turn.step} of {execution.workflow_id} was asked again after it had ended"

    def i21_nothing_lowers_what_is_spent(self, world: World) -> None:
        root = self._books.get(world.root.workflow_id)
        if root is not None and world.root.is_open:
            spent = root.ledger.spent
            assert spent.covers(self._spent), f"I21: {self._spent} was spent, and now it is {spent}"
            self._spent = spent

    def i24_agents_at_once(self, world: World) -> None:
        """I24: no more agents than max_parallel run at once in the whole tree."""
        agents = [each.workflow_id for each in _subtasks(world) if each.is_open and not self._is_being_stopped(each)]
        most = world.scenario.request.limits.max_parallel
        assert len(agents) <= most, f"I24: {len(agents)} agents run at once, {most} may: {agents}"

    def _is_being_stopped(self, execution: Execution) -> bool:
        """Whether it, or a session that it belongs to, has ended or was told to stop."""
        if not execution.is_open or execution.workflow_id in {*self.cancelled_at, *self.over_at}:
            return True
        return execution.parent is not None and self._is_being_stopped(execution.parent)

    def at_the_end(self, world: World) -> None:
        self.i20_it_ends(world)
        self.i05_nothing_is_done_twice(world)
        self.i06_every_end_is_typed(world)
        self.i09_nothing_outlives_the_root(world)
        report = report_of(world)
        if report is not None:
            self.i02_books_equal_the_providers(world, report)
            self.i03_report_counts_every_turn(world, report)
            self.i07_one_report_in_time_names_all(world, report)
            self.i24_report_says_how_many(report)
        elif world.root.status == "failed":
            assert world.root.failure is not None
            kind = world.root.failure.application_failure_info.type
            assert kind in _TYPED_FAILURES, f"I15: the session failed with {kind!r}: {world.root.failure.message}"
        else:
            ended = world.root.workflow_id in {*self.cancelled_at, *self.terminated}
            assert ended, f"I07: nobody cancelled the session, and it ended as {world.root.status}"

    def i02_books_equal_the_providers(self, world: World, report: Report) -> None:
        cost, doubtful = report.usage.cost_usd, report.usage.possibly_billed_twice_usd
        charged = world.charged
        assert cost >= charged, f"I02: the report says {cost}, and the provider charged {charged}"
        unknown = sum((call.worst for call in world.calls if call.is_estimated), Decimal(0))
        assert cost - doubtful - unknown <= charged, f"I02: {cost} less {doubtful} in doubt is more than {charged}"
        if all(call.is_certain for call in world.calls) and not self.terminated and not doubtful:
            assert cost == charged, f"I02: the report says {cost}, the provider charged {charged} without doubt"
        assert report.reserved_usd == 0, f"I02: {report.reserved_usd} is still set aside in the report"
        assert sum((line.usage.cost_usd for line in report.spend), Decimal(0)) == cost, "I02: the lines do not add up"

    def i03_report_counts_every_turn(self, world: World, report: Report) -> None:
        turns, told, most = _turns(world), report.usage.turns, self._allowed.turns
        assert turns <= told <= most, f"I03: {turns} turns were made, {told} reported, {most} allowed"

    def i24_report_says_how_many(self, report: Report) -> None:
        """I24: the report says of the whole tree how many agents ran at once: some if any ran, never too many."""
        [use] = [use for use in report.limits if use.limit == "max_parallel"]
        least = 1 if any(record.attempts and record.agent != SUPERVISOR for record in report.subtasks) else 0
        assert least <= use.used <= use.allowed, f"I24: {use.used} agents at once are reported, {use.allowed} may be"

    def i05_nothing_is_done_twice(self, world: World) -> None:
        started = Counter(world.server.starts)
        assert not [id_ for id_, times in started.items() if times > 1], f"I05: {started} were started again"
        asked = Counter(
            (
                request.agent.name,
                request.agent.tier,
                " ".join(re.findall(r"\w+", request.subtask.instruction.casefold())),
            )
            for execution in _subtasks(world)
            for request in [_argument(execution, SubtaskRequest)]
        )
        assert not [task for task, times in asked.items() if times > 1], f"I05: the same was asked twice: {asked}"

    def i06_every_end_is_typed(self, world: World) -> None:
        for execution in _subtasks(world):
            if execution.workflow_id not in self.terminated:
                assert execution.status == "completed", f"I06: {execution.workflow_id} ended as {execution.status}"
                assert _result(execution).outcome.kind in _ENDS
        report = report_of(world)
        for record in report.subtasks if report else ():
            assert not record.attempts or record.state in _ENDS, f"I06: {record.id} was started and is {record.state}"

    def i07_one_report_in_time_names_all(self, world: World, report: Report) -> None:
        assert world.root.closed_at is not None
        late = world.root.closed_at - world.root.started_at - self.downtime - self.people
        latest = (self.limits.deadline.total_seconds() + 5 + 1) * _SECOND
        assert late <= latest, f"I07: the report came {late / _SECOND} s after the start"
        stop = self.over_at.get(world.root.workflow_id, world.root.closed_at)
        gaps = " ".join(report.gaps)
        assert report.stop_reason != ("completed" if gaps else "partial"), f"I07: {report.stop_reason}, gaps: {gaps}"
        for record in report.subtasks:
            finished = _finished_before(world, record, stop - _SECOND)
            if finished:
                assert record.state in _USABLE, f"I07: {record.id} was done, and the report says {record.state}"
            if record.state not in _USABLE:
                assert record.id in gaps, f"I07: {record.id} is {record.state}, and no gap names it: {report.gaps}"

    def i09_nothing_outlives_the_root(self, world: World) -> None:
        closed = world.root.closed_at or 0
        for execution in world.server.recorded:
            assert not execution.is_open, f"I09: {execution.workflow_id} runs for ever"
            late = (execution.closed_at or 0) - closed - self.downtime
            assert late <= 10 * _SECOND, f"I09: {execution.workflow_id} closed {late / _SECOND} s after the root"
        asked = self.cancelled_at.get(world.root.workflow_id)
        if asked is not None:
            assert closed - asked - self.downtime <= 10 * _SECOND, "I09: a cancelled session went on"

    def i20_it_ends(self, world: World) -> None:
        assert not world.root.is_open, f"I20: nothing is under way, and the session is {world.root.status}"


def report_of(world: World) -> Report | None:
    return PAYLOADS.from_payload(world.root.result, Report) if world.root.result is not None else None


def _finished_before(world: World, record: SubtaskRecord, moment: int) -> bool:
    child = world.server.find(record.workflow_id or "")
    if child is None or child.parent is not world.root:  # refused because another session of the tree had it done
        return False
    if child not in _subtasks(world) or child.status != "completed" or (child.closed_at or 0) >= moment:
        return False
    return _result(child).outcome.kind in _USABLE


def _subtasks(world: World) -> list[RecordedExecution]:
    return [each for each in world.server.recorded if each.workflow_type == WorkflowType.SUBTASK]


def _turns(world: World) -> int:
    return len({call.turn for call in world.calls if not call.is_repeated})


def _result(subtask: RecordedExecution) -> SubtaskResult:
    assert subtask.result is not None
    return PAYLOADS.from_payload(subtask.result, SubtaskResult)


def _amounts(ledger: Ledger) -> tuple[Amount, Amount, Amount]:
    return ledger.granted, ledger.spent, ledger.reserved


def _depth(execution: Execution) -> int:
    return 1 + _depth(execution.parent) if execution.parent else 0


def _argument(execution: Execution, kind: type):
    return PAYLOADS.from_payloads(list(execution.arguments), [kind])[0]
