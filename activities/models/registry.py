"""Which model does the work of which tier."""

from collections.abc import Mapping
from dataclasses import dataclass

from activities.contracts import ModelCard
from activities.models.protocol import Model
from chargehand.contracts import Tier


@dataclass(frozen=True)
class Models:
    """The models of a worker: an adapter and a card for each tier."""

    adapter: Model
    cards: Mapping[Tier, ModelCard]

    def card(self, tier: Tier) -> ModelCard:
        """Name and price the model of a tier."""
        return self.cards[tier]
