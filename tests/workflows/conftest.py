"""A worker with scripted neighbours on a real server, without a workflow cache: every task replays from the start."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from uuid import uuid4

import pytest
from temporalio.client import Client

from activities.contracts import ModelCard, PriceStep
from activities.crews import load_crews
from activities.documents.artefacts import ArtefactStore
from activities.documents.library import DocumentLibrary
from activities.models.registry import Models
from activities.sessions import SessionActivities
from activities.tool_calls import ToolActivities
from activities.tools import Tool
from activities.turns import TurnActivities
from chargehand.client import Chargehand
from chargehand.contracts import Limits, Tier
from tests.scripted_model import Respond, ScriptedModel, ScriptedTool, found
from worker_main import Settings, build_worker

TOOLS = ("search", "read_page", "search_documents", "read_document", "query_data", "run_code")
PRICES = (PriceStep(input_usd_per_million=Decimal(1), output_usd_per_million=Decimal(5)),)


@dataclass
class Stage:
    """A running worker and what stands around it."""

    chargehand: Chargehand
    model: ScriptedModel
    tools: dict[str, ScriptedTool] = field(default_factory=dict[str, ScriptedTool])


OpenStage = Callable[..., AbstractAsyncContextManager[Stage]]


@pytest.fixture
def stage(client: Client, tmp_path: Path) -> OpenStage:
    """Open a worker whose model answers by a function."""

    @asynccontextmanager
    async def opened(
        respond: Respond, *, ceilings: Limits | None = None, cached_workflows: int = 0
    ) -> AsyncGenerator[Stage]:
        task_queue = f"test-{uuid4().hex[:8]}"
        settings = Settings(state_dir=tmp_path, task_queue=task_queue)
        fakes = {name: ScriptedTool(name, found(f"{name}.md#L1", f"what {name} read")) for name in TOOLS}
        tools: dict[str, Tool] = dict(fakes)
        crews = load_crews([Path("crews")], tools)
        model = ScriptedModel(respond)
        cards = {tier: ModelCard(provider="scripted", name="scripted-1", prices=PRICES) for tier in Tier}
        models = Models(adapter=model, cards=cards)
        library = DocumentLibrary(ArtefactStore(tmp_path / "artefacts"), tmp_path / "indexes")
        activities = [
            SessionActivities(crews, models, tools, ceilings or settings.ceilings).open_session,
            TurnActivities(crews, models, tools, library).take_turn,
            ToolActivities(crews, tools).use_tool,
        ]
        async with build_worker(client, settings, activities, cached_workflows=cached_workflows):
            yield Stage(Chargehand(client, task_queue), model, fakes)

    return opened
