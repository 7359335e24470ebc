"""The boundary to a model: what a provider is asked and what it answers, whoever it is."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol

from pydantic import BaseModel, ConfigDict, JsonValue

from activities.contracts import ToolCall
from activities.documents.catalog import Catalog
from activities.turn_kinds.plan import PlanTask
from activities.turn_kinds.protocol import Message, TurnAnswer
from activities.turn_kinds.registry import Task
from activities.turn_kinds.review import ReviewTask
from chargehand.contracts import Contract, Usage


class ToolSpec(Contract):
    """A tool as a model sees it."""

    name: str
    description: str
    parameters: dict[str, JsonValue]
    """JSON Schema of the arguments: an object whose properties are all required, with no additional ones."""


@dataclass(frozen=True)
class ProviderJob:
    """Work that a provider does by itself and gives out by an id, as an attempt knows it."""

    id: str
    """Of the job that an earlier attempt began; empty if none did."""
    remember: Callable[[str], Awaitable[None]]
    """Keeps a new job's id; on return the next attempt is sure to find it."""
    is_unwanted: Callable[[], Awaitable[bool]]
    """Whether, now that the call is cancelled, no other attempt will ask after the job."""
    patience_seconds: float | None = None
    """How long the caller waits before the job is to be called off; None for as long as it lives."""
    afterwards: list[Callable[[], Awaitable[None]]] = field(default_factory=list[Callable[[], Awaitable[None]]])
    """To be done once what came of the job is in safety."""


class ModelCall(BaseModel):
    """One request to a model: the typed task, and the same thing rendered as a prompt."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    model: str
    """The provider's name of the model."""
    task: Task
    agent: str
    crew_agents: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    """(name, what it does, tools) of the agents that a plan may name."""
    catalog: Catalog
    system: str
    """The stable part of the prompt; the same for every turn of an agent, so that providers can cache it."""
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    """The agent's tools, always the same. A task that `must_answer` may use none of them now."""
    answer_type: type[TurnAnswer]
    """The model's final reply must be JSON of this shape."""
    max_output_tokens: int
    timeout_seconds: float
    idempotency_key: str
    """Names the call across attempts; sent along where a provider takes one."""
    urgency: Literal["now", "batch"] = "now"
    """`batch`: the provider may take hours, if it then charges less; without such an offer it answers now."""
    job: ProviderJob | None = None
    """Where a provider's job for this call is kept, for those that work by jobs; None if the caller keeps none."""

    @property
    def agent_names(self) -> tuple[str, ...]:
        """Names that a subtask in the answer may give its work to."""
        nested = ("supervisor",) if isinstance(self.task, PlanTask | ReviewTask) and self.task.may_nest else ()
        return (*(name for name, _, _ in self.crew_agents), *nested)


class ModelReply(Contract):
    """What a provider answered, normalised."""

    stop: Literal["answer", "tools", "truncated", "refused", "empty"]
    text: str = ""
    """The final reply, JSON of the asked shape if the model obeyed."""
    tool_calls: tuple[ToolCall, ...] = ()
    provider_items: tuple[JsonValue, ...] = ()
    model: str
    """The model that really answered, as the provider names it."""
    provider: str
    usage: Usage | None = None
    """Tokens and cost; None if the provider did not say, and the call is then charged at its reserve."""


class Model(Protocol):
    """A provider's models behind one call; what can go wrong is raised as `activities.models.failures` has it."""

    async def complete(self, call: ModelCall) -> ModelReply: ...
