"""The crew of a session: agents that a model describes, and versions that it keeps whatever workers have later."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from activities.contracts.cards import AgentDraft
from activities.contracts.crew import Crew, CustomAgents
from activities.contracts.tool import READS_DOCUMENTS, READS_THE_WEB, ToolSpec
from activities.crews.files import CrewError, custom_agents, load_crews
from activities.crews.versions import CrewVersions
from activities.documents.artifacts import ArtifactStore
from activities.models.protocol import ModelCall
from activities.turn_kinds.plan import DesignAnswer, DesignTask
from chargehand.client import Chargehand
from chargehand.contracts import Capability, Report, SessionRequest
from tests.environment import TOOLS, Backends, open_environment, scripted_cards
from tests.scripted_model import COST, Script, ScriptedModel, ScriptedTool, answer, found, subtask, use
from tests.waiting import until_state
from tests.workflows.conftest import OpenEnvironment
from worker.settings import Settings
from worker.workers import build_worker

SHIPPED = Path(__file__).resolve().parents[2] / "crews"
GOAL = SessionRequest(goal="How old are the rocks of the harbour?", crew="custom", review="never")
PROMPT = "Look at the layers first, then at the maps. Say how sure you are of each age."
KINDS = {tool: READS_THE_WEB if tool in {"search", "read_page"} else READS_DOCUMENTS for tool in TOOLS}
CREW = load_crews([SHIPPED], KINDS)["custom"]


def geologist(name: str = "geologist", tools: tuple[str, ...] = ("read_document",), tier: str = "large") -> AgentDraft:
    return AgentDraft(name=name, description="Knows rocks and their ages.", prompt=PROMPT, tools=[*tools], tier=tier)


def designing(*agents: AgentDraft) -> Script:
    script = Script().on("design", DesignAnswer(agents=[*agents]))
    planned = script.plan(subtask("T1", "geologist"), subtask("T2", "reader", after=["T1"]))
    return planned.work("T1", use("read_document"), answer("Old."), agent="geologist")


async def test_another_worker_can_continue_with_custom_agents(client: Client, tmp_path: Path) -> None:
    """The crew with its new agents is in the store, where the next worker finds it."""
    queue, script = f"custom-{uuid4().hex[:8]}", designing(geologist())
    async with open_environment(client, tmp_path, script, task_queue=queue) as first:
        session = await first.start(GOAL.model_copy(update={"approval": "plan"}), until="awaiting_approval")
    async with open_environment(client, tmp_path, script, task_queue=queue) as second:
        await session.approve()
        report = await session.result()

    assert any(PROMPT in call.system for call in second.model.of_kind("work"))
    assert [record.state for record in report.subtasks] == ["success", "success"]


async def test_custom_agents_give_the_same_answers_as_fixed_agents(environment: OpenEnvironment) -> None:
    """They have only the tools that they name, and cost one more turn for the design."""
    reports, tools = dict[str, Report](), dict[str, list[str]]()
    for crew, agent in (("custom", "geologist"), ("research", "reader")):
        script = Script().on("design", DesignAnswer(agents=[geologist(tier="small")])).plan(subtask("T1", agent))
        async with environment(script.work("", use("read_document"), answer("Old."))) as opened:
            reports[crew] = await opened.run(GOAL.model_copy(update={"crew": crew}))
            tools[crew] = [tool.name for call in opened.model.of_kind("work") for tool in call.tools]

    described, fixed = reports.values()
    assert set(tools["custom"]) == {"read_document"}
    assert (described.answer, described.stop_reason) == (fixed.answer, fixed.stop_reason)
    assert described.usage.turns == fixed.usage.turns + 1
    assert described.usage.cost_usd == fixed.usage.cost_usd + COST


@pytest.mark.parametrize(
    ("drafts", "reason"),
    [
        ((geologist(tools=("teleport",)),), "agents.0.tools: teleport cannot be given; choose from"),
        (
            (geologist(tools=("search", "read_document")),),
            "so that a stranger's text could have private text sent away",
        ),
        ((geologist("reader"),), "the name 'reader' occurs 2 times"),
        ((geologist("supervisor"),), "the name 'supervisor' stands for nested sessions"),
        ((geologist("Geo Logist"),), "agents.0.name: must be a name of at most 40"),
        ((geologist(tier="huge"),), "agents.0.tier: "),
        (tuple(geologist(f"g{number}") for number in range(6)), "agents: there are 6; 5 at most"),
    ],
)
async def test_invalid_custom_agents_are_rejected_with_the_reason(
    environment: OpenEnvironment, drafts: tuple[AgentDraft, ...], reason: str
) -> None:
    """The model is told once; then the session continues with the crew's own agents and reports it."""
    script = designing(*drafts).plan(subtask("T1", "reader"))
    async with environment(script) as opened:
        report = await opened.run(GOAL)
        asked = opened.model.tasks(DesignTask)

    assert len(asked) == 2
    assert any(reason in problem for problem in asked[1].problems)
    assert [record.agent for record in report.subtasks] == ["reader"]
    assert any(gap.startswith("No agents were described for this request: ") for gap in report.gaps)
    assert report.wasted.turns == 2


@given(
    st.lists(
        st.builds(
            geologist,
            name=st.sampled_from(["a", "b", "reader"]),
            tools=st.lists(st.sampled_from([*TOOLS, "pay"]), max_size=4).map(tuple),
        ),
        max_size=6,
    )
)
def test_no_custom_agent_exceeds_the_crews_permissions(drafts: list[AgentDraft]) -> None:
    """Accepted agents have only allowed tools, and never all three capabilities."""
    allowed = CustomAgents(tools=("search", "read_document", "run_code"), most=3)
    crew = CREW.model_copy(update={"custom": allowed})

    agents, problems = custom_agents(crew, drafts, KINDS)

    for agent in () if problems else agents:
        assert set(agent.tools) <= set(allowed.tools)
        assert len({capability for tool in agent.tools for capability in KINDS[tool]}) < 3
    assert problems or len(drafts) <= allowed.most


def test_an_acting_tool_cannot_be_offered_to_custom_agents(tmp_path: Path) -> None:
    """A crew that offers one is refused when it is loaded."""
    text = (SHIPPED / "custom.toml").read_text(encoding="utf-8")
    (tmp_path / "custom.toml").write_text(text.replace('"run_code"', '"refund"'), encoding="utf-8")

    with pytest.raises(CrewError, match=r"custom\.tools: 'refund' changes something"):
        load_crews([tmp_path], {**KINDS, "refund": frozenset()}, acting={"refund"})


KEPT = SessionRequest(goal="What do the documents say?", review="never", approval="plan")
NESTED = "Look into the second topic as a whole."
SCRIPT = (
    Script()
    .plan(subtask("T1"), subtask("N1", agent="supervisor", after=["T1"], instruction=NESTED))
    .plan(subtask("X1", agent="analyst"), goal=NESTED)
)


@dataclass
class Tool(ScriptedTool):
    """A tool with a given word in its description."""

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
    """A worker's version: a word in its prompts, tool descriptions and model names."""

    word: str = ""

    @cached_property
    def crews(self) -> dict[str, Crew]:
        return {name: self._worded(crew) for name, crew in super().crews.items()}

    def _worded(self, crew: Crew) -> Crew:
        agents = tuple(each.model_copy(update={"prompt": f"{each.prompt} Mind {self.word}."}) for each in crew.agents)
        guidance = f"{crew.guidance} Mind {self.word}."
        return crew.model_copy(update={"agents": agents, "guidance": guidance, "version": self.word})


def deploy(word: str) -> Deploy:
    tools = {name: Tool(name, found(f"{name}.md#L1", "read"), word=word) for name in TOOLS}
    cards = {tier: card.model_copy(update={"name": f"{word}-{tier}"}) for tier, card in scripted_cards().items()}
    return Deploy(ScriptedModel(SCRIPT), {**tools}, cards, word=word)


@asynccontextmanager
async def running(client: Client, folder: Path, queue: str, word: str) -> AsyncGenerator[list[ModelCall]]:
    """Run a worker of a deploy; yield the calls of its models."""
    deployed = deploy(word)
    settings = Settings(state_dir=folder, task_queue=queue)
    async with build_worker(client, settings, deployed.activities(folder, settings.ceilings)):
        assert isinstance(deployed.model, ScriptedModel)
        yield deployed.model.calls


async def test_a_session_keeps_its_initial_crew_version(client: Client, tmp_path: Path) -> None:
    """All its turns, nested too, use the prompts of the worker that opened it; the report states the version."""
    queue = f"pinned-{uuid4().hex[:8]}"
    chargehand = Chargehand(client, queue)
    async with running(client, tmp_path, queue, "spring") as before:
        old = await chargehand.start(KEPT)
        await until_state(old, "awaiting_approval")
    async with running(client, tmp_path, queue, "autumn") as after:
        await old.approve()
        first = await old.result()
        later = [*after]
        second = await (await chargehand.start(KEPT.model_copy(update={"approval": "none"}))).result()
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
    """Return the only deploy word in a call."""
    texts = [call.system, call.model, *(tool.description for tool in call.tools if tool.name in TOOLS)]
    return " and ".join(word for word in ("spring", "autumn") if any(word in text for text in texts))


LATER = deploy("autumn")
FEWER = {name: tool for name, tool in LATER.tools.items() if name != "run_code"}
REACHING = Tool("read_document", found("a", "b"), able=frozenset({"reads_private", "reaches_out"}))
FOREIGN = {tier: card.model_copy(update={"provider": "another"}) for tier, card in LATER.cards.items()}


@pytest.mark.parametrize(
    ("changes", "shares_store", "problem"),
    [
        ({}, False, "have all workers share CHARGEHAND_ARTIFACTS"),
        ({"tools": FEWER}, True, "needs the tool 'run_code'"),
        ({"tools": {**LATER.tools, "read_document": REACHING}}, True, "may not use the tool 'read_document'"),
        ({"cards": FOREIGN}, True, "of scripted, which is not set up here"),
    ],
)
async def test_a_worker_that_cannot_serve_a_crew_version_says_why(
    tmp_path: Path, changes: dict[str, Any], problem: str, *, shares_store: bool
) -> None:
    """No turn is taken if the version, a tool or the provider is missing, or a tool can do more than before."""
    first, second = deploy("spring"), replace(LATER, **changes)
    store = ArtifactStore(tmp_path / "crews")
    other = store if shares_store else ArtifactStore(tmp_path / "elsewhere")
    pinned = await CrewVersions(first.crews, first.tools, first.cards, store).pin("research")
    assert pinned is not None

    with pytest.raises(ApplicationError, match=problem) as refusal:
        await CrewVersions({}, second.tools, second.cards, other).find(pinned.reference)

    assert refusal.value.non_retryable
    assert refusal.value.type == "CrewUnavailable"
