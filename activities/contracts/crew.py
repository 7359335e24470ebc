"""Crews as data: the content of crew files. `crews/files.py` reads and validates them."""

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
from chargehand.contracts.base import Form, Name
from chargehand.contracts.durations import UpToADay
from chargehand.contracts.limits import Profile, Rounds, Words

Prose = Annotated[str, StringConstraints(strip_whitespace=True, min_length=10, max_length=8_000)]
Description = Annotated[str, StringConstraints(strip_whitespace=True, min_length=10, max_length=500)]


Pattern = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
"""A pattern for a whole request, ignoring case; `*` matches any text, as in `*invoice*`."""


SubtaskField = Literal["input", "tier", "deadline", "max_output_tokens"]
"""Subtask fields that only some crews allow planners to set."""


class SlowQueue(TypedByPeople):
    """The replacement for an agent while the oldest task of a queue has been waiting too long."""

    after: UpToADay
    """Maximum wait of that task: seconds, or ISO 8601 such as `PT30S`."""
    queue: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    """The Temporal task queue to check; if absent, the queue of the session's model turns."""
    agent: Name | None = None
    """The agent that then gets the subtask."""
    tier: Tier | None = None
    """The subtask's model tier in that case."""

    @model_validator(mode="after")
    def _has_one_backup(self) -> Self:
        if (self.agent is None) == (self.tier is None):
            raise ValueError("name either a backup agent or a backup tier")
        return self


class RouteRule(TypedByPeople):
    """A rule that routes requests to agents without a plan."""

    match: Annotated[tuple[Pattern, ...], Field(min_length=1, max_length=50)]
    """Patterns, one of which must match."""
    agents: Annotated[tuple[Name, ...], Field(min_length=1, max_length=10)]
    """The agents, which work in parallel."""
    then: Name | None = None
    """An agent that works with their outcomes once all have ended."""
    instruction: Annotated[str, StringConstraints(strip_whitespace=True, max_length=2_000)] = ""
    """An instruction in addition to the request; usually empty."""


class Routing(TypedByPeople):
    """Routing of requests to agents without a plan."""

    rules: Annotated[tuple[RouteRule, ...], Field(max_length=50)] = ()
    """Checked in order, without a model; the first match decides."""
    otherwise: Literal["plan", "model", "fallback"] = "plan"
    """Handling of other requests: they are planned, a model chooses one or two agents, or the fallback gets them."""
    fallback: Name | None = None
    """The agent for requests whose route cannot be used."""


class CustomAgents(TypedByPeople):
    """The tools and limits for agents that a planner designs itself."""

    tools: Annotated[tuple[Name, ...], Field(min_length=1, max_length=20)]
    """Tools that such agents may have; none with side effects."""
    most: Annotated[int, Field(strict=True, ge=1, le=7)] = 5
    """Maximum agents of one session."""


class Agent(TypedByPeople):
    """A specialist: one prompt, its own tools, a model tier."""

    name: Name
    description: Description
    """What it is good for; shown to the planner."""
    prompt: Prose
    """How the agent works, and what makes a good answer."""
    tools: tuple[Name, ...] = ()
    """Its tools. Agents may share a tool that only reads; one with side effects belongs to a single agent."""
    capabilities: tuple[Capability, ...] = ()
    """What the tools can let the agent do, depending on their configuration; never all three at once."""
    approve: tuple[Name, ...] = ()
    """Its tools whose every call needs a person's approval, in addition to those that always do."""
    policy: Annotated[tuple[ToolRule, ...], Field(max_length=100)] = ()
    """Rules for its tools. If there are any, calls of tools without a rule are denied."""
    tier: Tier = Tier.MEDIUM
    model: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)] | None = None
    """The provider's name for the agent's model, which replaces its tier's model; its price must be known."""
    effort: Effort | None = None
    """The reasoning effort, on models that support it; if absent, the crew's."""
    reviews: bool = False
    """Whether it reviews its inputs and answers with issues: severity, location, problem, suggestion.
    """
    length_words: Words = 600
    """Maximum words of its answer unless the request sets a length; 2.5 times as many in the profile `deep`."""
    cites: bool = True
    """Whether its text cites the source of each statement; not for text that is sent unchanged."""
    fallback: Name | None = None
    """Agent to try if this one fails."""
    rounds: Rounds | None = None
    """Maximum rounds of model turn and tool calls, if less than the request's `max_rounds`."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    """Sampling temperature, on models that support it."""
    input: JsonSchema | None = None
    """JSON Schema of an object that subtasks pass to it as data, in addition to the instruction."""
    output: JsonSchema | None = None
    """JSON Schema of its outcome's data, in addition to the text; dependent agents get both."""
    sees_goal: bool = True
    """Whether it reads the user's request for context, in addition to its instruction and inputs."""
    confidence_threshold: Confidence | None = None
    """Replaces the crew's threshold for this agent."""
    slow: SlowQueue | None = None
    """Its replacement while a task queue is slow."""


class CodeReviewRules(TypedByPeople):
    """How the findings of a code review crew become its report."""

    checker: Name
    """The agent that re-examines every finding; only confirmed ones are reported."""
    threshold: Confidence = 80
    """Minimum confidence of reported findings."""
    added_lines_only: bool = True
    """Whether findings must be about lines added by the change."""


class Crew(TypedByPeople):
    """A supervisor's guidance and its agents."""

    name: Name
    version: (
        Annotated[
            str,
            Form(r"^[A-Za-z0-9._+-]{1,40}$", "must be a version such as 1.2: letters, digits and . _ + -, 40 at most"),
        ]
        | None
    ) = None
    """The author's version, such as `1.2`; reports show it with a digest of the content."""
    description: Description
    example: Annotated[str, StringConstraints(strip_whitespace=True, max_length=500)] = ""
    """A request for this crew, shown where people choose one."""
    guidance: Prose
    """How to plan with these agents."""
    tier: Tier = Tier.MEDIUM
    """Model tier of the supervisor's own turns."""
    effort: Effort | None = None
    """Replaces the default effort: high for plans and reports, medium for agents. Small decisions stay at low."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    """Sampling temperature of the supervisor's turns, on models that support it; if absent, by kind of turn.
    """
    policy_mode: PolicyMode = "enforce"
    """`report` allows calls that violate the agents' policies, and records them in the trace."""
    profile: Profile | None = None
    """Profile of requests that do not set one; `standard` if absent."""
    limits: Limits = Limits()
    """Limits for requests that set neither a profile nor this limit; absent limits come from the profile."""
    approval: Literal["none", "plan"] = "none"
    """`plan` requires a person's approval of every plan, whatever the request says."""
    review: Literal["auto", "always", "never"] = "auto"
    """Review for requests with `auto`."""
    strategy: Strategy | None = None
    """How outcomes become the report, overriding the planner."""
    confidence_threshold: Confidence = 0
    """Answers below this confidence are retried on a stronger tier, and judged."""
    subtask_limits: bool = False
    """Whether the planner may set the model tier, time and output tokens of a subtask, within the session's limits."""
    nested: Name | None = None
    """The crew of nested sessions; if absent, this crew."""
    routing: Routing = Routing()
    """Routing of requests to agents without a plan."""
    custom: CustomAgents | None = None
    """Has a model design agents for each request before planning; if absent, there are only the agents below."""
    code_review: CodeReviewRules | None = None
    """For a code review crew: the report consists of checked findings and is not written by a model."""
    disclaimer: Annotated[str, StringConstraints(strip_whitespace=True, max_length=1_000)] = ""
    """Statement about the limits of such work in every report, such as that it is not legal advice."""
    mcp: Annotated[tuple[McpDeclaration, ...], Field(max_length=10)] = ()
    """MCP servers whose tools the agents may have."""
    agents: Annotated[tuple[Agent, ...], Field(min_length=1, max_length=20)]

    @property
    def subtask_fields(self) -> tuple[SubtaskField, ...]:
        """Additional subtask fields that planners of this crew may set."""
        data: tuple[SubtaskField, ...] = ("input",) if any(agent.input is not None for agent in self.agents) else ()
        return (*data, "tier", "deadline", "max_output_tokens") if self.subtask_limits else data

    def agent(self, name: str) -> Agent | None:
        return next((agent for agent in self.agents if agent.name == name), None)


def obligations_of(crew: Crew, agent: Agent) -> tuple[Obligation, ...]:
    """List the obligations of an agent's policy on its tools; empty without a policy."""
    if not agent.policy:
        return ()
    ruled = {rule.tool for rule in agent.policy}
    rules = [(rule.tool, rule) for rule in agent.policy] + [(tool, None) for tool in agent.tools if tool not in ruled]
    return tuple(
        Obligation(key=f"{crew.name}/{agent.name}/{number}", tool=tool, rule=rule, mode=crew.policy_mode)
        for number, (tool, rule) in enumerate(rules, start=1)
    )


def watched_of(crew: Crew, agent: Agent) -> tuple[Watched, ...]:
    """List an agent's tools on whose success a rule of the crew depends."""
    waiting = [rule for each in crew.agents for rule in each.policy if rule.after in agent.tools]
    return tuple(dict.fromkeys(Watched(tool=rule.after or "", same=rule.same) for rule in waiting))
