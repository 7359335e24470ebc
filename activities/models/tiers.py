"""The models of the tiers: the defaults of each provider, and what serves small, medium and large."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from activities.backends import SettingsError
from activities.contracts.cards import ModelCard
from activities.contracts.crew import Crew
from activities.models.prices import similar_models
from activities.models.protocol import Model
from chargehand.contracts import Tier

DEFAULT_MODELS: Final[Mapping[str, Mapping[Tier, str]]] = {
    "anthropic": {Tier.SMALL: "claude-haiku-5-5", Tier.MEDIUM: "claude-sonnet-5-5", Tier.LARGE: "claude-opus-5-5"},
    "openai": {Tier.SMALL: "gpt-6-luna", Tier.MEDIUM: "gpt-6.1-sol", Tier.LARGE: "gpt-6-astra"},
}
"""Default models of each provider."""


@dataclass(frozen=True)
class Models:
    """The models of a worker: an adapter, and a card per tier."""

    adapter: Model
    cards: Mapping[Tier, ModelCard]
    """Priced at the more expensive of the model and its fallback."""
    fallback: "Models | None" = None
    """Called while a model is unavailable."""
    price: Callable[[str], ModelCard | None] | None = None
    """Prices any model of the provider by name, or reports an unknown price; None if models cannot be named."""
    named: Mapping[str, ModelCard] = field(default_factory=dict[str, ModelCard])
    connecting: "asyncio.Task[None] | None" = None
    """Loads the SDK and opens a connection; None if there is nothing to load."""

    async def until_connected(self) -> None:
        """Wait until connected, unless the provider is unreachable."""
        if tasks := [each.connecting for each in (self, self.fallback) if each and each.connecting]:
            await asyncio.wait(tasks)

    def card(self, tier: Tier, name: str = "") -> ModelCard:
        """Return the card of a tier's model, or of a model named by an agent."""
        return self.named.get(name) or self.cards[tier]


def name_models(models: Models, crews: Iterable[Crew]) -> Models:
    """Price the models named by agents. Raises `SettingsError` if the price of one is unknown."""
    if models.price is None:
        return models
    named: dict[str, ModelCard] = {}
    for crew in crews:
        for agent in crew.agents:
            if agent.model is None:
                continue
            card = named.get(agent.model) or models.price(agent.model)
            if card is None:
                where = f"Crew '{crew.name}', agents.{agent.name}.model"
                raise unpriced(models.card(agent.tier).provider, agent.model, f"{where}: the price of")
            named[agent.model] = dearer(card, models.fallback.card(agent.tier)) if models.fallback else card
    return replace(models, named=named)


def dearer(card: ModelCard, other: ModelCard) -> ModelCard:
    """Merge two cards so that reservations and output caps also suit the other model."""
    steps = sorted((*card.prices, *other.prices), key=lambda step: step.above_input_tokens)
    most = min((most for most in (card.max_output_tokens, other.max_output_tokens) if most), default=None)
    own = {
        "prices": tuple(steps),
        "max_output_tokens": most,
        "context_window": min(card.context_window, other.context_window),
        # One provider's count does not apply to the other's tokens.
        "counts_input": False,
    }
    return card.replace(**own)


def unpriced(provider: str, name: str, what: str) -> SettingsError:
    meant = similar_models(provider, name)
    advice = f"Did you mean {' or '.join(meant)}? If not, set" if meant else "Set"
    return SettingsError(
        f"{what} '{name}' is unknown, so a budget could not be kept. "
        f"{advice} its dollars per million input and output tokens, for example "
        f"CHARGEHAND_PRICES='{{\"{name}\": [2, 10]}}'; 0 for a model of your own."
    )
