"""A session's budget: grants to its subtasks, and reserves for its report."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from activities.contracts.cards import AgentCard, ModelCard
from activities.contracts.session import SessionFacts
from activities.turn_kinds.registry import Task
from chargehand.contracts import SessionRequest, Subtask, Tier, round_up_dollars
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
from workflows.budget.ledger import Amount, Ledger, Reservation, Reserve, Spending
from workflows.rules.inputs import WRITER_TOKENS
from workflows.rules.plan_templates import MOST_ITEMS
from workflows.state.progress import Progress

_RESERVED_TO_SPENT: Final = 3
"""Ratio of an agent's final reservation to its typical spend; answers are usually shorter than their cap."""
_MOST_SUBTASKS: Final = 100
"""Maximum of one plan, whatever the limits allow."""
_NO_LANGUAGE_MODEL: Final = "extractive"
_MOST_REPORT_BYTES: Final = 4 * WRITER_TOKENS
"""Maximum bytes of outcomes for which the report's turn is reserved."""


@dataclass
class Budget:
    """The ledger of a session, its grants, and its reserves."""

    facts: SessionFacts
    request: SessionRequest
    progress: Progress
    spending: Spending
    grants: Grants = field(init=False)
    report_reserve: Reserve = field(init=False)
    output_reserve: Reserve = field(init=False)
    """For the turn that fills the requested output schema, if there is one."""
    judge_reserve: Reserve = field(init=False)
    """For the turn that judges the report's claims, if a model judges them."""

    def __post_init__(self) -> None:
        """Compute the reserves of the report."""
        facts, request = self.facts, self.request
        self.grants = Grants(self.ledger)
        own, small = facts.models[facts.crew.tier], facts.models[Tier.SMALL]
        fixed, schema = fixed_bytes(facts.crew, request.documents), request.output_schema
        # Only the root session has its claims judged.
        is_judged = request.review != "never" and not request.delegation and small.provider != _NO_LANGUAGE_MODEL
        self.report_reserve = Reserve(self.ledger, worst_report(own, fixed))
        self.output_reserve = Reserve(self.ledger, Amount() if schema is None else worst_output(own, fixed, schema))
        self.judge_reserve = Reserve(self.ledger, worst_judge(small, fixed) if is_judged else Amount())

    @property
    def ledger(self) -> Ledger:
        return self.spending.ledger

    @property
    def unspent(self) -> Amount:
        return self.ledger.unspent

    def price(self, facts: SessionFacts) -> None:
        self.facts = facts

    def model(self, tier: Tier) -> ModelCard:
        """Return the model of a tier, priced with its observed overcharge."""
        return self.spending.with_overcharge(self.facts.models[tier])

    def model_of(self, agent: AgentCard) -> ModelCard:
        return self.spending.with_overcharge(self.facts.model_of(agent))

    def card_for(self, subtask: Subtask, agent: AgentCard) -> AgentCard:
        """Return the agent with the tier that the plan names, unless the user chose one for it."""
        if subtask.tier is None or agent.name in self.request.tiers.agents:
            return agent
        return agent.replace(tier=subtask.tier, model=None)

    def can_pay(self, task: Task, output: int, turns: int = 1) -> bool:
        """Return whether the ledger covers `turns` turns of the supervisor of `output` tokens each."""
        bound = input_bound(task, fixed_bytes(self.facts.crew, self.request.documents))
        turn = likely_cost(self.model(self.facts.crew.tier), bound, output)
        return self.unspent.covers(Amount(turns, turns * turn.usd))

    def least_grant(self, agent: str) -> Amount:
        """Estimate the smallest useful grant of an agent, or of a nested session."""
        card = self.facts.crew.agent(agent)
        return self._cost_of(card, card.least_turns if card else 0)

    @property
    def spare(self) -> Amount:
        """Return what running agents can borrow: everything that waiting subtasks do not need."""
        return self.unspent.beyond(self.least_of_waiting())

    def least_start(self, subtask: Subtask) -> Amount:
        """Estimate the minimum with which a subtask can start, including the expansion of a template."""
        least = self.least_grant(subtask.agent)
        return least + self.expansion_turn() if subtask.for_each else least

    def expansion_turn(self) -> Amount:
        """The worst case of the turn that expands a template."""
        crew = self.facts.crew
        return early_turn(self.model(crew.tier), fixed_bytes(crew, ()))

    def planned_grant(self, agent: str) -> Amount:
        """Estimate what a plan of several subtasks needs per subtask of an agent, or per nested session."""
        card = self.facts.crew.agent(agent)
        return self._cost_of(card, card.planned_turns if card else 0)

    def _cost_of(self, agent: AgentCard | None, turns: int) -> Amount:
        """Estimate the cost of an agent's turns, or of a whole nested session if `agent` is None."""
        if agent is None:
            return least_workable(self.facts, self.request.documents)
        return cost_of_turns(agent, self.model_of(agent), self.request.documents, turns)

    def agents_within(self, amount: Amount) -> int:
        """Compute how many subtasks of agents with tools an amount pays for, at least 1."""
        agents = [agent for agent in self.facts.crew.agents if agent.tools] or self.facts.crew.agents
        cheapest = min(agents, key=lambda agent: self.planned_grant(agent.name).usd)
        first, others = self.dollars_for([cheapest.name] * 2)
        by_usd = 1 + int(max(amount.usd - first, Decimal(0)) // others) if others else _MOST_SUBTASKS
        return max(1, min(_MOST_SUBTASKS, amount.turns // cheapest.planned_turns, by_usd))

    def dollars_for(self, agents: Sequence[str]) -> tuple[Decimal, Decimal]:
        """Estimate the dollars that the most expensive agent needs to start, and what the others add."""
        spent = [round_up_dollars(self.planned_grant(agent).usd / _RESERVED_TO_SPENT) for agent in agents]
        first = max((self.least_grant(agent).usd for agent in agents), default=Decimal(0))
        return first, sum(spent, Decimal(0)) - max(spent, default=Decimal(0))

    def least_of_waiting(self) -> Amount:
        """Estimate the minimum that the waiting subtasks need."""
        return sum((self.least_grant(subtask.agent) for subtask in self.progress.waiting), Amount())

    def items_beside(self, template: Subtask, kept: Amount) -> int:
        """Compute how many subtasks of a template the limits pay for, after reservations for other subtasks."""
        least, unspent = self.least_grant(template.agent), self.unspent
        by_turns = (unspent.turns - kept.turns) // least.turns
        by_usd = int((unspent.usd - kept.usd) // least.usd) if least.usd else MOST_ITEMS
        return max(0, min(MOST_ITEMS, by_turns, by_usd))

    def reserve(self, subtask: Subtask, not_started: int, most_usd: Decimal | None = None) -> Reservation | None:
        """Reserve one of `not_started` shares for a subtask; None if the ledger does not cover the minimum."""
        least, agent = self.least_grant(subtask.agent), self.facts.crew.agent(subtask.agent)
        most = least + self.unspent  # no separate bound for a nested session, and never less than the minimum
        if agent is not None:
            card, limits = self.card_for(subtask, agent), self.request.limits
            rounds = min(limits.max_rounds, agent.rounds or limits.max_rounds)
            most = most_of_agent(agent, self.model_of(card), self.request.documents, self.facts.output_caps, rounds)
        if most_usd is not None:
            most = most.at_most(Amount(most.turns, most_usd))
        return self.grants.reserve(least, most, not_started, most_usd)

    def reserve_report(self, words: int) -> None:
        """Reserve what a report of about `words` words (0: any length) needs for the present outcomes."""
        crew, size = self.facts.crew, min(self.progress.outcome_bytes, _MOST_REPORT_BYTES)
        fixed = fixed_bytes(crew, self.request.documents)
        needed = worst_report(self.model(crew.tier), fixed, size, words)
        self.report_reserve.grow(needed)

    def close(self) -> Decimal:
        """Free the report's reserves, and return the maximum cost of the session.

        Subtasks that have not ended can still spend their grants.
        """
        for reserve in (self.report_reserve, self.output_reserve, self.judge_reserve):
            reserve.release()
        return self.ledger.spent.usd + self.ledger.reserved.usd
