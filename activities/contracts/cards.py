"""Crews and agents as sessions see them: validated, with priced models."""

from typing import Final

from activities.contracts.crew import CodeReviewRules, Routing, SlowQueue
from chargehand.contracts import (
    Capability,
    Contract,
    Dollars,
    Effort,
    JsonSchema,
    Obligation,
    Strategy,
    Tier,
    TypedByPeople,
    Watched,
    left_out,
)
from chargehand.contracts.limits import OutputTokens, Profile

TURNS_WITH_TOOLS: Final = 3  # look, read on, and answer
LEAST_TURNS_OF_SESSION: Final = 3  # to plan, and for an agent that looks and answers


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


class AgentCard(Contract):
    """An agent as the supervisor sees it."""

    name: str
    tools: tuple[str, ...] = ()
    tier: Tier
    fallback: str | None = None
    capabilities: tuple[Capability, ...] = ()
    """What the agent can do with its tools, as configured here."""
    input: JsonSchema | None = left_out(None)
    """JSON Schema of the data that subtasks pass to it."""
    output: JsonSchema | None = left_out(None)
    """JSON Schema of the data in the agent's outcome."""
    private: tuple[str, ...] = left_out(())
    """Its tools whose answers are private text in this session."""
    outward: dict[str, tuple[str, ...]] = left_out({})
    """Its tools that send arguments out, each with the arguments that it does not send."""
    acting: tuple[str, ...] = left_out(())
    """Its tools with side effects."""
    repeatable: tuple[str, ...] = left_out(())
    """Its tools whose calls are never refused as repetitions."""
    at_once: tuple[str, ...] = left_out(())
    """Its tools that may run within a turn."""
    approvals: tuple[str, ...] = left_out(())
    """Its tools whose every call needs a person's approval."""
    policy: tuple[Obligation, ...] = left_out(())
    """Obligations that the agent's policy imposes on its tools; empty if it has no policy."""
    watched: tuple[Watched, ...] = left_out(())
    """Its tools on whose success a rule of the crew depends."""
    effort: Effort | None = left_out(None)
    """Its reasoning effort; None for the default."""
    model: ModelCard | None = left_out(None)
    """The agent's model, if it differs from its tier's."""
    rounds: int | None = left_out(None)
    """Maximum rounds of an attempt."""
    profile: Profile = left_out("standard")
    """Its session's profile."""
    sees_goal: bool = left_out(True)
    """Whether it sees the user's request, for context."""
    confidence_threshold: int = left_out(0)
    """Answers below this confidence count as unsure."""
    slow: SlowQueue | None = left_out(None)
    prompt_bytes: int
    """UTF-8 bytes of everything in the agent's prompt that does not depend on the session."""

    @property
    def least_turns(self) -> int:
        """The fewest useful turns: with tools, one to look and one to answer."""
        return min(2, self.rounds or 2) if self.tools else 1

    @property
    def planned_turns(self) -> int:
        """Turns that a plan with several subtasks needs for this agent."""
        return min(TURNS_WITH_TOOLS, self.rounds or TURNS_WITH_TOOLS) if self.tools else 1


class OfferedTool(Contract):
    """A tool that a planner may give to agents that it designs."""

    name: str
    description: str


class CrewCard(Contract):
    """A crew as the supervisor sees it."""

    name: str
    reference: str = left_out("")
    """Identifies the version with which the session started, for activities."""
    version: str | None = left_out(None)
    """The version given by the crew's author."""
    digest: str = left_out("")
    """The beginning of that version's digest."""
    tier: Tier
    agents: tuple[AgentCard, ...]
    effort: Effort | None = left_out(None)
    """The supervisor's reasoning effort for plans and reports; None for the default."""
    strategy: Strategy | None = left_out(None)
    """How outcomes become the report; if absent, the plan decides."""
    nested: str | None = left_out(None)
    """The crew of nested sessions; if absent, this crew."""
    confidence_threshold: int = left_out(0)
    """Routes below this confidence are not used."""
    routing: Routing = left_out(Routing())
    custom_tools: tuple[OfferedTool, ...] = left_out(())
    """Tools for agents designed before planning; empty if the crew only has its own agents."""
    most_custom: int = left_out(0)
    """Maximum number of designed agents."""
    code_review: CodeReviewRules | None = left_out(None)
    """How findings are checked, for a code review crew."""
    disclaimer: str = left_out("")
    """Statement about the limits of such work, for every report of the crew."""
    prompt_bytes: int
    """UTF-8 bytes of the longest of the supervisor's fixed prompts."""

    def agent(self, name: str) -> AgentCard | None:
        """Find an agent; None for a nested session."""
        return next((agent for agent in self.agents if agent.name == name), None)


class AgentDraft(Contract):
    name: str
    description: str
    prompt: str
    tools: list[str]
    tier: str
