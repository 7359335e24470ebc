"""The state of one session, in parts that are changed only by their own methods."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, TypeVar

from temporalio import workflow
from temporalio.common import Priority, SearchAttributeUpdate, TypedSearchAttributes

from activities.contracts import AgentCard, CrewCard, InputOutcome, ModelCard, SessionFacts
from activities.model_turn.contracts import TurnResult
from activities.turn_kinds.protocol import TurnAnswer
from activities.turn_kinds.registry import Task
from chargehand.contracts import (
    Authority,
    Plan,
    RaisedLimits,
    Report,
    Route,
    SessionRequest,
    SessionState,
    Subtask,
    Tier,
)
from chargehand.listing import WAITING_STATES
from chargehand.search_attributes import CREW, DOLLARS, STATE, STOP_REASON, TENANT, THREAD, TURNS, change_of
from workflows import continue_as_new, options
from workflows.budget.estimates import fixed_bytes, input_bound, least_of_agent, least_workable
from workflows.budget.grant_request import request_grant
from workflows.budget.grants import Grants, ReportReserve
from workflows.budget.ledger import Amount, Ledger
from workflows.budget.model_calls import CannotPay, MeteredModelCalls, TurnLost, was_reset
from workflows.calls import Calls
from workflows.contracts import LimitUsage
from workflows.mailbox.mailbox import Mailbox
from workflows.rules.authority import authority_of
from workflows.rules.deduplication import fingerprint
from workflows.rules.evidence import earlier_outcome
from workflows.rules.information_flow import Provenance
from workflows.rules.plan_validation import SUPERVISOR
from workflows.state.clock import Clock
from workflows.state.memo import Memo
from workflows.state.progress import Progress

_PUBLISHED: Final[frozenset[SessionState]] = frozenset({*WAITING_STATES, "executing"})
"""States that are written into the memo; the others can be told from what the session does."""
_WORK_IS_OVER: Final[frozenset[SessionState]] = frozenset({"synthesising", "finished", "failed", "cancelled"})

_Answer = TypeVar("_Answer", bound=TurnAnswer)


def priority_of(request: SessionRequest, weight: float = 1.0) -> Priority:
    """Translate tenant and priority of a request for the server. Activities of a child inherit the child's."""
    return Priority(
        priority_key=request.priority,
        fairness_key=request.tenant,
        fairness_weight=None if weight == 1 else weight,  # the server's default, which histories need not repeat
    )


def _without_stop_reason(listed: TypedSearchAttributes) -> list[SearchAttributeUpdate[Any]]:
    """Remove what the last run of a cron came to, with whose attributes the server starts the next one."""
    return [STOP_REASON.value_unset()] if STOP_REASON in listed else []


@dataclass
class Session:
    """What the steps of a session share."""

    asked: SessionRequest
    """The request as it was written."""
    request: SessionRequest
    """The request on the crew's terms."""
    facts: SessionFacts
    progress: Progress
    clock: Clock
    ledger: Ledger
    grants: Grants
    report_reserve: ReportReserve
    output_reserve: ReportReserve | None
    """For the turn that puts the report into the shape that the request asks for, if it asks for one."""
    model_calls: MeteredModelCalls
    mailbox: Mailbox
    provenance: Provenance
    run: str
    """Identifies the run of the session at the root in the ids of its children."""
    limit_usage: LimitUsage = field(default_factory=LimitUsage)
    children: set[str] = field(default_factory=set[str])
    """Ids of the child workflows that it has started, in earlier runs too."""
    resumed_with: int = 0
    """Outcomes that earlier runs have handed on."""
    was_reset_before: bool = False
    """Whether one of the earlier runs went on from the middle of another one."""
    _memo: Memo = field(default_factory=Memo, init=False)

    @property
    def calls(self) -> Calls:
        """Tool calls of the whole tree that a policy or a person must allow, at the root."""
        return self.progress.calls

    @property
    def work_is_over(self) -> bool:
        """Whether no subtask runs any more, or is about to be stopped."""
        return self.clock.work_is_over or self.progress.state in _WORK_IS_OVER

    @property
    def authority(self) -> Authority:
        """What the agents of this session may do together."""
        above = self.request.delegation
        return authority_of(self.facts.crew, above.authority if above else None)

    @property
    def thread(self) -> str:
        """Id of the first of the sessions that follow each other up to this one."""
        return self.facts.earlier.thread[0].session if self.facts.earlier else workflow.info().workflow_id

    @property
    def earlier(self) -> tuple[InputOutcome, ...]:
        """The report of the session that this one follows, as what is known already; nothing if it follows none."""
        return (earlier_outcome(self.facts.earlier),) if self.facts.earlier else ()

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
        """Fingerprints of this session's work and of the work that it is part of."""
        above = self.request.delegation.ancestors if self.request.delegation else ()
        return (*above, fingerprint(SUPERVISOR, self.request.goal))

    @property
    def priority(self) -> Priority:
        """Where the session's work stands in a backlog, whoever started it and however."""
        return priority_of(self.request, self.facts.weight)

    @property
    def was_reset(self) -> bool:
        """Whether an operator has reset this session, so that children may exist that it does not know."""
        return self.was_reset_before or was_reset()

    @property
    def must_continue_as_new(self) -> bool:
        """Whether a new run has to go on, as soon as no child is running.

        Without storage for large payloads, the ceiling of turns keeps histories short. The next run of a cron would
        start with what this one hands on.
        """
        has_moved = len(self.progress.outcomes) > self.resumed_with
        return (
            has_moved and self.facts.stores_payloads and continue_as_new.is_due() and not workflow.info().cron_schedule
        )

    @property
    def plan_left(self) -> Plan | None:
        """The plan, if a person has added something to it that has not begun."""
        plan, begun = self.progress.plan, self.progress.begun
        is_left = plan is not None and any(subtask.id not in begun for subtask in plan.subtasks)
        return plan if is_left and not self.clock.work_is_over else None

    @property
    def may_ask(self) -> bool:
        """Whether a person may be asked. People watch only the session at the root."""
        return self.request.questions == "allowed" and self.request.delegation is None

    @property
    def may_nest(self) -> bool:
        """Whether a subtask may be a nested session: it and its subtasks must fit within the depth limit."""
        return self.depth + 2 <= self.request.limits.max_depth

    def agent(self, name: str) -> AgentCard | None:
        """Find an agent of the crew; None for a nested session."""
        return next((agent for agent in self.facts.crew.agents if agent.name == name), None)

    def model(self, tier: Tier) -> ModelCard:
        """Find the model of a tier, priced at what it has proven to cost."""
        return self.model_calls.proven(self.facts.models[tier])

    def model_of(self, agent: AgentCard) -> ModelCard:
        """Find the model that an agent uses, priced at what it has proven to cost."""
        return self.model_calls.proven(self.facts.model_of(agent))

    def card_for(self, subtask: Subtask, agent: AgentCard) -> AgentCard:
        """Give an agent the model tier that the plan names, unless the user chose one for the agent."""
        if subtask.tier is None or agent.name in self.request.tiers.agents:
            return agent
        return agent.model_copy(update={"tier": subtask.tier, "model": None})

    def least_grant(self, agent: str) -> Amount:
        """Estimate the least that is of use to an agent: its fewest turns, or a whole nested session."""
        card = self.agent(agent)
        if card is None:
            return least_workable(self.facts, self.request.documents)
        return least_of_agent(card, self.model_of(card), self.request.documents)

    def count_use(self, use: LimitUsage) -> None:
        """Note how far limits were used that no ledger counts."""
        self.limit_usage = self.limit_usage.at_least(use)

    def record_child(self, child: str) -> bool:
        """Note that a child workflow of this id is started; False if one was before, in whichever run."""
        is_new = child not in self.children
        self.children.add(child)
        return is_new

    def stop_if_overcharged(self) -> None:
        """Start nothing more once providers charged more than the budget, unless somebody can raise it.

        A nested session asks its parent instead, before its next turn.
        """
        excess = self.ledger.spent.usd - self.ledger.granted.usd
        if excess <= 0 or self.clock.is_overcharged:
            return
        if self.request.delegation is None and self.request.limits.on_limit == "finish":
            self.clock.stop_overcharged()
            charged = f"${excess:.4f} more than the budget of ${self.ledger.granted.usd:.2f}"
            self.progress.add_gaps([f"Model providers charged {charged}; nothing more was started."])

    def close_ledger(self) -> Decimal:
        """Free what was set aside for the report, and return what the session has cost at most.

        Subtasks that have not ended may still spend what they were granted.
        """
        for reserve in (self.report_reserve, self.output_reserve):
            if reserve is not None:
                reserve.release()
        return self.ledger.spent.usd + self.ledger.reserved.usd

    def enter(self, state: SessionState) -> None:
        """Change to another state."""
        self.progress.enter(state)
        # A task without commands could be merged with the update waited for.
        self.publish(always=state in WAITING_STATES)
        if state in WAITING_STATES:
            self.list_state()

    def list_state(self, report: Report | None = None) -> None:
        """Have the server list the session's state and cost, if the state has changed since.

        Called with the commands that follow a change, so that it takes no workflow task of its own, and a state that
        leads to no command is not listed at all.
        """
        if not self.facts.is_listed:
            return
        listed, state = workflow.info().typed_search_attributes, self.progress.state
        if listed.get(STATE) == state:
            return
        usd, turns = self.ledger.spent.usd, self.ledger.spent.turns
        if report is not None:
            usd, turns = report.usage.cost_usd, report.usage.turns
        workflow.upsert_search_attributes(  # pyright: ignore[reportUnknownMemberType]  # SDK generics
            [
                *change_of(listed, STATE, state),
                *change_of(listed, CREW, self.facts.crew.name),
                *change_of(listed, TENANT, self.request.tenant),
                *change_of(listed, THREAD, self.thread),
                *change_of(listed, DOLLARS, float(usd)),
                *change_of(listed, TURNS, turns),
                *(change_of(listed, STOP_REASON, report.stop_reason) if report else _without_stop_reason(listed)),
            ]
        )

    def resume(self) -> None:
        """Leave a state in which the session waits for a person, unless another question is open."""
        waiting: SessionState = "awaiting_call_approval" if self.calls.pending else "executing"
        self.enter("awaiting_answer" if self.progress.questions else waiting)

    def use_crew(self, crew: CrewCard) -> None:
        """Go on with another version of the crew, which has more agents."""
        self.facts = self.facts.model_copy(update={"crew": crew})
        self.model_calls.use_crew(crew.reference)

    def add_route(self, route: Route) -> None:
        """Record how an agent got its work; the memo shows it to whoever reads the history."""
        self.progress.add_route(route)
        workflow.upsert_memo({"routes": [each.model_dump() for each in self.progress.routes]})

    def publish(self, *, always: bool = False) -> None:
        """Write what has changed of the session's state into the memo, from which `Session.follow()` reads it."""
        if self.progress.state not in _PUBLISHED:
            return
        changed = self._memo.changed(self.progress)
        if always:
            changed["state"] = self.progress.state
        if changed:
            workflow.upsert_memo(changed)

    async def take_turn(self, task: Task, *, tier: Tier | None = None, until: datetime | None = None) -> TurnResult:
        """Take one of the supervisor's own turns; `tier` replaces the crew's own.

        Raises:
            CannotPay: the ledger does not cover it.
            TurnLost: it failed for good.
        """
        crew = self.facts.crew
        tier = tier or crew.tier
        self.list_state()
        result = await self.model_calls.take(
            task,
            agent=SUPERVISOR,
            tier=tier,
            model=self.model(tier),
            input_tokens=input_bound(task, fixed_bytes(crew, self.request.documents)),
            # The clock's own alarm comes first.
            until=lambda: until or self.clock.report_starts_at + options.LEAST_REPORT_TIME,
        )
        self.stop_if_overcharged()
        return result

    async def try_turn(
        self,
        task: Task,
        answer: type[_Answer],
        *,
        tier: Tier | None = None,
        until: datetime | None = None,
    ) -> _Answer | None:
        """Take a turn that the session can do without; None if it cannot be paid, fails, or gives no such answer."""
        try:
            result = await self.take_turn(task, tier=tier, until=until)
        except (CannotPay, TurnLost):
            return None
        return result.answer_as(answer)

    async def ask_parent(self, needed: Amount) -> None:
        """Ask the parent session for what is missing of an amount; it may refuse. The root has nobody to ask."""
        if self.request.delegation is not None:
            await request_grant(self.mailbox, self.ledger, needed, lambda: self.clock.work_is_over)

    async def wait_for_budget(
        self, needed: Amount, is_hopeless: Callable[[], bool], is_moot: Callable[[], bool] = lambda: False
    ) -> None:
        """Wait until an amount is unspent, cannot become so any more, is not needed any more, or the report is due."""

        def is_there() -> bool:
            return self.ledger.unspent.covers(needed)

        await self.ask_parent(needed)
        await workflow.wait_condition(lambda: is_there() or self.clock.work_is_over or is_hopeless())
        if self.request.limits.on_limit == "pause" and not is_there() and not self.clock.work_is_over:
            self.enter("paused")
            await workflow.wait_condition(lambda: is_there() or self.clock.work_is_over or is_moot())
            self.resume()

    def problems_with(self, raised: RaisedLimits) -> list[str]:
        """List why limits cannot be raised to these values."""
        ceilings = self.facts.ceilings
        present = {
            "max_turns": self.ledger.granted.turns,
            "budget_usd": self.ledger.granted.usd,
            "deadline": self.clock.deadline_at - self.clock.started_at,
        }
        problems: list[str] = []
        for name, now in present.items():
            wanted, ceiling = getattr(raised, name), getattr(ceilings, name)
            if wanted is not None and wanted <= now:
                problems.append(f"{name}: {wanted} is not more than the present {now}")
            elif wanted is not None and wanted > ceiling:
                problems.append(f"{name}: {wanted} is above this installation's ceiling of {ceiling}")
        execution = workflow.info().execution_timeout
        if raised.deadline is not None and execution is not None and raised.deadline > execution - options.REPORT_TIME:
            problems.append(
                f"deadline: {raised.deadline} is beyond the {execution} after which the server ends this session"
            )
        return problems

    def raise_limits(self, raised: RaisedLimits) -> None:
        """Apply higher limits."""
        self.ledger.grant(Amount(raised.max_turns or 0, raised.budget_usd or Decimal(0)).beyond(self.ledger.granted))
        if raised.deadline is not None:
            self.clock.extend(raised.deadline)
        self.publish()
