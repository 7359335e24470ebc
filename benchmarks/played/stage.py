"""Where the tasks are played: real workers with the vendors' SDKs, a scripted provider and a web, all on loopback."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch
from uuid import uuid4

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from activities.models.prices import price_card
from activities.tools.pages.fetch import Fetcher
from activities.turn.contracts import TurnRequest, TurnResult
from benchmarks.played.billing import prompt_tokens
from benchmarks.played.model import CompetentModel
from benchmarks.played.tasks import TASKS, Provider, Task
from benchmarks.played.web import Web, serve_web
from chargehand.client import Chargehand
from chargehand.contracts import Report
from tests.scripted_provider import ScriptedProvider, ScriptedRequest, Tokens
from worker.composition import compose
from worker.settings import Settings
from worker.workers import build_worker
from workflows.budget.estimates import purpose_of, worst_case

_SCHEDULED: Final = EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
_COMPLETED: Final = EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED
_CHILD: Final = EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED
_SECONDS: Final = 110


@dataclass(frozen=True)
class Turn:
    """A model turn as recorded in the histories."""

    stop: str
    reserved: Decimal
    needed: Decimal
    """The minimum for the turn to run: any reserve beyond it lets the model write more."""
    cost: Decimal
    must_answer: bool


@dataclass(frozen=True)
class Played:
    """A task and its result."""

    task: Task
    report: Report
    turns: tuple[Turn, ...]
    requests: tuple[ScriptedRequest, ...]
    model: CompetentModel
    web: Web
    reads: tuple[str, ...]

    @property
    def first_turns(self) -> list[tuple[str, Tokens]]:
        """The system text and the bill of each subtask's first turn."""
        billed = zip(self.requests, self.model.replies, strict=True)
        return [
            (each.system, reply.tokens) for each, reply in billed if each.answer.startswith("Work") and not each.rounds
        ]

    @cached_property
    def pages(self) -> tuple[str, ...]:
        """The URLs read, without repetitions, in reading order."""
        own = {self.web.url(page) for page in self.task.pages}
        return tuple(dict.fromkeys(url for url in self.reads if url in own))

    def text_of(self, ref: str) -> str:
        """Return the whole text of the page or document that a ref names."""
        name = ref.partition("#")[0]
        return self.task.documents.get(name) or self.web.page_at(name).text


@dataclass
class Stage:
    """Plays tasks, one at a time."""

    client: Client
    web: Web
    provider: ScriptedProvider
    folder: Path
    queues: dict[Provider, str]
    _played: dict[str, Played] = field(default_factory=dict[str, Played])

    async def play(self, task: Task, seconds: float = 0.0) -> Played:
        """Play a task once, up to its report; each reply's first token takes the given time."""
        key = f"{task.goal} {task.limits} {task.provider} {seconds}"
        if key not in self._played:
            self._played[key] = await self._play(task, CompetentModel(seconds=seconds))
        return self._played[key]

    async def _play(self, task: Task, model: CompetentModel) -> Played:
        self.provider.respond, self.provider.count = model, prompt_tokens
        begun, read = len(self.provider.exchanges), len(self.web.reads)
        chargehand = Chargehand(self.client, self.queues[task.provider])
        session = await chargehand.start(task.request(self._documents(task)))
        report = await asyncio.wait_for(session.result(), _SECONDS)
        return Played(
            task=task,
            report=report,
            turns=tuple(await self._turns(session.id, task.provider)),
            requests=tuple(self.provider.requests[begun:]),
            model=model,
            web=self.web,
            reads=tuple(self.web.reads[read:]),
        )

    def _documents(self, task: Task) -> tuple[str, ...]:
        folder = self.folder / "documents" / uuid4().hex[:8]
        folder.mkdir(parents=True)
        for name, text in task.documents.items():
            (folder / name).write_text(text)
        return tuple(f"file:{folder / name}" for name in task.documents)

    async def _turns(self, workflow_id: str, provider: str) -> list[Turn]:
        """Read the model turns of a workflow and all its descendants from the histories."""
        history = await self.client.get_workflow_handle(workflow_id).fetch_history()
        asked: dict[int, TurnRequest] = {}
        turns: list[Turn] = []
        for event in history.events:
            if event.event_type == _CHILD:
                child = event.start_child_workflow_execution_initiated_event_attributes.workflow_id
                turns += await self._turns(child, provider)
            if event.event_type == _SCHEDULED:
                scheduled = event.activity_task_scheduled_event_attributes
                if scheduled.activity_type.name == "take_turn":
                    asked[event.event_id] = await self._decoded(scheduled.input.payloads, TurnRequest)
            if event.event_type == _COMPLETED:
                completed = event.activity_task_completed_event_attributes
                if request := asked.get(completed.scheduled_event_id):
                    result = await self._decoded(completed.result.payloads, TurnResult)
                    turns.append(_turn(provider, request, result))
        return turns

    async def _decoded(self, payloads: Any, kind: Any) -> Any:
        (value,) = await self.client.data_converter.decode(payloads, [kind])
        return value


def _turn(provider: str, request: TurnRequest, result: TurnResult) -> Turn:
    card = price_card(provider, result.model)
    assert card is not None
    least = min(purpose_of(request.task).least_output, request.max_output_tokens)
    return Turn(
        stop=result.stop,
        reserved=worst_case(card, request.max_input_tokens, request.max_output_tokens).usd,
        needed=worst_case(card, request.max_input_tokens, least).usd,
        cost=result.usage.cost_usd,
        must_answer=bool(getattr(request.task, "must_answer", False)),
    )


@asynccontextmanager
async def open_stage(client: Client, folder: Path) -> AsyncGenerator[Stage]:
    """Serve the web and the provider, and run a worker for each vendor's SDK."""
    pages = tuple(page for task in TASKS.values() for page in task.pages)
    documents = folder / "documents"
    documents.mkdir()
    async with AsyncExitStack() as closing:
        web = closing.enter_context(serve_web(pages))
        closing.enter_context(web.resolvable(asyncio.get_running_loop()))
        # The operator opens these hosts, but they stand for the public web.
        closing.enter_context(patch.object(Fetcher, "is_internal", return_value=False))
        provider = await closing.enter_async_context(ScriptedProvider())
        stage = Stage(client, web, provider, folder, {})
        keys: dict[Provider, dict[str, str]] = {
            "anthropic": {"anthropic_api_key": "test", "anthropic_base_url": provider.base_url},
            "openai": {"provider": "openai", "openai_api_key": "test", "openai_base_url": provider.openai_url},
        }
        for name, own in keys.items():
            settings = Settings.model_validate(
                {
                    "task_queue": f"played-{name}-{uuid4().hex[:8]}",
                    "state_dir": folder / name,
                    "document_roots": [documents],
                    "page_hosts": web.hosts,
                    "tavily_api_key": "test",
                    "tavily_base_url": f"http://127.0.0.1:{web.port}",
                    **own,
                }
            )
            activities = await compose(settings, os.environ, closing)
            await closing.enter_async_context(build_worker(client, settings, activities))
            stage.queues[name] = settings.task_queue
        yield stage
