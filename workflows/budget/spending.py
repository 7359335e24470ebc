"""What one workflow has spent on model calls, line by line, and what its models have proven to cost. Pure."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import NamedTuple

from activities.contracts.model import ModelCard
from chargehand.contracts import SpendLine, Usage
from chargehand.contracts.base import MOST_OVERCHARGE
from workflows.budget.ledger import Amount, Ledger, Reservation
from workflows.contracts import SpendingState
from workflows.rules.report_content import merge_spend


class Mark(NamedTuple):
    lines: int
    wasted: Usage


class Spending:
    """The ledger of a workflow, and a line for each call that was settled in it."""

    def __init__(self, before: SpendingState) -> None:
        granted, spent = Amount(before.granted_turns, before.granted_usd), Amount(before.spent_turns, before.spent_usd)
        self.ledger = Ledger(granted, spent)
        self.lines = list(before.spend)
        self.wasted = before.wasted
        """Part of `lines` for turns that gave nothing."""
        self.overcharges = dict(before.overcharges)
        """How many times a reservation a call was seen to cost, by the name of its model; only what is above 1."""
        self._turns = before.turns

    def state(self) -> SpendingState:
        return SpendingState(
            granted_turns=self.ledger.granted.turns,
            granted_usd=self.ledger.granted.usd,
            spent_turns=self.ledger.spent.turns,
            spent_usd=self.ledger.spent.usd,
            spend=merge_spend(self.lines),
            wasted=self.wasted,
            overcharges=self.overcharges,
            turns=self._turns,
        )

    @property
    def mean_output(self) -> int:
        """Tokens that a reply had on average, thinking included; 0 before the first."""
        used = sum((line.usage for line in self.lines), Usage())
        return used.output_tokens // max(used.turns, 1)

    def begin_turn(self) -> int:
        self._turns += 1
        return self._turns

    def settle(self, reservation: Reservation, line: SpendLine, *, wasted: bool) -> None:
        """Book what a call has cost in place of what was reserved for it."""
        self.ledger.settle(reservation, Amount(line.usage.turns, line.usage.cost_usd))
        self.lines.append(line)
        if wasted:
            self.wasted += line.usage

    def book(self, line: SpendLine) -> None:
        """Book a cost that was not reserved, and that gave nothing."""
        self.ledger.book(Amount(line.usage.turns, line.usage.cost_usd))
        self.lines.append(line)
        self.wasted += line.usage

    def count_tool_call(self, agent: str) -> None:
        self.lines.append(SpendLine(agent=agent, model="", purpose="tools", usage=Usage(tool_calls=1)))

    def include(self, lines: Iterable[SpendLine]) -> None:
        """Note what a child has cost, whose grant is settled by itself."""
        self.lines = [*merge_spend([*self.lines, *lines])]

    def waste_last(self) -> None:
        self.wasted += self.lines[-1].usage

    def keep_turn(self) -> None:
        """Count one turn as not wasted, since the call that repeated it is the one that did not count."""
        self.wasted = self.wasted.model_copy(update={"turns": self.wasted.turns - 1})

    def mark(self) -> Mark:
        return Mark(len(self.lines), self.wasted)

    def waste_since(self, mark: Mark) -> None:
        self.wasted = sum((line.usage for line in self.lines[mark.lines :]), mark.wasted)

    def with_overcharge(self, model: ModelCard) -> ModelCard:
        """Return a model that is reserved at what it has proven to cost."""
        return model.model_copy(update={"overcharge": max(model.overcharge, self.overcharges.get(model.name, 1.0))})

    def learn(self, overcharges: Mapping[str, float]) -> None:
        """Take over what another workflow of the session has seen models cost."""
        for name, factor in overcharges.items():
            self.overcharges[name] = max(factor, self.overcharges.get(name, 1.0))

    def prove(self, model: ModelCard, cost: Decimal, worst: Decimal) -> None:
        """Note that a call of a model cost more than its worst case, if it did."""
        if cost > worst > 0:
            self.overcharges[model.name] = min(model.overcharge * float(cost / worst), MOST_OVERCHARGE)
