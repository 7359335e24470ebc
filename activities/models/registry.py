"""The model adapters: settings, and one row each."""

import asyncio
import re
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Annotated, Any, Final, cast

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from activities.backends import Backend, Row, SettingsError, WebAddress, secret, with_added
from activities.contracts.cards import ModelCard, OutputCaps, PriceStep
from activities.models.abilities import abilities_of
from activities.models.clients import ProviderModel
from activities.models.prices import price_card, price_list_at
from activities.models.protocol import CountsInput, Model
from activities.models.streaming import SLOW_TO_BEGIN, Patience
from activities.models.tiers import DEFAULT_MODELS, Models, dearer, unpriced
from chargehand.contracts import Tier
from chargehand.plugins import SHIPPED, Extension, installed

_OFFLINE: Final = "extractive"
"""The provider if no language model is configured."""
_Price = Annotated[Decimal, Field(ge=0, le=1_000_000, allow_inf_nan=False)]
_OwnPrices = Annotated[tuple[_Price, ...], Field(min_length=2, max_length=3)]


class ModelSettings(BaseSettings):
    model_config = SettingsConfigDict(use_attribute_docstrings=True)

    provider: str | None = None
    """The model provider; by default the first whose key is set."""
    models: dict[Tier, str] = {}
    """Model names by tier, as a JSON object; other tiers keep the provider's default."""
    fallback_provider: str | None = None
    """The provider to use while the main one is unavailable; by default `provider`, with `fallback_models`."""
    fallback_models: dict[Tier, str] = {}
    """The fallback provider's model names by tier, in the same form as `models`."""
    prices: dict[str, _OwnPrices] = {}
    """Dollars per million input, output and, if priced differently, cached input tokens by model name, as a JSON
    object; 0 for local models."""
    output_tokens: OutputCaps = OutputCaps()
    """Maximum output tokens of one turn, thinking included, as a JSON object by purpose: plan, work, report,
    decision. A turn gets less if the budget does not cover that."""
    reasoning_models: dict[str, bool] = {}
    """Whether a model supports a reasoning effort, as a JSON object by model name; by default known from its name."""
    context_window: int | None = Field(default=None, ge=8_000, le=10_000_000)
    """Context window of all models in tokens; by default from the price list, or 128,000."""
    requests_per_second: float | None = Field(default=None, gt=0, le=10_000)
    """Model turns started per second by all workers together, below the provider's rate limit; None for no limit."""
    silence_seconds: float | None = Field(default=None, ge=1, le=3_600)
    """Seconds without output from a provider after which a call is abandoned; by default a minute (for
    `openai_compatible`, three until the first output). Longer in proportion above 8,000 output tokens."""
    answer_tokens: int | None = Field(default=None, ge=64)
    """Maximum output tokens of a call to `openai_compatible`, for models that may never stop."""
    openai_background: bool = False
    """Whether OpenAI stores replies temporarily, so that a lost worker's reply is fetched instead of paid again."""
    anthropic_api_key: SecretStr | None = Field(default=None, validation_alias="ANTHROPIC_API_KEY")
    """API key of Anthropic."""
    anthropic_base_url: WebAddress | None = Field(default=None, validation_alias="ANTHROPIC_BASE_URL")
    """Alternative address for Anthropic."""
    openai_api_key: SecretStr | None = Field(default=None, validation_alias="OPENAI_API_KEY")
    """API key of OpenAI, or of the server at `OPENAI_BASE_URL`."""
    openai_base_url: WebAddress | None = Field(default=None, validation_alias="OPENAI_BASE_URL")
    """Address of an OpenAI-compatible server; also selects that provider."""


def _anthropic(settings: ModelSettings, closing: AsyncExitStack) -> Models:
    from activities.models.anthropic_messages import AnthropicModel

    adapter = AnthropicModel(api_key=secret(settings.anthropic_api_key), base_url=settings.anthropic_base_url or "")
    return _models(adapter, "anthropic", DEFAULT_MODELS["anthropic"], settings, closing)


def _openai(settings: ModelSettings, closing: AsyncExitStack) -> Models:
    from activities.models.openai_responses import OpenAIResponsesModel

    key, url = secret(settings.openai_api_key), settings.openai_base_url or ""
    adapter = OpenAIResponsesModel(api_key=key, base_url=url, background=settings.openai_background)
    return _models(adapter, "openai", DEFAULT_MODELS["openai"], settings, closing)


def _openai_compatible(settings: ModelSettings, closing: AsyncExitStack) -> Models:
    from activities.models.openai_chat import OpenAIChatModel

    key, url = secret(settings.openai_api_key), settings.openai_base_url or ""
    prices = price_list_at(url) or "openai_compatible"
    adapter = OpenAIChatModel(api_key=key, base_url=url, price_list=prices)
    return _models(adapter, prices, {}, settings, closing, most=settings.answer_tokens)


def _offline(settings: ModelSettings, closing: AsyncExitStack) -> Models:
    extension = next((each for each in installed().model_providers if each.name == _OFFLINE), None)
    if extension is None:
        raise SettingsError(
            "No language model is set, and the plug-in of the offline model is not installed: set ANTHROPIC_API_KEY, "
            f"OPENAI_API_KEY or OPENAI_BASE_URL, or install {SHIPPED}."
        )
    free = (PriceStep(input_usd_per_million=Decimal(0), output_usd_per_million=Decimal(0)),)
    names = {tier: settings.models.get(tier, _OFFLINE) for tier in Tier}
    cards = {tier: ModelCard(provider=_OFFLINE, name=name, prices=free) for tier, name in names.items()}
    return Models(extension.load_function()(settings, closing), cards)


MODELS: Final = Backend(
    "model",
    "CHARGEHAND_PROVIDER",
    (
        Row("anthropic", _anthropic, needs="ANTHROPIC_API_KEY"),
        Row("openai_compatible", _openai_compatible, needs="OPENAI_BASE_URL"),
        Row("openai", _openai, needs="OPENAI_API_KEY"),
        Row(_OFFLINE, _offline),
    ),
    default="no language model is used",
)


def model_backend() -> Backend[Callable[[ModelSettings, AsyncExitStack], Models]]:
    """Return the providers, including those of plug-ins."""
    return with_added(MODELS, installed().model_providers, lambda each: partial(_build_added, each))


def _build_added(extension: Extension, settings: ModelSettings, closing: AsyncExitStack) -> Models:
    adapter = extension.build(Model, "provider", settings, closing)
    if isinstance(adapter, ProviderModel):
        own = cast("ProviderModel[Any]", adapter)
        return _models(own, own.price_list or extension.name, {}, settings, closing)
    return priced_models(adapter, extension.name, {}, settings)


def build_models(settings: ModelSettings, provider: str, closing: AsyncExitStack) -> Models:
    """Build the models of a provider, and of the fallback if one is set. Raises `SettingsError` if these conflict."""
    backend = model_backend()
    models = backend.builder(settings, provider)(settings, closing)
    if not settings.fallback_provider and not settings.fallback_models:
        return models
    other = settings.fallback_provider or provider
    names = settings.fallback_models if other != provider else settings.models | settings.fallback_models
    try:
        fallback = backend.builder(settings, other)(settings.model_copy(update={"models": names}), closing)
    except SettingsError as error:
        named = re.sub(r"CHARGEHAND_(?=MODELS|PROVIDER)", "CHARGEHAND_FALLBACK_", str(error))
        raise SettingsError(named) from error
    cards = {tier: dearer(card, fallback.card(tier)) for tier, card in models.cards.items()}
    return replace(models, cards=cards, fallback=fallback)


def _models(
    adapter: ProviderModel[Any],
    provider: str,
    names: Mapping[Tier, str],
    settings: ModelSettings,
    closing: AsyncExitStack,
    *,
    most: int | None = None,
) -> Models:
    """Load the SDK when the worker starts rather than at the first call, and close its client at the end."""
    adapter = replace(
        adapter,
        prices=settings.prices,
        reasoning_models=settings.reasoning_models,
        patience=_patience(settings, adapter.patience),
    )
    closing.push_async_callback(adapter.aclose)
    connecting = asyncio.create_task(adapter.connect())
    closing.callback(connecting.cancel)
    return replace(priced_models(adapter, provider, names, settings, most=most), connecting=connecting)


def priced_models(
    adapter: Model, provider: str, names: Mapping[Tier, str], settings: ModelSettings, *, most: int | None = None
) -> Models:
    """Price the model of each tier, named by defaults or settings, from the provider's price list or the settings.

    `most` is the maximum output tokens of a call, where the models' names do not determine it.

    Raises:
        SettingsError: a tier has no model, or its price is unknown.
    """

    def price(name: str) -> ModelCard | None:
        card = price_card(provider, name, settings.prices)
        if card is None:
            return None
        window = settings.context_window or card.context_window
        # Some servers refuse a call if prompt and cap together exceed the context window.
        output = most or min(abilities_of(name).max_output_tokens or window, window // 4)
        counts = isinstance(adapter, CountsInput)
        return card.replace(max_output_tokens=output, context_window=window, counts_input=counts)

    return Models(adapter, _cards(settings, provider, names, price), price=price)


def _cards(
    settings: ModelSettings, provider: str, defaults: Mapping[Tier, str], price: Callable[[str], ModelCard | None]
) -> dict[Tier, ModelCard]:
    names = {**defaults, **settings.models}
    if missing := [tier.value for tier in Tier if tier not in names]:
        raise SettingsError(
            f"CHARGEHAND_MODELS: name a model for the tiers {', '.join(missing)}, "
            'for example CHARGEHAND_MODELS=\'{"small":"m","medium":"m","large":"m"}\'.'
        )
    cards: dict[Tier, ModelCard] = {}
    for tier, name in names.items():
        card = price(name)
        if card is None:
            raise unpriced(provider, name, f"CHARGEHAND_MODELS: the price of the {tier.value} model")
        cards[tier] = card
    return cards


def _patience(settings: ModelSettings, usual: Patience) -> Patience:
    if settings.silence_seconds is None:
        return usual
    first = max(usual.first_seconds, settings.silence_seconds) if usual is SLOW_TO_BEGIN else settings.silence_seconds
    return Patience(first, settings.silence_seconds)
