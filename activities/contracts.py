"""What workflows and activities exchange. Pure values; imported by both sides."""

from datetime import datetime, timedelta
from typing import Final, Literal

from pydantic import GetJsonSchemaHandler, JsonValue, field_serializer
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from activities.crews import CodeReviewRules, Routing, SlowQueue
from activities.queues import ToolQueues
from activities.tenant_contracts import AdmissionTerms
from chargehand.contracts import (
    Artifact,
    Capability,
    Contract,
    Dollars,
    EarlierSession,
    Effort,
    Finding,
    JsonSchema,
    Limits,
    Obligation,
    Outcome,
    SessionRequest,
    SessionState,
    Source,
    Strategy,
    Tier,
    TypedByPeople,
    Watched,
    left_out,
)
from chargehand.contracts.request import OutputTokens, Profile

# --- opening a session -------------------------------------------------------------------------------------------


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
    acting: tuple[str, ...] = left_out(())
    """Those of its tools that change something in the world."""
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
    sees_goal: bool = left_out(True)
    """Whether it is told the user's request, for context."""
    confidence_threshold: int = left_out(0)
    """An answer that is less sure than this counts as unsure."""
    slow: SlowQueue | None = left_out(None)
    """What is used instead of it while a task queue is slow."""
    prompt_bytes: int
    """UTF-8 bytes of everything in the agent's prompt that does not depend on the session."""


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
    """How requests get to agents without a plan."""
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


class SessionTerms(Contract):
    """What a request and its crew settle together."""

    profile: Profile = "standard"
    limits: Limits = Limits()
    """All of them."""
    approval: Literal["none", "plan"] = "none"
    review: Literal["auto", "always", "never"] = "auto"


class EarlierWork(Contract):
    """What a session knows of the one that it follows."""

    goal: str
    answer: str
    """Its answer, which cites `sources` by number."""
    confidence: int
    findings: tuple[Finding, ...]
    """The claims of its report that have sources."""
    sources: tuple[Source, ...]
    thread: tuple[EarlierSession, ...]
    """The sessions that this one follows, the first first."""
    documents: tuple[str, ...] = left_out(())
    """Documents that can be read beside those of the request."""
    reads: tuple[Capability, ...] = left_out(())
    """What kinds of text its report rests on."""


class SessionFacts(Contract):
    """What the world says about a request, read once at its start."""

    crew: CrewCard
    models: dict[Tier, ModelCard]
    terms: SessionTerms = SessionTerms()
    """Limits and manners of the session, the crew's defaults included."""
    ceilings: Limits
    """The most that the operator allows any session."""
    turns_queue: str | None = None
    """Task queue of model turns, if they have one of their own, whose rate is limited; None for the session's."""
    unread: tuple[str, ...] = left_out(())
    """A gap of the report for each document that cannot be read."""
    output_caps: OutputCaps = left_out(OutputCaps())
    """The most that a turn may write, by its purpose."""
    earlier: EarlierWork | None = left_out(None)
    """What is known of the session that this one follows."""
    is_listed: bool = left_out(False)
    """Whether the namespace has the search attributes of sessions."""
    stores_payloads: bool = left_out(False)
    """Whether large payloads are stored outside of histories, so that one of any size can be handed on."""
    tool_queues: ToolQueues = left_out(ToolQueues())
    """Task queues of tool calls, if they have their own."""
    weight: float = left_out(1.0)
    """The tenant's share of a backlog."""
    admission: AdmissionTerms | None = left_out(None)
    """Where the session waits to be admitted, if its tenant has limits."""

    @field_serializer("terms", "ceilings")
    def _write_whole(self, value: Contract) -> dict[str, JsonValue]:
        """Write what is usual, too: a replay reads what the session began with, whatever is usual by then."""
        return value.model_dump(mode="json")

    def model_of(self, agent: AgentCard) -> ModelCard:
        """Return the model that an agent uses."""
        return agent.model or self.models[agent.tier]


class OpenSessionRequest(Contract):
    session: str
    request: SessionRequest


class AgentDraft(Contract):
    """An agent as the model describes it."""

    name: str
    description: str
    prompt: str
    tools: list[str]
    tier: str


class AddAgentsRequest(Contract):
    """Give a session's crew agents that a model has described."""

    session: str
    request: SessionRequest
    crew: str
    """Reference of the crew that the session began with."""
    agents: tuple[AgentDraft, ...]


class AddedAgents(Contract):
    """The crew with those agents, or why it cannot have them."""

    crew: CrewCard | None = None
    problems: tuple[str, ...] = ()


# --- what was read ---------------------------------------------------------------------------------------------------

PASSAGE_GAP: Final = "\n[…]\n"
"""Stands between passages of one source that do not follow each other."""


# --- a model turn ------------------------------------------------------------------------------------------------


class ToolCall(Contract):
    """A tool that the model wants used."""

    id: str
    tool: str
    arguments: dict[str, JsonValue] = {}
    malformed: str = ""
    """Why the model's arguments could not be read; the tool is then not used and the model is told."""


class ToolResult(Contract):
    """What a tool gave back. It is data, never instruction."""

    call_id: str
    tool: str
    ok: bool = True
    output: dict[str, JsonValue] = {}
    """The tool's answer without the texts of `sources`; `error` in it says what went wrong if `ok` is false."""
    sources: tuple[Source, ...] = ()
    """What was read, with its words in `quote`."""
    artifacts: tuple[Artifact, ...] = ()
    """Files that the tool made; the model is told their names, the user gets them with the report."""
    may_be_repeated: bool = left_out(False)
    """Whether the call was not made, and making it again later is no repetition."""
    is_unknown: bool = left_out(False)
    """Whether nobody knows if the call, which changes something in the world, was applied."""


MOST_CALLS: Final = 8
"""Tool calls of one round that are made, notes aside; the model is told to ask for the others again."""


class Round(Contract):
    """One exchange within a subtask: what the model asked for and what the tools answered."""

    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    provider_items: tuple[JsonValue, ...] = ()
    """The provider's own form of the model's reply, given back to it verbatim in the next turn."""
    correction: str = ""
    """What was wrong with a reply that could not be used; shown to the model instead of tool results."""
    answer: str = left_out("")
    """An answer that was not the last word, since the person who asked had written meanwhile."""
    told: tuple[str, ...] = left_out(())
    """What the person who asked has written after it."""
    turns_left: int = left_out(0)
    """How many turns the agent has at most after this round; the model is told."""


class Note(Contract):
    """A claim that an agent keeps."""

    claim: str
    source: Source | None = left_out(None)
    """What it rests on, with the quoted words; None for a conclusion of the agent's own."""


class InputOutcome(Contract):
    """The outcome of a subtask, as others are given it."""

    id: str
    agent: str
    instruction: str
    outcome: Outcome


class SubtaskDraft(Contract):
    """A subtask as the model writes it."""

    id: str
    agent: str
    instruction: str
    depends_on: list[str]
    required: list[str]
    for_each: str
    """Id of the subtask that lists the items for which this one is a template; empty for any other subtask."""
    input: JsonValue = left_out(None)
    """JSON as text, or an object; only in crews that declare what their agents take."""
    tier: str | None = left_out(None)
    """Instead of the agent's own; only in crews whose planner sets limits, like the two below."""
    deadline: float | str | None = left_out(None)
    """Seconds for one attempt."""
    max_output_tokens: int | None = left_out(None)

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Leave out what only some crews have; see `activities.models.schemas`."""
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema)["properties"]
        for name in ("input", "tier", "deadline", "max_output_tokens"):
            del properties[name]
        return schema


class ContradictionDraft(Contract):
    about: str
    positions: list[str]
    resolution: str


# --- after a reset ----------------------------------------------------------------------------------------------------


class RunningDuplicateRequest(Contract):
    """Wait for a child that an earlier run has started."""

    workflow_id: str


class RunningDuplicate(Contract):
    """How a child of an earlier run ended; `duplicate` if it is no such child."""

    ended: Literal["completed", "failed", "cancelled", "terminated", "duplicate"]
    result: JsonValue = None
    """The child's own result, for `completed`."""
    message: str = ""


# --- routing ------------------------------------------------------------------------------------------------------


class BacklogRequest(Contract):
    """Read how long the oldest task of a task queue waits."""

    queue: str


class Backlog(Contract):
    """The backlog of a task queue."""

    age: timedelta
    """How long its oldest task waits."""


# --- a tool call -------------------------------------------------------------------------------------------------


class ToolRequest(Contract):
    """One use of one tool."""

    session: str
    step: str
    crew: str
    agent: str
    subtask: str = left_out("")
    """Id of the planned subtask, for a tool that acts: its attempts make a call once."""
    call: ToolCall
    outcome: InputOutcome | None = left_out(None)
    """What the tool `recall` reads."""
    known: tuple[str, ...] = left_out(())
    """Ids of the outcomes that the agent may recall."""
    private: tuple[str, ...] = ()
    """Private text that the agent was given, for an agent that reaches out: no address may carry any of it."""
    public: tuple[str, ...] = ()
    """Text that may go out although it stands in `private` too."""
    documents: tuple[str, ...] = ()


class CallCheck(Contract):
    """Arguments that a person wants a tool to be called with."""

    session: str
    tool: str
    arguments: dict[str, JsonValue]


class CallProblems(Contract):
    """What keeps a tool from being called with them, each by its path; nothing if it can be."""

    problems: tuple[str, ...] = ()


# --- webhooks ----------------------------------------------------------------------------------------------------


class WebhookNotice(Contract):
    """How a session ended, for a webhook."""

    id: str
    """Id of the message: the same however often it is sent."""
    url: str
    """The address, of the request."""
    session: str
    state: SessionState
    stop_reason: str = ""
    """Why it stopped, if it has a report."""
    error: str = ""
    """Type of the error, if it has none."""
    ended_at: datetime
