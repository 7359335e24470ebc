"""A session's turns and tool calls run in this process, with the classes that its activities use."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Final

from activities.contracts.crew import Crew
from activities.contracts.rounds import InputOutcome, Round, ToolCall, ToolResult
from activities.contracts.tool import Tool, ToolContext
from activities.documents.artifacts import ArtifactStore
from activities.documents.catalog import Catalog
from activities.documents.library import DocumentLibrary
from activities.documents.tool import ReadDocument, SearchDocuments
from activities.models.protocol import ModelCall, ModelReply
from activities.tools.data.query import QueryData
from activities.turn_kinds.plan import Allowance, PlanAnswer, PlanTask
from activities.turn_kinds.protocol import SubtaskDraft, TurnAnswer
from activities.turn_kinds.registry import Task
from activities.turn_kinds.synthesis import SynthesisAnswer, SynthesisTask
from activities.turn_kinds.work import WorkAnswer, WorkTask
from chargehand_plugins.extractive.model import MODEL_NAME, ExtractiveModel
from workflows.rules.evidence import ground, sources_read
from workflows.rules.inputs import Numbering, with_outcomes
from workflows.rules.report_content import numbered_sources, quotations_of

_CREW: Final = Path(__file__).resolve().parent.parent / "crews" / "research.toml"
_BOLD: Final = re.compile(r"\*\*(.+?)\*\*")


@dataclass(frozen=True)
class Answered:
    """The results of one question."""

    plan: PlanAnswer
    answers: tuple[WorkAnswer, ...]
    report: SynthesisAnswer

    @property
    def figures(self) -> tuple[str, ...]:
        """What was stated as an answer, excluding quotations."""
        return tuple(answer.content for answer in self.answers if answer.status == "success" and not _quotes(answer))

    @property
    def answered(self) -> tuple[str, ...]:
        """What was stated or quoted as an answer, rather than as evidence with a gap."""
        return tuple(answer.content for answer in self.answers if answer.status == "success")

    @property
    def passages(self) -> tuple[str, ...]:
        """What was quoted, best first."""
        return tuple(found.quote for answer in self.answers if _quotes(answer) for found in answer.findings)

    @property
    def bold(self) -> tuple[str, ...]:
        """The text that the report sets in bold."""
        return tuple(_BOLD.findall(self.report.answer))


def _quotes(answer: WorkAnswer) -> bool:
    return answer.status == "partial" or answer.content.startswith(">")


_ALLOWANCE: Final = Allowance(turns=17, usd=Decimal(2), minutes=9, max_rounds=10, max_parallel=5)


class Harness:
    """Documents, the tools that search them, and the model that uses the tools."""

    def __init__(self, catalog: Catalog, tools: Mapping[str, Tool], documents: tuple[str, ...]) -> None:
        self.catalog = catalog
        self._crew = Crew.model_validate(tomllib.loads(_CREW.read_text(encoding="utf-8")))
        self.agents = tuple((agent.name, agent.description, agent.tools) for agent in self._crew.agents)
        self._tools = tools
        self._documents = documents

    @classmethod
    async def open(cls, documents: Path, state: Path) -> "Harness":
        """Index a folder of documents."""
        library = DocumentLibrary(ArtifactStore(state / "artifacts"), state / "indexes", (documents,))
        given = (documents.as_uri(),)
        opened = await library.open(given)
        tools: tuple[Tool, ...] = (SearchDocuments(library), ReadDocument(library), QueryData(library))
        return cls(opened.catalog, {tool.spec.name: tool for tool in tools}, given)

    async def ask(self, goal: str) -> Answered:
        """Plan, run each subtask (and its fallback agent if it has no answer), and write the report."""
        task = PlanTask(goal=goal, max_subtasks=8, allowance=_ALLOWANCE, may_nest=False)
        plan = PlanAnswer.model_validate_json((await self._turn(task, PlanAnswer, "supervisor")).text)
        done: dict[str, InputOutcome] = {}
        answers: list[WorkAnswer] = []
        for subtask in plan.subtasks:
            inputs = tuple(done[needed] for needed in subtask.depends_on)
            answer, rounds = await self._carry_out(subtask, subtask.agent, inputs)
            agent = self._crew.agent(subtask.agent)
            if answer.status == "no_answer" and agent and agent.fallback:
                answer, rounds = await self._carry_out(subtask, agent.fallback, inputs)
            known = [source for given in inputs for source in given.outcome.sources]
            outcome = ground(answer, sources_read(rounds, known))
            answers.append(answer)
            done[subtask.id] = InputOutcome(
                id=subtask.id, agent=subtask.agent, instruction=subtask.instruction, outcome=outcome
            )
        outcomes = tuple(done.values())
        numbering = Numbering(list(numbered_sources(outcomes)), quotations_of(outcomes))
        synthesis = with_outcomes(SynthesisTask(goal=goal, outcomes=()), outcomes, numbering)
        report = SynthesisAnswer.model_validate_json((await self._turn(synthesis, SynthesisAnswer, "supervisor")).text)
        return Answered(plan, tuple(answers), report)

    async def _carry_out(
        self, subtask: SubtaskDraft, agent: str, inputs: tuple[InputOutcome, ...]
    ) -> tuple[WorkAnswer, list[Round]]:
        rounds: list[Round] = []
        while True:
            task = WorkTask(goal="", instruction=subtask.instruction, inputs=inputs, rounds=tuple(rounds))
            reply = await self._turn(task, WorkAnswer, agent)
            if reply.stop == "answer":
                return WorkAnswer.model_validate_json(reply.text), rounds
            results = [await self._use(call, agent) for call in reply.tool_calls]
            rounds.append(Round(calls=reply.tool_calls, results=tuple(results)))

    async def _turn(self, task: Task, answer_type: type[TurnAnswer], name: str) -> ModelReply:
        agent = self._crew.agent(name)
        offered = [tool for tool in (agent.tools if agent else ()) if tool in self._tools]
        return await ExtractiveModel().complete(
            ModelCall(
                model=MODEL_NAME,
                task=task,
                agent=name,
                crew_agents=self.agents,
                catalog=self.catalog,
                system="",
                messages=(),
                tools=tuple(self._tools[tool].spec for tool in offered),
                answer_type=answer_type,
                max_output_tokens=4_000,
                timeout_seconds=60,
                idempotency_key="benchmark",
            )
        )

    async def _use(self, call: ToolCall, agent: str) -> ToolResult:
        context = ToolContext(session="benchmark", agent=agent, idempotency_key=call.id, documents=self._documents)
        answer = await self._tools[call.tool].use(call.arguments, context)
        return ToolResult(call_id=call.id, tool=call.tool, ok=answer.ok, output=answer.output, sources=answer.sources)
