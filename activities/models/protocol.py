"""The boundary to a model: one request and one reply, the same for every provider."""

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict, JsonValue
from pydantic_core import to_json

from activities.contracts.crew import SubtaskField
from activities.contracts.rounds import ToolCall, TurnStop
from activities.contracts.tool import ToolSpec
from activities.documents.catalog import Catalog
from activities.models.schemas import Schema, answer_schema, with_data
from activities.turn_kinds.plan import PlanTask, ReviewTask
from activities.turn_kinds.protocol import Message, TurnAnswer
from activities.turn_kinds.registry import Task
from activities.turn_kinds.work import WorkTask
from chargehand.contracts import Contract, Effort, JsonSchema, Usage

LONGEST_TEXT: Final = 200_000
"""Above the output of any turn; longer replies are not parsed."""


@dataclass(frozen=True)
class ProviderJob:
    """A provider's asynchronous job for a call, as seen by one attempt of the activity."""

    id: str
    """Id of the job that an earlier attempt started; empty if none."""
    remember: Callable[[str], Awaitable[None]]
    """Journals a new job's id; once it returns, the next attempt can find the id."""
    is_unwanted: Callable[[], Awaitable[bool]]
    """Whether no later attempt would use the job of a cancelled call."""
    patience_seconds: float | None = None
    """Time after which the caller cancels the job; None if it waits as long as the activity lives."""
    afterwards: list[Callable[[], Awaitable[None]]] = field(default_factory=list[Callable[[], Awaitable[None]]])
    """Clean-up to run once the job's result is journalled."""


class ModelCall(BaseModel):
    """One request to a model: the typed task and its rendered prompt."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    model: str
    """The provider's name of the model."""
    task: Task
    agent: str
    crew_agents: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    """(name, description, tools) of the agents that a plan may name."""
    catalog: Catalog
    system: str
    """The stable part of the prompt, identical in every turn of an agent, so that providers can cache it."""
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    """The agent's tools, the same in every turn; see `may_use_tools`."""
    answer_type: type[TurnAnswer]
    """The type of the model's final reply, which is JSON."""
    subtask_fields: tuple[SubtaskField, ...] = ()
    """Additional fields of subtasks in this crew."""
    data_schema: JsonSchema | None = None
    """JSON Schema of the reply's `data`, if it has any."""
    max_output_tokens: int
    effort: Effort | None = None
    """Reasoning effort; None for the model's default."""
    temperature: float | None = None
    """Sampling temperature, for models that support it in turns without an effort; None for the model's default."""
    timeout_seconds: float
    idempotency_key: str
    """Identifies the call across attempts; sent to providers that accept such a key."""
    urgency: Literal["now", "batch"] = "now"
    """`batch` accepts hours of delay for a lower price; providers without batches answer immediately."""
    live: Callable[[Callable[[], str]], None] | None = None
    """Called at each stream event with a function that returns the text so far; None if not followed."""
    job: ProviderJob | None = None
    """Journals the provider's job for this call; None if the caller does not allow jobs."""
    on_first_token: Callable[[], None] | None = None
    """Called when the provider starts to answer, at least once if it streams; None if not needed."""
    on_headers: Callable[[Mapping[str, str]], None] | None = None
    """Called with the headers of the provider's HTTP response."""

    @property
    def agent_names(self) -> tuple[str, ...]:
        nested = ("supervisor",) if isinstance(self.task, PlanTask | ReviewTask) and self.task.may_nest else ()
        return (*(name for name, _, _ in self.crew_agents), *nested)

    @property
    def answer_schema(self) -> Schema:
        """The JSON Schema of the final reply. Do not modify it."""
        schema = answer_schema(self.answer_type, self.agent_names, self.subtask_fields)
        if self.data_schema is None:
            return schema
        return with_data(schema, self.data_schema)

    @property
    def may_use_tools(self) -> bool:
        """Whether the model may call tools in this turn.

        If a provider can forbid the use of tools, forbidden ones are still listed: the beginning of the prompt then
        stays the same, and the cache remains valid.
        """
        return bool(self.tools) and not (isinstance(self.task, WorkTask) and self.task.must_answer)

    @property
    def offered_tools(self) -> frozenset[str]:
        return frozenset(tool.name for tool in self.tools) if self.may_use_tools else frozenset()

    @property
    def headers(self) -> dict[str, str]:
        """HTTP headers that identify the call across attempts, for providers and gateways that use them."""
        key = self.idempotency_key
        fits = key.isascii() and key.isprintable() and len(key) <= 200
        return {"Idempotency-Key": key if fits else hashlib.sha256(key.encode()).hexdigest()}

    @property
    def cache_key(self) -> str:
        """Identifies the stable beginning of the prompt, so that a provider routes equal ones to the same machine."""
        return hashlib.sha256(to_json([self.model, self.system, self.tools])).hexdigest()[:32]

    @property
    def shared_prefix(self) -> bytes:
        """The prompt up to the last breakpoint that other calls share; empty if there is none."""
        first = self.messages[0]
        shared = first.text[: first.shared]
        return to_json([self.model, self.system, self.tools, self.answer_schema, shared]) if shared else b""


class Content(Contract):
    """The content of a reply, the same for every provider."""

    stop: TurnStop
    text: str = ""
    """The final reply: JSON of `answer_type` if the model complied; at most one character above `LONGEST_TEXT`."""
    problem: str = ""
    """Why a malformed reply is unusable."""
    tool_calls: tuple[ToolCall, ...] = ()
    provider_items: tuple[JsonValue, ...] = ()


class ModelReply(Content):
    """A provider's normalised reply."""

    model: str
    """The provider's name for the model that answered."""
    provider: str
    usage: Usage | None = None
    """Tokens and cost; None if not reported, in which case the call is charged at its reservation."""


@runtime_checkable
class Model(Protocol):
    """A provider's models; a failure of the provider is raised as `activities.models.failures.ProviderError`."""

    async def complete(self, call: ModelCall) -> ModelReply: ...


@runtime_checkable
class CachesPrompts(Protocol):
    """A model whose provider caches the beginnings of prompts at a lower price."""

    @property
    def least_cached_tokens(self) -> int:
        """Minimum tokens of a cached prefix."""
        ...


@runtime_checkable
class CountsInput(Protocol):
    """A model whose provider counts the tokens of a prompt before the call, free of charge."""

    async def count_input(self, call: ModelCall) -> int:
        """Count the input tokens of a call; provider failures are raised as in `Model.complete`."""
        ...
