"""The state of one session, in parts that are changed only by their own methods."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from activities.contracts.cards import AgentCard, CrewCard
from activities.contracts.model import ModelCard
from activities.contracts.rounds import InputOutcome
from activities.contracts.session import SessionFacts
from activities.turn_kinds.plan import PlanTask
from activities.turn_kinds.registry import Task
from chargehand.contracts import (
    Authority,
    Contract,
    LostCharges,
    Plan,
    RaisedLimits,
    SessionRequest,
    SpendLine,
    Subtask,
    Tier,
    Usage,
    left_out,
)
from chargehand.contracts.problems import join_problems
from workflows import options
from workflows.budget.estimates import (
    cost_of_turns,
    early_turn,
    fixed_bytes,
    input_bound,
    least_workable,
    likely_cost,
    most_of_agent,
    worst_judge,
    worst_output,
    worst_report,
)
from workflows.budget.grants import Grants
from workflows.budget.ledger import Amount, Ledger, ReportReserve, Reservation
from workflows.budget.spending import Spending
from workflows.contracts import SpendingState
from workflows.mailbox.contracts import MailboxState
from workflows.mailbox.mailbox import Mailbox
from workflows.rules.authority import authority_of
from workflows.rules.deduplication import fingerprint
from workflows.rules.evidence import earlier_outcome
from workflows.rules.information_flow import Provenance
from workflows.rules.inputs import WRITER_TOKENS
from workflows.rules.plan_edits import MOST_ITEMS
from workflows.rules.plan_validation import SUPERVISOR
from workflows.rules.refusal import Refused
from workflows.rules.report_content import sections_for
from workflows.state.call_approvals import Approvals
from workflows.state.clock import Clock
from workflows.state.memo import Memo
from workflows.state.places import Places
from workflows.state.progress import Progress

_RESERVED_TO_SPENT: Final = 3
"""How many times what an agent spends is set aside for it in the end: answers are shorter than they may be."""
_MOST_SUBTASKS: Final = 100
"""Of one plan, however much the limits leave."""
_NO_LANGUAGE_MODEL: Final = "extractive"
_MOST_REPORT_BYTES: Final = 4 * WRITER_TOKENS
"""The most of the outcomes that the report's turn is reserved for."""


class SupervisorState(Contract):
    """A session that continues in a new run. It has a plan, and no child is running."""

    facts: SessionFacts
    run: str
    was_reset: bool = left_out(False)
    started_at: datetime
    deadline_at: datetime
    spending: SpendingState
    holds_report: bool
    """Whether the report's worst case was reserved."""
    mailbox: MailboxState = left_out(MailboxState())
    provenance: Provenance
    places: Places
    progress: Progress


@dataclass
class Session:
    """What the steps of a session share."""

    id: str
    run: str
    """Identifies the run of the session at the root in the ids of its children."""
    original: SessionRequest
    """The request as it was written."""
    facts: SessionFacts
    progress: Progress
    clock: Clock
    spending: Spending
    mailbox: Mailbox
    was_reset: bool
    """Whether an operator has reset this session, so that children may exist that it does not know."""
    request: SessionRequest = field(init=False)
    """The request on the crew's terms, with the documents of the session that it follows."""
    grants: Grants = field(init=False)
    places: Places = field(init=False)
    report_reserve: ReportReserve = field(init=False)
    output_reserve: ReportReserve | None = field(default=None, init=False)
    """For the turn that puts the report into the shape that the request asks for, if it asks for one."""
    judge_reserve: ReportReserve | None = field(default=None, init=False)
    """For the turn that judges the report's claims, if a model does."""
    provenance: Provenance = field(init=False)
    memo: Memo = field(default_factory=Memo, init=False)

    def __post_init__(self) -> None:
        """Settle the request, and measure what its report needs."""
        original, facts, earlier = self.original, self.facts, self.facts.earlier
        documents = (*original.documents, *(earlier.documents if earlier else ()))
        self.request = original.model_copy(update={**dict(facts.terms), "documents": documents})
        self.grants = Grants(self.ledger)
        self.places = Places(total=1 if original.delegation else self.request.limits.max_parallel)
        own, fixed = facts.models[facts.crew.tier], fixed_bytes(facts.crew, documents)
        self.report_reserve = ReportReserve(self.ledger, worst_report(own, fixed))
        if self.request.output_schema is not None:
            self.output_reserve = ReportReserve(self.ledger, worst_output(own, fixed, self.request.output_schema))
        small = facts.models[Tier.SMALL]
        # A nested session leaves it to the one at the root.
        if self.request.review != "never" and not original.delegation and small.provider != _NO_LANGUAGE_MODEL:
            self.judge_reserve = ReportReserve(self.ledger, worst_judge(small, fixed))
        above = original.delegation.goal_reads if original.delegation else ()
        self.provenance = Provenance(inherited=frozenset((*above, *(earlier.reads if earlier else ()))))

    @property
    def ledger(self) -> Ledger:
        return self.spending.ledger

    @property
    def approvals(self) -> Approvals:
        """Tool calls of the whole tree that a policy or a person must allow, at the root."""
        return self.progress.approvals

    @property
    def authority(self) -> Authority:
        """What the agents of this session may do together."""
        above = self.request.delegation
        return authority_of(self.facts.crew, above.authority if above else None)

    def hides_documents(self, task: Task) -> bool:
        """Whether a turn of the supervisor must not read what is in the documents, as what it writes may be sent out.

        A person who approves the plan reads it before.
        """
        is_read = isinstance(task, PlanTask) and task.is_approved_by_person
        may_leave = is_read or self.request.vouches_for_documents
        return "reaches_out" in self.authority.capabilities and not may_leave

    @property
    def said(self) -> tuple[str, ...]:
        """The user's own words: in a nested session those of the session at the root."""
        above, earlier = self.request.delegation, self.facts.earlier
        if above is not None:
            return above.said
        goals = (earlier.goal, *(each.goal for each in earlier.thread)) if earlier else ()
        return (self.request.goal, *self.request.criteria, *goals, *self.progress.steering.answers)

    @property
    def may_act(self) -> bool:
        """Whether any agent of the tree, this session's or one above it, can change something in the world."""
        above = self.request.delegation
        return (above is not None and above.others_act) or any(agent.acting for agent in self.facts.crew.agents)

    @property
    def thread(self) -> str:
        """Id of the first of the sessions that follow each other up to this one."""
        return self.facts.earlier.thread[0].session if self.facts.earlier else self.id

    @property
    def earlier(self) -> tuple[InputOutcome, ...]:
        """The report of the session that this one follows, as what is known already; nothing if it follows none."""
        return (earlier_outcome(self.facts.earlier),) if self.facts.earlier else ()

    @property
    def root(self) -> str:
        return self.request.delegation.session if self.request.delegation else self.id

    @property
    def depth(self) -> int:
        return self.request.delegation.depth if self.request.delegation else 0

    @property
    def ancestors(self) -> tuple[str, ...]:
        """Fingerprints of this session's work and of the work that it is part of."""
        above = self.request.delegation.ancestors if self.request.delegation else ()
        return (*above, fingerprint(SUPERVISOR, self.request.goal))

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

    @property
    def may_grow(self) -> bool:
        """Whether the limits are not final: a nested session asks its parent, a session that pauses asks a person."""
        return self.request.delegation is not None or self.request.limits.on_limit == "pause"

    @property
    def report_words(self) -> int:
        """About how long the report is to be; 0 if it is as long as it needs to be."""
        plan = self.progress.plan
        return self.request.length_words or (plan.length_words if plan else None) or 0

    @property
    def is_long_report(self) -> bool:
        """Whether the report is to be written by section."""
        return sections_for(self.report_words) > 0

    def agent(self, name: str) -> AgentCard | None:
        """Find an agent of the crew; None for a nested session."""
        return next((agent for agent in self.facts.crew.agents if agent.name == name), None)

    def model(self, tier: Tier) -> ModelCard:
        """Find the model of a tier, priced at what it has proven to cost."""
        return self.spending.with_overcharge(self.facts.models[tier])

    def model_of(self, agent: AgentCard) -> ModelCard:
        return self.spending.with_overcharge(self.facts.model_of(agent))

    def card_for(self, subtask: Subtask, agent: AgentCard) -> AgentCard:
        """Give an agent the model tier that the plan names, unless the user chose one for the agent."""
        if subtask.tier is None or agent.name in self.request.tiers.agents:
            return agent
        return agent.model_copy(update={"tier": subtask.tier, "model": None})

    def can_pay(self, task: Task, output: int, turns: int = 1) -> bool:
        """Whether the ledger covers turns of the supervisor that each write so many tokens."""
        bound = input_bound(task, fixed_bytes(self.facts.crew, self.request.documents))
        turn = likely_cost(self.model(self.facts.crew.tier), bound, output)
        return self.ledger.unspent.covers(Amount(turns, turns * turn.usd))

    def use_crew(self, crew: CrewCard) -> None:
        """Go on with another version of the crew, which has more agents."""
        self.facts = self.facts.model_copy(update={"crew": crew})

    def least_grant(self, agent: str) -> Amount:
        """Estimate the least that is of use to an agent: its fewest turns, or a whole nested session."""
        card = self.agent(agent)
        return self._cost_of(card, card.least_turns if card else 0)

    @property
    def spare(self) -> Amount:
        """What running agents may borrow: all that no subtask needs which has not begun."""
        return self.ledger.unspent.beyond(self.least_of_waiting())

    def least_start(self, subtask: Subtask) -> Amount:
        """Estimate the least with which a subtask can start; a template has to be expanded before."""
        least = self.least_grant(subtask.agent)
        return least + self.expansion_turn() if subtask.for_each else least

    def expansion_turn(self) -> Amount:
        """The worst case of the turn that expands a template."""
        crew = self.facts.crew
        return early_turn(self.model(crew.tier), fixed_bytes(crew, ()))

    def planned_grant(self, agent: str) -> Amount:
        """Estimate what a plan of several subtasks has to have for one of an agent, or for a nested session."""
        card = self.agent(agent)
        return self._cost_of(card, card.planned_turns if card else 0)

    def _cost_of(self, agent: AgentCard | None, turns: int) -> Amount:
        """Estimate what so many turns of an agent cost; of a nested session, all of it."""
        if agent is None:
            return least_workable(self.facts, self.request.documents)
        return cost_of_turns(agent, self.model_of(agent), self.request.documents, turns)

    def agents_within(self, amount: Amount) -> int:
        """Compute how many subtasks an amount pays for, if their agents have tools; 1 at least."""
        agents = [agent for agent in self.facts.crew.agents if agent.tools] or self.facts.crew.agents
        cheapest = min(agents, key=lambda agent: self.planned_grant(agent.name).usd)
        first, others = self.dollars_for([cheapest.name] * 2)
        by_usd = 1 + int(max(amount.usd - first, Decimal(0)) // others) if others else _MOST_SUBTASKS
        return max(1, min(_MOST_SUBTASKS, amount.turns // cheapest.planned_turns, by_usd))

    def dollars_for(self, agents: Sequence[str]) -> tuple[Decimal, Decimal]:
        """Estimate what the dearest of some agents has to have to start, and what the others add to that."""
        spent = [self.planned_grant(agent).usd / _RESERVED_TO_SPENT for agent in agents]
        first = max((self.least_grant(agent).usd for agent in agents), default=Decimal(0))
        return first, sum(spent, Decimal(0)) - max(spent, default=Decimal(0))

    def least_of_waiting(self) -> Amount:
        """Estimate the least that the subtasks take which have not begun."""
        planned, begun = self.progress.subtasks, self.progress.begun
        agents = [subtask.agent for subtask in planned if subtask.id not in begun]
        return sum((self.least_grant(agent) for agent in agents), Amount())

    def items_beside(self, template: Subtask, kept: Amount) -> int:
        """Compute how many subtasks of a template the limits pay for, beside what is kept for others."""
        least, unspent = self.least_grant(template.agent), self.ledger.unspent
        by_turns = (unspent.turns - kept.turns) // least.turns
        by_usd = int((unspent.usd - kept.usd) // least.usd) if least.usd else MOST_ITEMS
        return max(0, min(MOST_ITEMS, by_turns, by_usd))

    def reserve(self, subtask: Subtask, not_started: int, most_usd: Decimal | None = None) -> Reservation | None:
        """Reserve a share of what is left for a subtask, one of so many; None if not even the least can be paid."""
        least, agent, most = self.least_grant(subtask.agent), self.agent(subtask.agent), self.ledger.unspent
        if agent is not None:
            card, limits = self.card_for(subtask, agent), self.request.limits
            rounds = min(limits.max_rounds, agent.rounds or limits.max_rounds)
            most = most_of_agent(agent, self.model_of(card), self.request.documents, self.facts.output_caps, rounds)
        if most_usd is not None:
            most = most.at_most(Amount(most.turns, max(most_usd, least.usd)))
        return self.grants.reserve(least, most, not_started)

    def reserve_report(self) -> None:
        """Set aside for the report what the present outcomes need."""
        crew, size = self.facts.crew, min(self.progress.outcome_bytes, _MOST_REPORT_BYTES)
        fixed = fixed_bytes(crew, self.request.documents)
        needed = worst_report(self.model(crew.tier), fixed, size, self.report_words)
        self.report_reserve.grow(needed)

    def stop_if_overcharged(self) -> None:
        """Start nothing more once providers charged more than the budget, unless a person can raise it.

        A nested session asks its parent instead, before its next turn.
        """
        excess = self.ledger.spent.usd - self.ledger.granted.usd
        if excess > 0 and self.request.delegation is None and self.request.limits.on_limit == "finish":
            self.clock.stop_overcharged()
            charged = f"${excess:.4f} more than the budget of ${self.ledger.granted.usd:.2f}"
            self.progress.state_overrun(f"{charged}; nothing more was started.")

    def close_ledger(self) -> Decimal:
        """Free what was set aside for the report, and return what the session has cost at most.

        Subtasks that have not ended may still spend what they were granted.
        """
        for reserve in (self.report_reserve, self.output_reserve, self.judge_reserve):
            if reserve is not None:
                reserve.release()
        return self.ledger.spent.usd + self.ledger.reserved.usd

    def check_raised(self, raised: RaisedLimits, execution_timeout: timedelta | None) -> None:
        """Refuse limits that are not higher, or too high; the server may end the session after some time."""
        if self.request.delegation is not None:
            raise Refused("A nested session gets its limits from its parent; raise them at the root session.")
        ceilings = self.facts.ceilings
        present = {
            "max_turns": self.ledger.granted.turns,
            "budget_usd": self.ledger.granted.usd,
            "deadline": self.clock.time,
        }
        problems: list[str] = []
        for name, now in present.items():
            wanted, ceiling = getattr(raised, name), getattr(ceilings, name)
            if wanted is not None and wanted <= now:
                problems.append(f"{name}: {wanted} is not more than the present {now}")
            elif wanted is not None and wanted > ceiling:
                problems.append(f"{name}: {wanted} is above this installation's ceiling of {ceiling}")
        most = None if execution_timeout is None else execution_timeout - options.REPORT_TIME
        if raised.deadline is not None and most is not None and raised.deadline > most:
            end = f"the {execution_timeout} after which the server ends this session"
            problems.append(f"deadline: {raised.deadline} is beyond {end}")
        if problems:
            raise Refused(join_problems(problems))

    def raise_limits(self, raised: RaisedLimits) -> None:
        self.ledger.grant(Amount(raised.max_turns or 0, raised.budget_usd or Decimal(0)).beyond(self.ledger.granted))
        if raised.deadline is not None:
            self.clock.extend(raised.deadline)

    def book_charges(self, lost: LostCharges) -> None:
        """Book what was paid in a history that is gone, each charge once, even above the budget."""
        if self.request.delegation is not None:
            raise Refused("A nested session has its books from its parent; book charges at the root session.")
        new = {charge: usd for charge, usd in lost.charges.items() if charge not in self.progress.booked}
        self.progress.note_booked(new)
        cost = sum(new.values(), Decimal(0))
        above = max(cost - self.ledger.unspent.usd, Decimal(0))
        usage = Usage(turns=len(new), cost_usd=cost, charged_above_reservation_usd=above)
        self.spending.book(SpendLine(agent=SUPERVISOR, model="", purpose="lost", usage=usage))
        self.stop_if_overcharged()

    def resume(self, before: SupervisorState) -> None:
        self.progress.resume(before.progress)
        self.provenance, self.places = before.provenance, before.places

    def state(self) -> SupervisorState:
        return SupervisorState(
            facts=self.facts,
            run=self.run,
            was_reset=self.was_reset,
            started_at=self.clock.started_at,
            deadline_at=self.clock.deadline_at,
            spending=self.spending.state(),
            holds_report=self.report_reserve.is_held,
            mailbox=self.mailbox.state(),
            provenance=self.provenance,
            places=self.places,
            progress=self.progress,
        )
