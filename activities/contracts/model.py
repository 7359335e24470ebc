"""Models as seen by sessions: prices, limits, output caps."""

from chargehand.contracts import Contract, Dollars, TypedByPeople, left_out
from chargehand.contracts.limits import OutputTokens


class PriceStep(Contract):
    """Token prices for prompts longer than `above_input_tokens`."""

    above_input_tokens: int = 0
    input_usd_per_million: Dollars
    """The highest price of an input token, cache writes included."""
    output_usd_per_million: Dollars


class ModelCard(Contract):
    """A model as seen by the ledger."""

    provider: str
    name: str
    prices: tuple[PriceStep, ...]
    """Ascending by `above_input_tokens`, the first at 0."""
    counts_input: bool = left_out(False)
    """Whether its provider can count the tokens of a prompt before the call."""
    context_window: int = left_out(128_000)
    """Maximum tokens of prompt and reply together."""
    overcharge: float = left_out(1.0)
    """Observed ratio of a call's cost to its reservation, applied to later reservations."""
    max_output_tokens: int | None = left_out(None)
    """Maximum output tokens of one turn; None if unknown."""


class OutputCaps(TypedByPeople):
    """Maximum output tokens of one turn by purpose, thinking included."""

    plan: OutputTokens = 16_000
    work: OutputTokens = 12_000
    """A turn of an agent."""
    report: OutputTokens = 24_000
    decision: OutputTokens = 8_000
    """Any other turn: a judgement, a review, a summary."""
