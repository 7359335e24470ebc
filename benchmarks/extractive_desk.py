"""A session's turns and tool calls made in this process, with the classes that its activities use."""

import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from activities.contracts import Round, SubtaskDraft, ToolCall, ToolResult
from activities.crews import Crew
from activities.data.query import QueryData
from activities.documents.artifacts import ArtifactStore
from activities.documents.catalog import Catalog
from activities.documents.library import DocumentLibrary
from activities.documents.tool import ReadDocument, SearchDocuments
from activities.models.extractive import MODEL_NAME, ExtractiveModel
from activities.models.protocol import ModelCall, ModelReply
from activities.tools import Tool, ToolContext
from activities.turn_kinds.plan import PlanAnswer, PlanTask
from activities.turn_kinds.protocol import TurnAnswer
from activities.turn_kinds.registry import Task
from activities.turn_kinds.work import WorkAnswer, WorkTask

_CREW: Final = Path(__file__).resolve().parent.parent / "crews" / "research.toml"
_MOST_SUBTASKS: Final = 8
_MOST_ROUNDS: Final = 6


@dataclass(frozen=True)
class Answered:
    """What came of one question."""

    documents: tuple[str, ...]
    """Documents in the order in which tools showed them."""
    quotations: tuple[str, ...]
    """What was quoted or computed, best first."""
    is_refused: bool
    seconds: float


class Harness:
    """Documents, the tools that look into them, and the model that uses these."""

    def __init__(self, catalog: Catalog, crew: Crew, tools: Mapping[str, Tool], documents: tuple[str, ...]) -> None:
        self._catalog = catalog
        self._crew = crew
        self._tools = tools
        self._documents = documents
        self._model = ExtractiveModel()

    @classmethod
    async def open(cls, documents: Path, state: Path) -> "Harness":
        """Index a folder of documents."""
        library = DocumentLibrary(ArtifactStore(state / "artifacts"), state / "indexes", (documents,))
        given = (documents.as_uri(),)
        opened = await library.open(given)
        tools: tuple[Tool, ...] = (SearchDocuments(library), ReadDocument(library), QueryData(library))
        there = {tool.spec.name: tool for tool in tools}
        # Tools of the crew that reach out of the documents are not there, so the crew's own check is left out.
        crew = Crew.model_validate(tomllib.loads(_CREW.read_text(encoding="utf-8")))
        return cls(opened.catalog, crew, there, given)

    async def ask(self, goal: str) -> Answered:
        """Plan, and carry out each subtask of the plan."""
        before = time.perf_counter()
        task = PlanTask(goal=goal, max_subtasks=_MOST_SUBTASKS, may_nest=False)
        plan = PlanAnswer.model_validate_json((await self._turn(task, PlanAnswer, "supervisor")).text)
        carried_out = [await self._carry_out(goal, subtask) for subtask in plan.subtasks]
        shown = [name for _, rounds in carried_out for name in self._shown(rounds)]
        answers = [answer for answer, _ in carried_out]
        return Answered(
            documents=tuple(dict.fromkeys(shown)),
            quotations=tuple(f"{found.claim} {found.quote}" for answer in answers for found in answer.findings),
            is_refused=all(answer.status == "no_answer" for answer in answers),
            seconds=time.perf_counter() - before,
        )

    async def _carry_out(self, goal: str, subtask: SubtaskDraft) -> tuple[WorkAnswer, list[Round]]:
        rounds: list[Round] = []
        while True:
            must_answer = len(rounds) == _MOST_ROUNDS
            task = WorkTask(goal=goal, instruction=subtask.instruction, rounds=tuple(rounds), must_answer=must_answer)
            reply = await self._turn(task, WorkAnswer, subtask.agent)
            if reply.stop == "answer":
                return WorkAnswer.model_validate_json(reply.text), rounds
            results = [await self._use(call, subtask.agent) for call in reply.tool_calls]
            rounds.append(Round(calls=reply.tool_calls, results=tuple(results)))

    async def _turn(self, task: Task, answer_type: type[TurnAnswer], name: str) -> ModelReply:
        agent = self._crew.agent(name)
        offered = [tool for tool in (agent.tools if agent else ()) if tool in self._tools]
        return await self._model.complete(
            ModelCall(
                model=MODEL_NAME,
                task=task,
                agent=name,
                crew_agents=tuple((agent.name, agent.description, agent.tools) for agent in self._crew.agents),
                catalog=self._catalog,
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

    def _shown(self, rounds: list[Round]) -> list[str]:
        shown: list[str] = []
        for past in rounds:
            for call, result in zip(past.calls, past.results, strict=True):
                sql = str(call.arguments.get("sql", ""))
                shown += [table.document for table in self._catalog.tables if f'"{table.name}"' in sql]
                shown += [source.ref.split("#", 1)[0] for source in result.sources if not sql]
        return shown
