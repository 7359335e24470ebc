"""Prices: the worst case bounds the true cost, and the true cost follows the price list."""

import subprocess
import sys
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activities.contracts.cards import ModelCard, PriceStep
from activities.models.prices import Tokens, cost, load, price_card, usage_of
from chargehand.contracts import Usage
from workflows.budget.estimates import worst_case

DEFAULTS = (
    *(("anthropic", model) for model in ("claude-haiku-5-5", "claude-sonnet-5-5", "claude-opus-5-5")),
    *(("openai", model) for model in ("gpt-6-luna", "gpt-6.1-terra", "gpt-6.1-sol", "gpt-6-astra")),
)


@pytest.fixture(scope="module", autouse=True)
def price_list() -> None:
    """Load the price list before the time limit of an example applies."""
    load()


def counts() -> st.SearchStrategy[int]:
    """Token counts, including those around the known thresholds."""
    thresholds = st.sampled_from([0, 1, 99_999, 100_000, 100_001, 271_999, 272_000, 272_001])
    return thresholds | st.integers(0, 1_100_000)


@st.composite
def used(draw: st.DrawFn) -> Tokens:
    whole = draw(counts())
    cached = draw(st.integers(0, whole))
    written, output = draw(st.integers(0, whole - cached)), draw(st.integers(0, 128_000))
    return Tokens(input=whole, cached=cached, cache_written=written, output=output)


@given(model=st.sampled_from(DEFAULTS), tokens=used(), more_input=counts(), more_output=st.integers(0, 10_000))
def test_no_call_costs_more_than_its_worst_case(
    model: tuple[str, str], tokens: Tokens, more_input: int, more_output: int
) -> None:
    """For a call within its token bounds, the reservation is at least the actual cost."""
    card = price_card(*model)
    true_cost = cost(*model, tokens)
    assert card is not None
    assert true_cost is not None

    assert worst_case(card, tokens.input + more_input, tokens.output + more_output).usd >= true_cost


@pytest.mark.parametrize(
    ("provider", "model"),
    [("openai", "no-such-model"), ("openai-compatible", "gpt-6-luna"), ("anthropic", ""), ("nobody", "gpt-6-luna")],
)
def test_unpriced_models_are_unknown_and_not_free(provider: str, model: str) -> None:
    """An unknown model, or a known one at an unknown provider, has no price at all."""
    tokens = Tokens(input=10, cached=0, cache_written=0, output=10)

    assert price_card(provider, model) is None
    assert cost(provider, model, tokens) is None
    assert usage_of(provider, model, model, tokens) is None


def test_configured_prices_override_the_price_list() -> None:
    """An override is a flat price for any provider; 0 is a price, and cached input may have its own."""
    overrides = {"gpt-6-luna": (Decimal(3), Decimal(4)), "house-model": (Decimal(0), Decimal(0))}
    cached = {"house-model": (Decimal(3), Decimal(4), Decimal("0.5"))}
    tokens = Tokens(input=300_000, cached=100_000, cache_written=0, output=1_000)

    flat = PriceStep(input_usd_per_million=Decimal(3), output_usd_per_million=Decimal(4))
    card = ModelCard(provider="openai", name="gpt-6-luna", prices=(flat,))
    assert price_card("openai", "gpt-6-luna", overrides) == card
    assert cost("openai", "gpt-6-luna", tokens, overrides) == Decimal("0.904")
    assert cost("openai-compatible", "house-model", tokens, overrides) == Decimal(0)
    assert cost("openai-compatible", "house-model", tokens, cached) == Decimal("0.654")


def test_a_reply_from_an_unpriced_model_costs_as_the_requested_model() -> None:
    """The reply may name a model without a price, such as an unlisted dated alias."""
    tokens = Tokens(input=1_000, cached=0, cache_written=0, output=0)
    usage = usage_of("openai", "gpt-6-luna", "house-alias", tokens)

    assert usage == Usage(turns=1, input_tokens=1_000, cost_usd=Decimal("0.0001"))


def test_pricing_starts_no_update_thread() -> None:
    """The price list is never refreshed over the network: only the main thread exists afterwards."""
    code = (
        "import threading; from activities.models.prices import price_card;"
        "assert price_card('openai', 'gpt-6-luna');"
        "print([thread.name for thread in threading.enumerate()])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "['MainThread']"
