"""Model prices from the offline snapshot of genai-prices or the operator's settings, and never from the network.

They determine a call's maximum cost before it, and its actual cost after it.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from activities.contracts.cards import ModelCard, PriceStep
from chargehand.contracts import Usage, round_up_dollars

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice, Provider, TieredPrices

Overrides = Mapping[str, tuple[Decimal, ...]]
"""The operator's own prices: model to US dollars per million input, output and, if priced differently, cached input
tokens; 0 for a self-hosted model."""

_MILLION: Final = Decimal(1_000_000)
_LONGEST_SESSION: Final = timedelta(days=8)
"""A card is used as long as its session runs: at most seven days, plus some grace."""


@dataclass(frozen=True)
class Tokens:
    input: int
    """All input tokens, including those read from and written to a cache."""
    cached: int
    cache_written: int
    """Input tokens written to the provider's cache with its shortest lifetime."""
    output: int


def load() -> "list[Provider]":
    """Load the price list, which takes half a second and is unused without a key."""
    from genai_prices.data_snapshot import get_snapshot

    return get_snapshot().providers


def price_list_at(address: str) -> str | None:
    """Return the provider whose prices apply at an address; None for a server unknown to the price list."""
    return next((one.id for one in load() if re.match(one.api_pattern, address)), None)


def similar_models(provider: str, model: str) -> list[str]:
    """List the models of a provider's price list that a name may refer to."""
    names = [model.id for one in load() if one.id == provider for model in one.models]
    return get_close_matches(model, names, n=2)


def price_card(provider: str, model: str, overrides: Overrides | None = None) -> ModelCard | None:
    """Build a model's card from its highest token prices; None if its price is unknown."""
    if overrides and model in overrides:
        dollars_in, dollars_out, *dollars_cached = overrides[model]
        dearest = max([dollars_in, *dollars_cached])
        own = PriceStep(input_usd_per_million=dearest, output_usd_per_million=dollars_out)
        return ModelCard(provider=provider, name=model, prices=(own,))
    info = _find(provider, model)
    if info is None:
        return None
    card = ModelCard(provider=provider, name=model, prices=tuple(_steps(_prices_to_come(info))))
    return card.replace(context_window=info.context_window) if info.context_window else card


def cost(provider: str, model: str, tokens: Tokens, overrides: Overrides | None = None) -> Decimal | None:
    """Return the cost of a reply's usage, rounded up to whole nanodollars; None if the model's price is unknown."""
    if overrides and model in overrides:
        dollars_in, dollars_out, *dollars_cached = overrides[model]
        cached = tokens.cached * ([*dollars_cached, dollars_in][0] - dollars_in)
        return round_up_dollars((tokens.input * dollars_in + tokens.output * dollars_out + cached) / _MILLION)
    info = _find(provider, model)
    if info is None:
        return None
    from genai_prices import Usage as PricedUsage

    used = PricedUsage(
        input_tokens=tokens.input,
        cache_read_tokens=tokens.cached,
        cache_write_tokens=tokens.cache_written,
        output_tokens=tokens.output,
    )
    return round_up_dollars(info.get_prices(datetime.now(UTC)).calc_price(used)["total_price"])


def usage_of(
    provider: str,
    asked: str,
    answered: str,
    tokens: Tokens | None,
    overrides: Overrides | None = None,
    *,
    share: Decimal = Decimal(1),
) -> Usage | None:
    """Return the usage of one call; None if its tokens or their price are unknown.

    The operator's prices apply to the requested model; otherwise the price of the model that answered counts, if it is
    known. `share` is the factor on the normal price, below 1 for batches.
    """
    if tokens is None:
        return None
    names = (asked,) if overrides and asked in overrides else (answered, asked)
    usd = next((known for name in names if (known := cost(provider, name, tokens, overrides)) is not None), None)
    if usd is None:
        return None
    return Usage(
        turns=1,
        input_tokens=tokens.input,
        cached_input_tokens=tokens.cached,
        output_tokens=tokens.output,
        cost_usd=round_up_dollars(usd * share),
    )


def _find(provider: str, model: str) -> "ModelInfo | None":
    # By exact name: the library's own search takes any `openai-like` server for OpenAI.
    known = next((one for one in load() if one.id == provider), None)
    info = known.find_model(model) if known else None
    if info is None:
        return None
    prices = info.get_prices(datetime.now(UTC))
    return info if prices.input_mtok is not None and prices.output_mtok is not None else None


def _prices_to_come(model: "ModelInfo") -> "list[ModelPrice]":
    """List all price sets that apply at some time during a session that starts now."""
    if not isinstance(model.prices, list):
        return [model.prices]
    now = datetime.now(UTC)
    hours = range(int(_LONGEST_SESSION / timedelta(hours=1)))
    return [model.get_prices(now + timedelta(hours=hour)) for hour in hours]


def _steps(prices: "Iterable[ModelPrice]") -> list[PriceStep]:
    dear_inputs: list[Decimal | TieredPrices | None] = []
    outputs: list[Decimal | TieredPrices | None] = []
    for price in prices:
        # Cache writes cost more than plain input, and a provider may cache on its own.
        dear_inputs += [price.input_mtok, price.cache_write_mtok, price.cache_read_mtok]
        outputs.append(price.output_mtok)
    steps: list[PriceStep] = []
    dearest_in = dearest_out = Decimal(0)
    tiered = [price for price in (*dear_inputs, *outputs) if price is not None and not isinstance(price, Decimal)]
    for above in sorted({0, *(tier.start for price in tiered for tier in price.tiers)}):
        # Never decreasing, so that an upper bound of the tokens is an upper bound of the price.
        dearest_in = max(dearest_in, *(_at(price, above + 1) for price in dear_inputs))
        dearest_out = max(dearest_out, *(_at(price, above + 1) for price in outputs))
        steps.append(
            PriceStep(above_input_tokens=above, input_usd_per_million=dearest_in, output_usd_per_million=dearest_out)
        )
    return steps


def _at(price: "Decimal | TieredPrices | None", input_tokens: int) -> Decimal:
    """Return the price per million tokens for a call of this input size; a threshold reprices all tokens."""
    if price is None or isinstance(price, Decimal):
        return price or Decimal(0)
    reached = [tier.price for tier in price.tiers if input_tokens > tier.start]
    return reached[-1] if reached else price.base
