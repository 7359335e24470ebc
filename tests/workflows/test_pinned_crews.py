"""A session keeps the crew, tool descriptions and models that it began with, whatever workers have later."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from activities.contracts.crew import Crew
from activities.contracts.tool import ToolSpec
from activities.crews.versions import CrewVersions
from activities.documents.artifacts import ArtifactStore
from activities.models.protocol import ModelCall
from chargehand.client import Chargehand
from chargehand.contracts import Capability, SessionRequest
from tests.environment import TOOLS, Backends, scripted_cards
from tests.scripted_model import Script, ScriptedModel, ScriptedTool, found, subtask
from tests.waiting import until_state
from worker.settings import Settings
from worker.workers import build_worker

GOAL = SessionRequest(goal="What do the documents say?", review="never", approval="plan")
NESTED = "Look into the second topic as a whole."
SCRIPT = (
    Script()
    .plan(subtask("T1"), subtask("N1", agent="supervisor", after=["T1"], instruction=NESTED))
    .plan(subtask("X1", agent="analyst"), goal=NESTED)
)


@dataclass
class Tool(ScriptedTool):
    """A tool whose description has a word."""

    word: str = ""
    able: frozenset[Capability] | None = None

    @property
    def capabilities(self) -> frozenset[Capability]:
        return super().capabilities if self.able is None else self.able

    @property
    def spec(self) -> ToolSpec:
        return super().spec.model_copy(update={"description": f"A tool of {self.word}."})


@dataclass(frozen=True)
class Deploy(Backends):
    """What a worker comes with: a word in its prompts, tool descriptions and names of models."""

    word: str = ""

    @cached_property
    def crews(self) -> dict[str, Crew]:
        return {name: self._worded(crew) for name, crew in super().crews.items()}

    def _worded(self, crew: Crew) -> Crew:
        agents = tuple(each.model_copy(update={"prompt": f"{each.prompt} Mind {self.word}."}) for each in crew.agents)
        guidance = f"{crew.guidance} Mind {self.word}."
        return crew.model_copy(update={"agents": agents, "guidance": guidance, "version": self.word})


def deploy(word: str, **changes: Any) -> Deploy:
    tools = {name: Tool(name, found(f"{name}.md#L1", "read"), word=word) for name in TOOLS}
    cards = {tier: card.model_copy(update={"name": f"{word}-{tier}"}) for tier, card in scripted_cards().items()}
    return replace(Deploy(ScriptedModel(SCRIPT), {**tools}, cards, word=word), **changes)


@asynccontextmanager
async def running(client: Client, folder: Path, queue: str, word: str) -> AsyncGenerator[list[ModelCall]]:
    """Run a worker of a deploy; gives the calls of its models."""
    deployed = deploy(word)
    settings = Settings(state_dir=folder, task_queue=queue)
    async with build_worker(client, settings, deployed.activities(folder, settings.ceilings)):
        assert isinstance(deployed.model, ScriptedModel)
        yield deployed.model.calls


async def test_a_session_keeps_the_crew_that_it_began_with(client: Client, tmp_path: Path) -> None:
    """Prompts, tool descriptions and models of all its turns, those of nested sessions too, are those of the worker
    that opened it; a session that begins on the next worker gets the new ones. The reports tell which."""
    queue = f"pinned-{uuid4().hex[:8]}"
    chargehand = Chargehand(client, queue)
    async with running(client, tmp_path, queue, "spring") as before:
        old = await chargehand.start(GOAL)
        await until_state(old, "awaiting_approval")
    async with running(client, tmp_path, queue, "autumn") as after:
        await old.approve()
        first = await old.result()
        later = [*after]
        second = await (await chargehand.start(GOAL.model_copy(update={"approval": "none"}))).result()
        newest = after[len(later) :]

    assert [len(before), len(later), len(newest)] == [1, 4, 5]
    assert {_word(call) for call in [*before, *later]} == {"spring"}
    assert {_word(call) for call in newest} == {"autumn"}
    assert first.crew is not None
    assert second.crew is not None
    assert (first.crew.version, second.crew.version) == ("spring", "autumn")
    assert first.crew.digest != second.crew.digest
    assert {name.partition("-")[0] for name in first.crew.models.values()} == {"spring"}


def _word(call: ModelCall) -> str:
    """The one word in all of a call."""
    texts = [call.system, call.model, *(tool.description for tool in call.tools if tool.name in TOOLS)]
    return " and ".join(word for word in ("spring", "autumn") if any(word in text for text in texts))


def _as_it_is(deployed: Deploy) -> Deploy:
    return deployed


def _without_tool(deployed: Deploy) -> Deploy:
    return replace(deployed, tools={name: tool for name, tool in deployed.tools.items() if name != "run_code"})


def _with_reach(deployed: Deploy) -> Deploy:
    tool = Tool("read_document", found("a", "b"), able=frozenset({"reads_private", "reaches_out"}))
    return replace(deployed, tools={**deployed.tools, "read_document": tool})


def _with_provider(deployed: Deploy) -> Deploy:
    cards = {tier: card.model_copy(update={"provider": "another"}) for tier, card in deployed.cards.items()}
    return replace(deployed, cards=cards)


@pytest.mark.parametrize(
    ("change", "shares_store", "problem"),
    [
        (_as_it_is, False, "have all workers share CHARGEHAND_ARTIFACTS"),
        (_without_tool, True, "needs the tool 'run_code'"),
        (_with_reach, True, "may not use the tool 'read_document'"),
        (_with_provider, True, "of scripted, which is not set up here"),
    ],
)
async def test_a_worker_that_cannot_serve_a_version_says_why(
    tmp_path: Path, change: Any, problem: str, *, shares_store: bool
) -> None:
    """A version that is not stored, a tool that is missing or can do more, another provider: no turn is taken."""
    first, second = deploy("spring"), change(deploy("autumn"))
    store = ArtifactStore(tmp_path / "crews")
    other = store if shares_store else ArtifactStore(tmp_path / "elsewhere")
    pinned = await CrewVersions(first.crews, first.tools, first.cards, store).pin("research")
    assert pinned is not None

    with pytest.raises(ApplicationError, match=problem) as refusal:
        await CrewVersions({}, second.tools, second.cards, other).find(pinned.reference)

    assert refusal.value.non_retryable
    assert refusal.value.type == "CrewUnavailable"
