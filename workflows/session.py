"""One session as its steps see it: the request, what the world says about it, the ledger, what has come out so far."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final, TypeVar

from temporalio import workflow

from activities.contracts import AgentCard, InputOutcome, SessionFacts
from activities.model_turn.contracts import TurnResult
from activities.turn_kinds.registry import Task
from chargehand.contracts import (
    Capability,
    Contradiction,
    Failure,
    FailureReason,
    Outcome,
    RaisedLimits,
    SessionRequest,
    SessionState,
    SpendLine,
    StopReason,
    Subtask,
    Tier,
    Usage,
)
from workflows.budget.client import BudgetClient
from workflows.budget.estimates import worst_report
from workflows.budget.ledger import Amount, Ledger, Reservation
from workflows.budget.model_calls import MeteredModelCalls
from workflows.progress import Progress
from workflows.rules.deduplication import fingerprint
from workflows.rules.plan_validation import SUPERVISOR
from workflows.rules.report_content import input_for, usage_of
from workflows.web_ui import details

_LONGEST_WRITING: Final = timedelta(seconds=60)
"""The most of a session's time that is kept for writing the report; a fifth of it if that is less."""

_OUTCOME_UNKNOWN: Final[frozenset[FailureReason]] = frozenset({"terminated", "internal"})
"""Ends after which a child cannot say what it spent."""

_WAITING: Final[frozenset[SessionState]] = frozenset({"awaiting_approval", "awaiting_answer", "paused"})
"""States in which a session waits for a person."""

_Result = TypeVar("_Result")


@dataclass
class Used:
    """How far limits were used that the ledger does not watch."""

    at_once: int = 0
    attempts: int = 0
    rounds: int = 0
    depth: int = 0
    longest_attempt: timedelta = timedelta(0)

    def note(self, rounds: int, depth: int, time: timedelta) -> None:
        """Take one attempt into account."""
        self.rounds = max(self.rounds, rounds)
        self.depth = max(self.depth, depth)
        self.longest_attempt = max(self.longest_attempt, time)


@dataclass
class Session:
    """The state of a session. Its steps change it; nothing else does."""

    request: SessionRequest
    facts: SessionFacts
    progress: Progress
    ledger: Ledger
    model_calls: MeteredModelCalls
    started_at: datetime
    deadline_at: datetime
    budget_client: BudgetClient
    """How it asks the session above for more, if there is one."""
    for_report: Reservation | None
    """What is set aside for the synthesis."""
    outcomes: dict[str, Outcome] = field(default_factory=dict[str, Outcome])
    lost_spend: list[SpendLine] = field(default_factory=list[SpendLine])
    """What is charged for children that could not say what they spent."""
    grants: dict[str, Reservation] = field(default_factory=dict[str, Reservation])
    """What is lent to children that run, by their workflow id."""
    waiting: list[str] = field(default_factory=list[str])
    """Children that wait for more, in the order in which they asked."""
    missing: list[str] = field(default_factory=list[str])
    """What a review found missing and nothing could be done about."""
    contradictions: list[Contradiction] = field(default_factory=list[Contradiction])
    """Where outcomes are known to disagree."""
    answers: dict[str, str] = field(default_factory=dict[str, str])
    """What a person answered, by the subtask that asked."""
    reviews: int = 0
    """How often the outcomes were reviewed."""
    carried: dict[str, frozenset[Capability]] = field(default_factory=dict[str, frozenset[Capability]])
    """What the outcome of each subtask that ran rests on."""
    dictated: dict[str, frozenset[Capability]] = field(default_factory=dict[str, frozenset[Capability]])
    """What the instruction of a subtask rests on that was written after others had ended."""
    returned: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a child has given its grant back."""
    used: Used = field(default_factory=Used)
    is_stopping: bool = False
    """What runs was asked to stop."""
    finish_now: bool = False
    """Somebody wants the report from what is there."""
    cut_short: bool = False
    """It was time to write the report before the plan was carried out."""

    def __post_init__(self) -> None:
        self.clock: asyncio.Task[None] = asyncio.create_task(self._until_it_is_time_to_write())
        """Ends when it is time to write the report."""

    @property
    def root(self) -> str:
        """Id of the session at the root of the tree."""
        return self.request.delegation.session if self.request.delegation else workflow.info().workflow_id

    @property
    def depth(self) -> int:
        """Hops from the root."""
        return self.request.delegation.depth if self.request.delegation else 0

    @property
    def ancestors(self) -> tuple[str, ...]:
        """Fingerprints of the work that this session is, and is part of."""
        above = self.request.delegation.ancestors if self.request.delegation else ()
        return (*above, fingerprint(SUPERVISOR, self.request.goal))

    @property
    def inherited(self) -> frozenset[Capability]:
        """What the text rests on that the session above has put into the goal."""
        return frozenset(self.request.delegation.carries if self.request.delegation else ())

    def given(self, subtask: Subtask) -> frozenset[Capability]:
        """Name what the inputs of a subtask rest on, and its instruction, where a model has written it anew."""
        planned = self.planned(subtask)
        rewritten = self.carried.get(subtask.id, frozenset()) if planned.instruction != subtask.instruction else ()
        return self.inherited.union(
            self.dictated.get(subtask.id, frozenset()),
            rewritten,
            *(self.carried.get(needed, frozenset()) for needed in subtask.depends_on),
        )

    def planned(self, subtask: Subtask) -> Subtask:
        """Find a subtask as it stands in the plan."""
        plan = self.progress.plan
        return next((each for each in plan.subtasks if each.id == subtask.id), subtask) if plan else subtask

    @property
    def edition(self) -> int:
        """By which rules the session runs; see `EDITION`."""
        return self.facts.edition

    @property
    def may_ask(self) -> bool:
        """Whether a person may be asked. Only the session that people know is watched by them."""
        return self.edition >= 2 and self.request.questions == "allowed" and self.request.delegation is None

    @property
    def nobody_gives_back(self) -> bool:
        """Whether nothing more can come back from what runs: nothing does, or all of it waits for more itself."""
        return set(self.grants) <= set(self.waiting)

    @property
    def may_nest(self) -> bool:
        """Whether a subtask may be a session of its own: it and its subtasks must fit below the depth limit."""
        return self.depth + 2 <= self.request.limits.max_depth

    def enter(self, state: SessionState) -> None:
        """Pass to another state."""
        self.progress.state = state
        if state in _WAITING:
            # For people who list sessions. And a task without commands could be merged with the update waited for.
            workflow.upsert_memo({"state": state})
        self.show()

    def go_on(self) -> None:
        """Pass on from waiting for a person, unless another question is open."""
        self.enter("awaiting_answer" if self.progress.questions else "carrying_out")

    def show(self) -> None:
        """Bring what the Web UI shows up to date."""
        workflow.set_current_details(details(self.progress.status()))

    def inputs(self, ids: Iterable[str]) -> tuple[InputOutcome, ...]:
        """Collect outcomes as those who depend on them are given them."""
        subtasks = {subtask.id: subtask for subtask in self.progress.plan.subtasks} if self.progress.plan else {}
        return tuple(input_for(subtasks[id_], self.outcomes[id_]) for id_ in ids if id_ in self.outcomes)

    def set_report_aside(self) -> bool:
        """Set aside what the synthesis costs at most, if it is not; False if that cannot be paid any more."""
        if self.for_report is None:
            self.for_report = self.ledger.reserve(self._worst_report)
        return self.for_report is not None

    @property
    def _worst_report(self) -> Amount:
        return worst_report(self.facts.models[self.facts.crew.tier], self.facts.crew.prompt_bytes)

    @property
    def can_still_write(self) -> bool:
        """Whether a synthesis is set aside, or could be."""
        return self.for_report is not None or self.ledger.unspent.covers(self._worst_report)

    def release_report_reserve(self) -> None:
        """Give back what is set aside for the synthesis, when it is due or will not be needed."""
        if self.for_report is not None:
            self.ledger.settle(self.for_report, Amount())
            self.for_report = None

    @property
    def writing_starts_at(self) -> datetime:
        """When the report is begun, whatever is not finished then."""
        time = max(self.deadline_at - self.started_at, timedelta(0))
        return self.deadline_at - min(time / 5, _LONGEST_WRITING)

    @property
    def is_over(self) -> bool:
        """Whether nothing more is begun: it is time to write the report, or the session was cancelled."""
        return self.clock.done() or self.is_stopping

    @property
    def stopped(self) -> StopReason | None:
        """What ended the work before the plan was carried out; None if nothing did."""
        if not self.cut_short:
            return None
        return "finish_now" if self.finish_now else "deadline"

    def agent(self, name: str) -> AgentCard | None:
        """Find an agent of the crew; None for a session below."""
        return next((agent for agent in self.facts.crew.agents if agent.name == name), None)

    def settle(self, workflow_id: str, agent: str, outcome: Outcome) -> Outcome:
        """Take a child's grant back, and see to it that its outcome says what it spent."""
        grant = self.grants.pop(workflow_id)
        unknown = _OUTCOME_UNKNOWN | {"cancelled"} if agent == SUPERVISOR else _OUTCOME_UNKNOWN
        if isinstance(outcome, Failure) and outcome.reason in unknown and not outcome.spend:
            outcome = outcome.model_copy(update={"spend": (_charged_in_full(agent, grant.amount),)})
        used = usage_of(outcome.spend)
        self.ledger.settle(grant, Amount(used.turns, used.cost_usd))
        self.returned.set()
        return outcome

    def charge_what_is_lost(self) -> None:
        """Book the grants of children that did not answer, in full."""
        for workflow_id, grant in self.grants.items():
            line = _charged_in_full(workflow_id.split("/")[-2], grant.amount)
            self.lost_spend.append(line)
            self.ledger.settle(grant, grant.amount)
        self.grants.clear()

    async def more(self, asked: Amount, hopeless: Callable[[], bool]) -> None:
        """Wait until an amount is unspent, or there is no hope that it will be, or it is time to write the report."""

        def enough() -> bool:
            return self.ledger.unspent.covers(asked)

        if not enough() and self.request.delegation is not None:
            missing = asked.beyond(self.ledger.unspent)
            self.ledger.grant(await self.budget_client.ask(missing, patient=True))
        await workflow.wait_condition(lambda: enough() or self.is_over or hopeless())
        if self.request.limits.on_limit == "pause" and not enough() and not self.is_over:
            self.enter("paused")
            await workflow.wait_condition(lambda: enough() or self.is_over)
            self.go_on()

    def problems_with(self, raised: RaisedLimits) -> list[str]:
        """Say why limits cannot be raised so."""
        ceilings = self.facts.ceilings
        now = {
            "max_turns": self.ledger.granted.turns,
            "budget_usd": self.ledger.granted.usd,
            "deadline": self.deadline_at - self.started_at,
        }
        problems: list[str] = []
        for name, present in now.items():
            wanted, ceiling = getattr(raised, name), getattr(ceilings, name)
            if wanted is not None and wanted <= present:
                problems.append(f"{name}: {wanted} is not more than the present {present}")
            elif wanted is not None and wanted > ceiling:
                problems.append(f"{name}: {wanted} is above this installation's ceiling of {ceiling}")
        fence = workflow.info().execution_timeout
        if raised.deadline is not None and fence is not None and raised.deadline > fence - _LONGEST_WRITING:
            problems.append(
                f"deadline: {raised.deadline} is beyond the {fence} after which the server ends this session"
            )
        return problems

    def raise_limits(self, raised: RaisedLimits) -> None:
        """Take over higher limits."""
        more = Amount(raised.max_turns or 0, raised.budget_usd or Decimal(0)).beyond(self.ledger.granted)
        self.ledger.grant(more)
        if raised.deadline is not None:
            self.deadline_at = max(self.deadline_at, self.started_at + raised.deadline)
            self.progress.deadline_at = self.deadline_at
        self.show()

    async def turn(
        self, task: Task, output_tokens: int, *, tier: Tier | None = None, until: datetime | None = None
    ) -> TurnResult:
        """Take one of the supervisor's own turns; `tier` instead of the crew's own.

        Raises:
            CannotPay: the ledger does not cover it.
            TurnLost: it came to nothing for good.
        """
        crew = self.facts.crew
        tier = tier or crew.tier
        return await self.model_calls.take(
            task,
            agent=SUPERVISOR,
            tier=tier,
            model=self.facts.models[tier],
            prompt_bytes=crew.prompt_bytes,
            output_tokens=output_tokens,
            until=lambda: until,
        )

    async def before_the_deadline(self, work: Coroutine[object, object, _Result]) -> _Result | None:
        """Wait for a step; None if it is time to write the report before it has ended."""
        task = asyncio.create_task(work)
        try:
            await workflow.wait([task, self.clock], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await _cancelled(task)
            raise
        if task.done():
            return task.result()
        self.cut_short = True
        await _cancelled(task)
        return None

    async def _until_it_is_time_to_write(self) -> None:
        while not self.finish_now and (left := self.writing_starts_at - workflow.now()) > timedelta(0):
            with suppress(TimeoutError):
                await workflow.wait_condition(lambda: self.finish_now, timeout=left, timeout_summary="until the report")


async def _cancelled(task: "asyncio.Task[_Result]") -> None:
    """Cancel a step and wait until what it was about to pay is booked."""
    task.cancel()
    await workflow.wait([task])
    if not task.cancelled():
        task.exception()


def _charged_in_full(agent: str, grant: Amount) -> SpendLine:
    usage = Usage(turns=grant.turns, cost_usd=grant.usd, possibly_billed_twice_usd=grant.usd)
    return SpendLine(agent=agent, model="unknown", purpose="lost", usage=usage)
