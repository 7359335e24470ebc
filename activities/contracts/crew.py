"""Crews as data: what a crew file may say. `crew_files` reads them, `crew_checks` checks them against the tools."""

from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from activities.contracts.mcp_declaration import McpDeclaration
from chargehand.contracts import (
    Capability,
    Confidence,
    Effort,
    JsonSchema,
    Limits,
    Obligation,
    PolicyMode,
    Strategy,
    Tier,
    ToolRule,
    TypedByPeople,
    Watched,
)
from chargehand.contracts.base import Name
from chargehand.contracts.limits import Profile, UpToADay, Words

Prose = Annotated[str, StringConstraints(strip_whitespace=True, min_length=10, max_length=8_000)]
Description = Annotated[str, StringConstraints(strip_whitespace=True, min_length=10, max_length=500)]


Pattern = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
"""A whole request, without regard to case; `*` stands for any text, as in `*invoice*`."""


SubtaskField = Literal["input", "tier", "deadline", "max_output_tokens"]
"""What a planner may give a subtask in some crews only."""


class SlowQueue(TypedByPeople):
    """What is used instead of an agent while the oldest task of a queue waits too long."""

    after: UpToADay
    """How long that task may wait: seconds, or ISO 8601 such as `PT30S`."""
    queue: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    """The Temporal task queue that is looked at; that of the session's model turns if absent."""
    agent: Name | None = None
    """The agent that gets the subtask then."""
    tier: Tier | None = None
    """The model tier of the subtask then."""

    @model_validator(mode="after")
    def _has_one_backup(self) -> Self:
        if (self.agent is None) == (self.tier is None):
            raise ValueError("name either a backup agent or a backup tier")
        return self


class RouteRule(TypedByPeople):
    """Requests that go to certain agents without a plan."""

    match: Annotated[tuple[Pattern, ...], Field(min_length=1, max_length=50)]
    """Patterns; one that matches is enough."""
    agents: Annotated[tuple[Name, ...], Field(min_length=1, max_length=10)]
    """The agents, which work side by side."""
    then: Name | None = None
    """An agent that works with their outcomes when all have ended."""
    instruction: Annotated[str, StringConstraints(strip_whitespace=True, max_length=2_000)] = ""
    """What they are told besides the request; for most rules nothing."""


class Routing(TypedByPeople):
    """How requests get to agents without a plan."""

    rules: Annotated[tuple[RouteRule, ...], Field(max_length=50)] = ()
    """Looked at in their order, without a model; the first that matches decides."""
    otherwise: Literal["plan", "model", "fallback"] = "plan"
    """What happens to other requests: they are planned, a model names one or two agents, or the fallback gets them."""
    fallback: Name | None = None
    """The agent that gets a request whose route cannot be used."""


class CustomAgents(TypedByPeople):
    """What a planner may describe agents of its own from."""

    tools: Annotated[tuple[Name, ...], Field(min_length=1, max_length=20)]
    """The tools that such agents may have; none that changes anything."""
    most: Annotated[int, Field(strict=True, ge=1, le=7)] = 5
    """The most agents of one session."""


class Agent(TypedByPeople):
    """A specialist: one prompt, its own tools, a model tier."""

    name: Name
    description: Description
    """What it is good for, for the planner."""
    prompt: Prose
    """How it works and what a good answer is."""
    tools: tuple[Name, ...] = ()
    """Its tools. One that only reads may be shared between agents; one that changes something belongs to one."""
    capabilities: tuple[Capability, ...] = ()
    """What its tools may let it do. Which of it they do depends on what stands behind them; never all three at once."""
    approve: tuple[Name, ...] = ()
    """Those of its tools of which a person approves each call, beside those that always need it."""
    policy: Annotated[tuple[ToolRule, ...], Field(max_length=100)] = ()
    """Rules for its tools. If there are any, calls of tools without a rule are denied."""
    tier: Tier = Tier.MEDIUM
    model: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)] | None = None
    """The provider's name of the model that it uses instead of its tier's; its price must be known."""
    effort: Effort | None = None
    """How hard it thinks, on models that can be told; the crew's effort if absent."""
    reviews: bool = False
    """Whether it checks what it is given, and answers with issues: severity, place, what is wrong, what would mend it.
    """
    length_words: Words = 600
    """The most words of its answer, unless the request asks for another length; in the profile `deep` 2.5 times that.
    """
    cites: bool = True
    """Whether its text names the source behind each statement; not if it is to be sent as it is."""
    fallback: Name | None = None
    """Agent that is tried when this one has failed."""
    rounds: Annotated[int, Field(strict=True, ge=1, le=250)] | None = None
    """The most rounds of model turn and tool calls, if that is less than the request's `max_rounds`."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    """Sampling temperature, on models that take one."""
    input: JsonSchema | None = None
    """JSON Schema of an object that subtasks hand it as data, beside the instruction."""
    output: JsonSchema | None = None
    """JSON Schema of the data that its outcome has, beside the text; agents that depend on it are given both."""
    sees_goal: bool = True
    """Whether it is told the user's request, for context, beside its instruction and its inputs."""
    confidence_threshold: Confidence | None = None
    """Replaces the crew's."""
    slow: SlowQueue | None = None
    """What is used instead of it while a task queue is slow."""


class CodeReviewRules(TypedByPeople):
    """How the findings of a crew that reviews code become its report."""

    checker: Name
    """The agent that looks at every finding again; only what it confirms is reported."""
    threshold: Confidence = 80
    """The least confidence of a finding that is reported."""
    added_lines_only: bool = True
    """Whether a finding has to be about a line that the change adds."""


class Crew(TypedByPeople):
    """A supervisor's guidance and its agents."""

    name: Name
    version: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._+-]{1,40}$")] | None = None
    """What its author calls this version, such as `1.2`; reports show it beside a digest of the content."""
    description: Description
    guidance: Prose
    """How to plan with these agents."""
    tier: Tier = Tier.MEDIUM
    """Model tier of the supervisor's own turns."""
    effort: Effort | None = None
    """Replaces the usual effort: high for plans and reports, medium for the agents. Small decisions stay at low."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    """Sampling temperature of the supervisor's own turns, on models that take one; if absent, that of the kind of turn.
    """
    policy_mode: PolicyMode = "enforce"
    """`report` allows calls that are against the agents' policies, and records them in the trace."""
    profile: Profile | None = None
    """Profile of requests that name none; `standard` if absent."""
    limits: Limits = Limits()
    """Limits of requests that name neither a profile nor this limit; those that are absent are the profile's."""
    approval: Literal["none", "plan"] = "none"
    """`plan` has a person approve every plan, whatever the request says."""
    review: Literal["auto", "always", "never"] = "auto"
    """Review of requests that leave it at `auto`."""
    strategy: Strategy | None = None
    """How outcomes become the report, whatever the planner would choose."""
    confidence_threshold: Confidence = 0
    """An answer that is less sure than this is tried again on a stronger tier, and judged."""
    subtask_limits: bool = False
    """Whether the planner may set the model tier, time and output tokens of a subtask, within the session's limits."""
    nested: Name | None = None
    """The crew of nested sessions, a team of its own; this crew if absent."""
    routing: Routing = Routing()
    """How requests get to agents without a plan."""
    custom: CustomAgents | None = None
    """Has a model describe agents for each request, before it is planned; if absent, there are those below only."""
    code_review: CodeReviewRules | None = None
    """For a crew that reviews code: the report is its checked findings, and no model writes it."""
    disclaimer: Annotated[str, StringConstraints(strip_whitespace=True, max_length=1_000)] = ""
    """What readers of every report are told of the limits of such work, such as that it is no legal advice."""
    mcp: Annotated[tuple[McpDeclaration, ...], Field(max_length=10)] = ()
    """MCP servers whose tools the agents may have."""
    agents: Annotated[tuple[Agent, ...], Field(min_length=1, max_length=20)]

    @property
    def subtask_fields(self) -> tuple[SubtaskField, ...]:
        """What a planner may give a subtask of this crew, beside what every crew has."""
        data: tuple[SubtaskField, ...] = ("input",) if any(agent.input is not None for agent in self.agents) else ()
        return (*data, "tier", "deadline", "max_output_tokens") if self.subtask_limits else data

    def agent(self, name: str) -> Agent | None:
        return next((agent for agent in self.agents if agent.name == name), None)


def obligations_of(crew: Crew, agent: Agent) -> tuple[Obligation, ...]:
    """List what an agent's policy demands of each of its tools; nothing if it has no policy."""
    if not agent.policy:
        return ()
    ruled = {rule.tool for rule in agent.policy}
    rules = [(rule.tool, rule) for rule in agent.policy] + [(tool, None) for tool in agent.tools if tool not in ruled]
    return tuple(
        Obligation(key=f"{crew.name}/{agent.name}/{number}", tool=tool, rule=rule, mode=crew.policy_mode)
        for number, (tool, rule) in enumerate(rules, start=1)
    )


def watched_of(crew: Crew, agent: Agent) -> tuple[Watched, ...]:
    """List those of an agent's tools whose success a rule of the crew waits for."""
    waiting = [rule for each in crew.agents for rule in each.policy if rule.after in agent.tools]
    return tuple(dict.fromkeys(Watched(tool=rule.after or "", same=rule.same) for rule in waiting))
