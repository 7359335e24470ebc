"""A worker with scripted backends, on which workflow tests and the recorder of histories run sessions."""

import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from temporalio.client import Client

from activities.contracts.cards import ModelCard, PriceStep
from activities.contracts.crew import Crew
from activities.contracts.tool import Tool, tool_capabilities
from activities.crews.files import load_crews
from activities.crews.versions import CrewVersions
from activities.documents.artifacts import ArtifactStore
from activities.documents.library import DocumentLibrary
from activities.documents.locations import DocumentSources
from activities.models.protocol import Model
from activities.models.tiers import Models
from activities.opening.activity import SearchAttributesCheck, SessionActivities, record_session
from activities.opening.backlogs import BacklogActivities
from activities.queues import Kind, ToolQueues, tool_queues
from activities.tools.recall import RECALL, Recall
from activities.turn.activity import TurnActivities
from activities.turn.agent_conversations import ConversationStore
from activities.turn.apply_once import ActingCalls
from activities.turn.discarded_runs import RunningDuplicateActivities
from activities.turn.retry_policy import Pause, pause_after
from activities.turn.tool_use import ToolActivities
from chargehand.client import Chargehand
from chargehand.contracts import Capability, Limits, Report, SessionRequest, SessionState, Tier
from chargehand.record import Record
from chargehand.session import Session
from chargehand_plugins.verification.activity import VerificationActivities
from tests.in_memory_temporal import in_memory_client
from tests.recording_server import Saved
from tests.scripted_model import Held, Respond, ScriptedModel, ScriptedTool, found
from tests.waiting import until_state
from worker.parts import WorkerParts
from worker.settings import Settings, settings_type
from worker.workers import build_worker

_CREWS: Final = Path(__file__).resolve().parent.parent / "crews"
TOOLS: Final = (*("search", "read_page", "search_documents", "read_document", "query_data", "draw_chart", "run_code"),)
PRICES: Final = (PriceStep(input_usd_per_million=Decimal(1), output_usd_per_million=Decimal(5)),)


@cache
def _shipped_crews(known: tuple[tuple[str, frozenset[Capability]], ...]) -> dict[str, Crew]:
    return load_crews([_CREWS], dict(known))


@cache
def _settings(kind: type[Settings], _variables: frozenset[tuple[str, str]]) -> Settings:
    """Read the settings once in each environment, which takes an eighth of a session's time."""
    return kind()


def scripted_cards() -> dict[Tier, ModelCard]:
    return {tier: ModelCard(provider="scripted", name=f"scripted-{tier}", prices=PRICES) for tier in Tier}


@dataclass(frozen=True)
class Backends:
    """The parts of the activities of a test's worker."""

    model: Model
    tools: dict[str, Tool]
    cards: Mapping[Tier, ModelCard] = field(default_factory=scripted_cards)
    document_roots: tuple[Path, ...] = ()
    pause: Pause = pause_after
    fallback: Models | None = None
    own_crews: tuple[Path, ...] = ()
    request_checks: Sequence[Callable[[SessionRequest], Sequence[str]]] = ()
    added: Sequence[Callable[..., Any]] = ()
    """Activities of plug-ins."""
    parts: Sequence[Callable[[WorkerParts], Coroutine[Any, Any, None]]] = ()
    """Other additions by plug-ins."""
    tool_queues: ToolQueues = field(default_factory=ToolQueues)
    settings: Settings | None = None

    @cached_property
    def crews(self) -> dict[str, Crew]:
        """The crews of the repository, and those of a test."""
        known = tool_capabilities(self.tools)
        if self.own_crews:
            return load_crews([_CREWS, *self.own_crews], known)
        return _shipped_crews(tuple(known.items()))

    def activities(
        self, folder: Path, ceilings: Limits, closing: AsyncExitStack | None = None
    ) -> list[Callable[..., Any]]:
        """Build the production activities, which keep their files in a folder; `closing` closes them."""
        models = Models(self.model, self.cards, self.fallback)
        store = ArtifactStore(folder / "artifacts")
        library = DocumentLibrary(store, folder / "indexes", self.document_roots)
        parts = WorkerParts(
            self.settings or Settings(state_dir=folder),
            {},
            library,
            store,
            closing or AsyncExitStack(),
            self.own_crews,
            {},
        )
        for add in self.parts:
            with suppress(StopIteration):
                add(parts).send(None)  # none of them actually waits
        tools = {**self.tools, **parts.tools}
        conversations = ConversationStore(ArtifactStore(folder / "conversations"))
        crews = CrewVersions(self.crews, tools, self.cards, ArtifactStore(folder / "crews"))
        acting = ActingCalls(Record(folder))
        sessions = SessionActivities(
            crews,
            tools,
            ceilings,
            library=library,
            stores_payloads=True,
            request_checks=[*self.request_checks, *parts.request_checks],
            document_checks=parts.document_checks,
            listing=SearchAttributesCheck(),
            tool_queues=self.tool_queues,
            opening_steps=[*parts.opening_steps, partial(record_session, acting.record)],
        )
        uses = ToolActivities(crews, tools, acting, library)
        return [
            sessions.open_session,
            sessions.add_agents,
            TurnActivities(crews, models, uses, library, conversations, self.pause).take_turn,
            uses.use_tool,
            uses.check_call,
            acting.record_decision,
            RunningDuplicateActivities().await_duplicate,
            BacklogActivities().read_backlog,
            VerificationActivities(DocumentSources(store, self.document_roots)).verify_report,
            *self.added,
            *parts.activities,
        ]


@dataclass
class SessionEnvironment:
    """A running worker with its client and its fakes."""

    chargehand: Chargehand
    model: ScriptedModel
    tools: dict[str, ScriptedTool] = field(default_factory=dict[str, ScriptedTool])

    async def run(self, request: SessionRequest) -> Report:
        return await (await self.chargehand.start(request)).result()

    async def start(self, request: SessionRequest, until: SessionState | Held) -> Session:
        """Start a session and wait until it is in a state, or until a held turn is requested."""
        session = await self.chargehand.start(request)
        if isinstance(until, Held):
            await until.reached.wait()
        else:
            await until_state(session, until)
        return session


@asynccontextmanager
async def open_environment(
    client: Client | None,
    folder: Path,
    respond: Respond,
    *,
    ceilings: Limits | None = None,
    cached_workflows: int = 1_000,
    task_queue: str = "",
    acting: Sequence[str] = (),
    at_once: Sequence[str] = (),
    more_tools: Sequence[str] = (),
    queues: Mapping[Kind, int] | None = None,
    saved: Saved | None = None,
    **of_backends: Any,
) -> AsyncGenerator[SessionEnvironment]:
    """Run a worker whose model answers with a function, on its own task queue unless one is named.

    Without a client, the server is in memory: `tests.in_memory_temporal` says what it does not do.

    Without cached workflows, each workflow task replays from the start, which takes twice as long. Nondeterminism is
    found by `tests/simulation`, which replays every session, and by `tests/replay`.
    `acting` names additional tools that change something in the world; `at_once`, those that turns use before they end.
    `of_backends` are fields of `Backends`.
    """
    task_queue = task_queue or f"test-{uuid4().hex[:8]}"
    variables = frozenset(os.environ.items() - {("PYTEST_CURRENT_TEST", os.environ.get("PYTEST_CURRENT_TEST", ""))})
    settings = _settings(settings_type(), variables).model_copy(update={"state_dir": folder, "task_queue": task_queue})
    fakes = {
        name: ScriptedTool(
            name, found(f"{name}.md#L1", f"what {name} read"), acts=name in acting, at_once=name in at_once
        )
        for name in (*TOOLS, *acting, *more_tools)
    }
    model = ScriptedModel(respond)
    tools: dict[str, Tool] = {**fakes, RECALL: Recall(ArtifactStore(folder / "artifacts"))}
    own_queues = tool_queues(task_queue, queues or {})
    backends = Backends(model, tools, tool_queues=own_queues, settings=settings, **of_backends)
    async with AsyncExitStack() as closing:
        activities = backends.activities(folder, ceilings or settings.ceilings, closing)
        if client is None:
            in_memory = in_memory_client(activities, cached_workflows=cached_workflows, saved=saved)
            client = await closing.enter_async_context(in_memory)
        else:
            worker = build_worker(client, settings, activities, cached_workflows=cached_workflows)
            await closing.enter_async_context(worker)
        yield SessionEnvironment(Chargehand(client, task_queue), model, fakes)
