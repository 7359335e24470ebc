"""One turn on a real server, over a real wire: a workflow that calls `take_turn` and nothing else."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from uuid import uuid4

import pytest
from pydantic import JsonValue
from temporalio import workflow
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from activities.contracts.cards import ModelCard, PriceStep
from activities.contracts.tool import Tool, tool_capabilities
from activities.crews.files import load_crews
from activities.crews.versions import CrewVersions
from activities.documents.artifacts import ArtifactStore
from activities.documents.library import DocumentLibrary
from activities.heartbeat import BEAT_SECONDS, HEARTBEAT_TIMEOUT
from activities.models.protocol import Model
from activities.models.tiers import Models
from activities.turn.activity import TurnActivities
from activities.turn.agent_conversations import ConversationStore
from activities.turn.apply_once import ActingCalls
from activities.turn.contracts import TurnRequest, TurnResult
from activities.turn.retry_policy import pause_after
from activities.turn.tool_use import ToolActivities
from activities.turn_kinds.work import WorkTask
from chargehand.contracts import Contract, Tier
from chargehand.record import Record
from chargehand.wire import ErrorType, WorkflowType
from tests.activities.models.calls import MODELS, Wire, a_provider
from tests.crew_files import READS_THE_WEB, crew_folder
from tests.scripted_model import ScriptedTool, found
from tests.scripted_provider import Respond, ScriptedProvider
from worker.heartbeat_sender import Heartbeats
from worker.slots import PacedSlots
from workflows import options

HURRY = 20
QUICK = RetryPolicy(
    initial_interval=options.TURN_RETRIES.initial_interval / 20,
    backoff_coefficient=options.TURN_RETRIES.backoff_coefficient,
    maximum_attempts=0,
)
"""The real retry policy at twenty times the speed."""


class Asked(Contract):
    """What the workflow calls, and how."""

    turn: TurnRequest
    heartbeat: timedelta = HEARTBEAT_TIMEOUT
    patience: timedelta = timedelta(seconds=30)
    time: timedelta | None = None
    """Time limit for all attempts together."""
    queue: str | None = None
    """Task queue where `take_turn` is served; None for the workflow's own."""
    repetitions: int = 1
    """Maximum number of calls; as in sessions, another follows an attempt that was lost."""


@workflow.defn(name=WorkflowType.SUPERVISOR)
class OneTurn:
    """Calls `take_turn` as sessions do."""

    @workflow.run
    async def run(self, asked: Asked) -> TurnResult:
        for left in reversed(range(asked.repetitions)):
            try:
                return await workflow.execute_activity_method(
                    TurnActivities.take_turn,
                    asked.turn,
                    task_queue=asked.queue,
                    start_to_close_timeout=asked.patience,
                    schedule_to_close_timeout=asked.time,
                    heartbeat_timeout=asked.heartbeat,
                    retry_policy=QUICK,
                )
            except ActivityError as error:
                lost = isinstance(error.cause, ApplicationError) and error.cause.type == ErrorType.ATTEMPT_LOST
                if not (left and lost):
                    raise
        raise AssertionError("unreachable")


@dataclass
class Harness:
    """A worker that takes turns, and the way to ask it."""

    client: Client
    task_queue: str

    async def start(self, asked: Asked) -> WorkflowHandle[OneTurn, TurnResult]:
        return await self.client.start_workflow(
            OneTurn.run, asked, id=f"turn-{uuid4().hex[:8]}", task_queue=self.task_queue
        )

    async def take(self, asked: Asked) -> TurnResult:
        return await (await self.start(asked)).result()

    async def fail(self, asked: Asked) -> ApplicationError:
        """Take a turn that fails; return the error that the workflow receives."""
        return await failure_of(await self.start(asked))


async def failure_of(turn: WorkflowHandle[OneTurn, TurnResult]) -> ApplicationError:
    """Wait for a turn that fails; return the error that the workflow receives."""
    with pytest.raises(WorkflowFailureError) as caught:
        await turn.result()
    activity_error = caught.value.cause
    assert isinstance(activity_error, ActivityError)
    assert isinstance(activity_error.cause, ApplicationError)
    return activity_error.cause


async def has_failed(turn: WorkflowHandle[OneTurn, TurnResult], times: int) -> bool:
    """Whether the server has given up this many attempts at a turn."""
    pending = (await turn.describe()).raw_description.pending_activities
    return bool(pending) and pending[0].attempt > times


def a_turn(provider_failures: int = 0, **more: JsonValue) -> Asked:
    task = WorkTask(goal="Plan a trip", instruction="When does the ferry leave?")
    place = {"session": "a-session", "step": "turn-1", "today": "2026-11-22", "crew": "harness", "agent": "clerk"}
    room = {"max_input_tokens": 100_000, "max_output_tokens": 500, "provider_failures": provider_failures}
    return Asked(turn=TurnRequest.model_validate(place | room | {"tier": Tier.SMALL, "task": task} | more))


def hurried(failures: int) -> timedelta:
    """Return a twentieth of the real pause after a provider's error."""
    return pause_after(failures) / HURRY


def turn_activities(folder: Path, model: Model, name: str) -> TurnActivities:
    crews = crew_folder(folder, "harness", clerk=f'tools = ["search"]\n{READS_THE_WEB}')
    tools: dict[str, Tool] = {"search": ScriptedTool("search", found("search.md#L1", "read"))}
    price = PriceStep(input_usd_per_million=Decimal(1), output_usd_per_million=Decimal(5))
    cards = {tier: ModelCard(provider="scripted", name=name, prices=(price,)) for tier in Tier}
    store = ArtifactStore(folder / "artifacts")
    library = DocumentLibrary(store, folder / "indexes")
    models = Models(adapter=model, cards=cards)
    versions = CrewVersions(load_crews([crews], tool_capabilities(tools)), tools, cards)
    uses = ToolActivities(versions, tools, ActingCalls(Record(folder)), library)
    return TurnActivities(versions, models, uses, library, ConversationStore(store), pause=hurried)


@asynccontextmanager
async def open_harness(
    client: Client, folder: Path, wire: Wire, respond: Respond
) -> AsyncGenerator[tuple[ScriptedProvider, Harness]]:
    async with (
        a_provider(wire, respond) as (server, model),
        harness_worker(client, f"harness-{uuid4().hex[:8]}", folder, model, MODELS[wire]) as worker,
    ):
        yield server, Harness(client, worker.task_queue)


def harness_worker(client: Client, task_queue: str, folder: Path, model: Model, name: str) -> Worker:
    return turn_worker(client, task_queue, turn_activities(folder, model, name))


@asynccontextmanager
async def open_front(client: Client) -> AsyncGenerator[Harness]:
    """Run a worker that asks for turns and takes none."""
    async with turn_worker(client, f"front-{uuid4().hex[:8]}", None) as worker:
        yield Harness(client, worker.task_queue)


def turn_worker(client: Client, task_queue: str, turns: TurnActivities | None) -> Worker:
    return Worker(
        client,
        task_queue=task_queue,
        workflows=[OneTurn],
        activities=[turns.take_turn] if turns else [],
        workflow_runner=UnsandboxedWorkflowRunner(),
        interceptors=[Heartbeats(PacedSlots(100))],
        build_id="harness",
        max_heartbeat_throttle_interval=timedelta(seconds=BEAT_SECONDS),
        default_heartbeat_throttle_interval=timedelta(seconds=BEAT_SECONDS),
    )
