"""Crews and agents as sessions see them, checked and priced."""

from activities.contracts.crew import CodeReviewRules, Routing, SlowQueue
from activities.contracts.model import ModelCard
from chargehand.contracts import Capability, Contract, Effort, JsonSchema, Obligation, Strategy, Tier, Watched, left_out
from chargehand.contracts.limits import Profile


class AgentCard(Contract):
    """An agent as the supervisor sees it."""

    name: str
    tools: tuple[str, ...] = ()
    tier: Tier
    fallback: str | None = None
    capabilities: tuple[Capability, ...] = ()
    """What its tools, as they are set up here, let it do."""
    input: JsonSchema | None = left_out(None)
    """What a subtask hands it as data."""
    output: JsonSchema | None = left_out(None)
    """What its outcome has as data."""
    private: tuple[str, ...] = left_out(())
    """Those of its tools whose answers are private text in this session."""
    outward: dict[str, tuple[str, ...]] = left_out({})
    """Those of its tools that send their arguments somewhere, each with the arguments that it does not send."""
    acting: tuple[str, ...] = left_out(())
    """Those of its tools that change something in the world."""
    repeatable: tuple[str, ...] = left_out(())
    """Those of its tools whose calls are never refused as repeated."""
    at_once: tuple[str, ...] = left_out(())
    """Those of its tools that a turn may use before it ends."""
    approvals: tuple[str, ...] = left_out(())
    """Those of its tools whose every call a person must approve."""
    policy: tuple[Obligation, ...] = left_out(())
    """What its policy demands of its tools; empty if it has none."""
    watched: tuple[Watched, ...] = left_out(())
    """Those of its tools whose success a rule of the crew waits for."""
    effort: Effort | None = left_out(None)
    """How hard it thinks; None for the usual effort."""
    model: ModelCard | None = left_out(None)
    """The model that it uses instead of its tier's."""
    rounds: int | None = left_out(None)
    """The most rounds of an attempt, if the request allows more."""
    profile: Profile = left_out("standard")
    """That of its session."""
    sees_goal: bool = left_out(True)
    """Whether it is told the user's request, for context."""
    confidence_threshold: int = left_out(0)
    """An answer that is less sure than this counts as unsure."""
    slow: SlowQueue | None = left_out(None)
    prompt_bytes: int
    """UTF-8 bytes of everything in the agent's prompt that does not depend on the session."""

    @property
    def least_turns(self) -> int:
        """The fewest turns that are of use to it: with tools it has to look and to answer."""
        return 2 if self.tools else 1

    @property
    def planned_turns(self) -> int:
        """The turns that a plan of several subtasks has to have for it: with tools it looks, reads on and answers."""
        return 3 if self.tools else 1


class OfferedTool(Contract):
    """A tool that a planner may give to agents that it describes."""

    name: str
    description: str


class CrewCard(Contract):
    """A crew as the supervisor sees it."""

    name: str
    reference: str = left_out("")
    """Names the version that the session began with, for activities."""
    version: str | None = left_out(None)
    """The version, as the crew's author calls it."""
    digest: str = left_out("")
    """The beginning of that version's digest."""
    tier: Tier
    agents: tuple[AgentCard, ...]
    effort: Effort | None = left_out(None)
    """How hard the supervisor thinks about plans and reports; None for the usual effort."""
    strategy: Strategy | None = left_out(None)
    """How outcomes become the report; the plan says if absent."""
    nested: str | None = left_out(None)
    """The crew of nested sessions; this one if absent."""
    confidence_threshold: int = left_out(0)
    """A route that is less sure than this is not used."""
    routing: Routing = left_out(Routing())
    custom_tools: tuple[OfferedTool, ...] = left_out(())
    """What agents may be described from, before a request is planned; empty if there are the crew's own only."""
    most_custom: int = left_out(0)
    """The most such agents."""
    code_review: CodeReviewRules | None = left_out(None)
    """How findings are checked, for a crew that reviews code."""
    disclaimer: str = left_out("")
    """What every report of the crew says of the limits of such work."""
    prompt_bytes: int
    """UTF-8 bytes of the supervisor's own fixed prompts, the longest of them."""

    def agent(self, name: str) -> AgentCard | None:
        """Find an agent; None for a nested session."""
        return next((agent for agent in self.agents if agent.name == name), None)


class AgentDraft(Contract):
    name: str
    description: str
    prompt: str
    tools: list[str]
    tier: str
