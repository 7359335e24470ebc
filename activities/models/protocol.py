"""The boundary to a model: one request and one reply, the same for every provider."""

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict, JsonValue
from pydantic_core import to_json

from activities.contracts.crew import SubtaskField
from activities.contracts.rounds import ToolCall
from activities.contracts.tool import ToolSpec
from activities.documents.catalog import Catalog
from activities.models.schemas import Schema, answer_schema, with_data
from activities.turn_kinds.plan import PlanTask, ReviewTask
from activities.turn_kinds.protocol import Message, TurnAnswer
from activities.turn_kinds.registry import Task
from activities.turn_kinds.work import WorkTask
from chargehand.contracts import Contract, Effort, JsonSchema, Usage

LONGEST_TEXT: Final = 200_000
"""More characters than the output tokens of any turn allow; a longer reply is not parsed."""


@dataclass(frozen=True)
class ProviderJob:
    """A provider's asynchronous job for a call, as one attempt of the activity knows it."""

    id: str
    """The id of a job that an earlier attempt began; empty if none did."""
    remember: Callable[[str], Awaitable[None]]
    """Journals a new job's id; once it returns, the next attempt will find the id."""
    is_unwanted: Callable[[], Awaitable[bool]]
    """Whether a cancelled call has no later attempt that would use the job."""
    patience_seconds: float | None = None
    """How long the caller waits before it cancels the job; None for as long as the activity lives."""
    afterwards: list[Callable[[], Awaitable[None]]] = field(default_factory=list[Callable[[], Awaitable[None]]])
    """Clean-up to run once the job's result is journalled."""


class ModelCall(BaseModel):
    """One request to a model: the typed task, and the same thing rendered as a prompt."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    model: str
    """The provider's name of the model."""
    task: Task
    agent: str
    crew_agents: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    """(name, description, tools) of the agents that a plan may name."""
    catalog: Catalog
    system: str
    """The stable part of the prompt; the same for every turn of an agent, so that providers can cache it."""
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    """The agent's tools, the same in every turn; see `may_use_tools`."""
    answer_type: type[TurnAnswer]
    """The model's final reply must be JSON of this shape."""
    subtask_fields: tuple[SubtaskField, ...] = ()
    """What a subtask in the reply has in this crew beside what it has in all."""
    data_schema: JsonSchema | None = None
    """The shape of the reply's `data`, if it has any."""
    max_output_tokens: int
    effort: Effort | None = None
    """How hard the model thinks; None leaves it to the model."""
    temperature: float | None = None
    """Sampling temperature, for models that take one in turns without an effort. None leaves it to the model."""
    timeout_seconds: float
    idempotency_key: str
    """Names the call across attempts; sent to providers that accept one."""
    urgency: Literal["now", "batch"] = "now"
    """`batch` allows hours for a lower price; providers without batches answer now."""
    live: Callable[[Callable[[], str]], None] | None = None
    """Called at each event of a stream, with what returns the text so far; None if the reply is not followed."""
    job: ProviderJob | None = None
    """Journals the provider's job for this call; None if the caller does not allow jobs."""
    on_first_token: Callable[[], None] | None = None
    """Called when the provider begins to answer, at least once if it streams; None if that is of no interest."""
    on_headers: Callable[[Mapping[str, str]], None] | None = None
    """Called with the headers of the provider's reply, if it is one over HTTP."""

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

        Where a provider can forbid their use, forbidden tools are still listed: the beginning of the prompt then stays
        the same, and its cache holds.
        """
        return bool(self.tools) and not (isinstance(self.task, WorkTask) and self.task.must_answer)

    @property
    def offered_tools(self) -> frozenset[str]:
        return frozenset(tool.name for tool in self.tools) if self.may_use_tools else frozenset()

    @property
    def headers(self) -> dict[str, str]:
        """The HTTP headers that name the call across attempts, for providers and gateways that honour them."""
        key = self.idempotency_key
        fits = key.isascii() and key.isprintable() and len(key) <= 200
        return {"Idempotency-Key": key if fits else hashlib.sha256(key.encode()).hexdigest()}

    @property
    def cache_key(self) -> str:
        """Names the stable beginning of the prompt, so that a provider routes equal ones to the same machine."""
        return hashlib.sha256(to_json([self.model, self.system, self.tools])).hexdigest()[:32]

    @property
    def shared_prefix(self) -> bytes:
        """All that stands before the last breakpoint up to which other calls are the same; empty if none is."""
        first = self.messages[0]
        shared = first.text[: first.shared]
        return to_json([self.model, self.system, self.tools, self.answer_schema, shared]) if shared else b""


class Content(Contract):
    """What a reply says, the same for every provider."""

    stop: Literal["answer", "tools", "truncated", "refused", "empty", "malformed"]
    text: str = ""
    """The final reply: JSON of `answer_type` if the model obeyed; at most one character more than `LONGEST_TEXT`."""
    problem: str = ""
    """Why a malformed reply cannot be used."""
    tool_calls: tuple[ToolCall, ...] = ()
    provider_items: tuple[JsonValue, ...] = ()


class ModelReply(Content):
    """What a provider answered, normalised."""

    model: str
    """The model that answered, as the provider names it."""
    provider: str
    usage: Usage | None = None
    """Tokens and cost; None if the provider did not report them, and the call is then charged at its reserve."""


class Model(Protocol):
    """A provider's models; a failure of the provider is raised as `activities.models.failures.ProviderError`."""

    async def complete(self, call: ModelCall) -> ModelReply: ...


@runtime_checkable
class CachesPrompts(Protocol):
    """A model whose provider reads for less what an earlier prompt began with."""

    @property
    def least_cached_tokens(self) -> int:
        """The shortest beginning that it keeps."""
        ...


@runtime_checkable
class CountsInput(Protocol):
    """A model whose provider counts the tokens of a prompt before it is sent, free of charge."""

    async def count_input(self, call: ModelCall) -> int:
        """Count the input tokens of a call; a failure of the provider is raised as by `Model.complete`."""
        ...
