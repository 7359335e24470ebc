"""Models as sessions see them: prices, limits, output caps."""

from chargehand.contracts import Contract, Dollars, TypedByPeople, left_out
from chargehand.contracts.limits import OutputTokens


class PriceStep(Contract):
    """What tokens cost once a prompt is longer than `above_input_tokens`."""

    above_input_tokens: int = 0
    input_usd_per_million: Dollars
    """The dearest way in which an input token can be charged, cache writes included."""
    output_usd_per_million: Dollars


class ModelCard(Contract):
    """A model as the ledger sees it."""

    provider: str
    name: str
    prices: tuple[PriceStep, ...]
    """Ascending by `above_input_tokens`, the first at 0."""
    counts_input: bool = left_out(False)
    """Whether its provider counts the tokens of a prompt before it is sent."""
    context_window: int = left_out(128_000)
    """The most tokens of a prompt and its reply together."""
    overcharge: float = left_out(1.0)
    """How many times its reservation a call was seen to cost: later reservations are made so much larger."""
    max_output_tokens: int | None = left_out(None)
    """The most that it can write in one turn; None if that is unknown."""


class OutputCaps(TypedByPeople):
    """The most output tokens of one turn by its purpose, thinking included."""

    plan: OutputTokens = 16_000
    work: OutputTokens = 12_000
    """A turn of an agent."""
    report: OutputTokens = 24_000
    decision: OutputTokens = 8_000
    """Any other turn: a judgement, a review, a summary."""
