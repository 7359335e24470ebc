"""A harness without a session: asks the model, uses its tools on real tables and given passages, asks again."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
from pydantic import JsonValue

from activities.contracts import InputOutcome, Round, SubtaskDraft, ToolCall, ToolResult
from activities.documents.catalog import Catalog, Column, DocumentEntry, Table
from activities.models.extractive import ExtractiveModel
from activities.models.protocol import ModelCall, ModelReply, ToolSpec
from activities.turn_kinds.plan import PlanAnswer, PlanTask, RejectedPlan
from activities.turn_kinds.protocol import TurnAnswer
from activities.turn_kinds.registry import Task
from activities.turn_kinds.synthesis import SynthesisAnswer, SynthesisTask
from activities.turn_kinds.work import WorkAnswer, WorkTask
from chargehand.contracts import Source
from workflows.rules.evidence import ground, sources_read

CREW = (
    ("researcher", "Searches the web.", ("search", "read_page")),
    ("reader", "Reads documents.", ("search_documents", "read_document")),
    ("analyst", "Computes.", ("query_data", "run_code")),
    ("writer", "Writes.", ()),
    ("reviewer", "Checks.", ()),
)
TOOLS = {name: tools for name, _, tools in CREW}
EXAMPLES = 20
MOST_PASSAGES = 6


@dataclass
class Harness:
    """Documents, tables and passages, and a model that sees only what its tools show."""

    tables: Mapping[str, str] = field(default_factory=dict[str, str])
    """CSV text by table name."""
    documents: Sequence[DocumentEntry] = ()
    passages: Sequence[Source] = ()
    calls: list[ToolCall] = field(default_factory=list[ToolCall])
    """Every tool call that the model made."""

    def open(self, folder: Path) -> "Harness":
        """Load the tables into DuckDB, as the catalog would describe them."""
        self._database = duckdb.connect()
        tables = [_load(self._database, folder, name, text) for name, text in self.tables.items()]
        entries = [DocumentEntry(name=table.document, kind="csv", units=table.rows) for table in tables]
        self.catalog = Catalog(documents=(*self.documents, *entries), tables=tuple(tables))
        return self

    async def complete(self, task: Task, answer_type: type[TurnAnswer], agent: str = "supervisor") -> ModelReply:
        """Ask the model as a turn does."""
        return await ExtractiveModel().complete(
            ModelCall(
                model="extractive",
                task=task,
                agent=agent,
                crew_agents=CREW,
                catalog=self.catalog,
                system="",
                messages=(),
                tools=tuple(
                    ToolSpec(name=tool, description="", parameters={})
                    for tool in TOOLS.get(agent, ())
                    if not getattr(task, "must_answer", False)
                ),
                answer_type=answer_type,
                max_output_tokens=4_000,
                timeout_seconds=10,
                idempotency_key="key",
            )
        )

    async def plan(self, goal: str, most: int = 8, rejected: Sequence[RejectedPlan] = ()) -> PlanAnswer:
        """Ask for a plan."""
        task = PlanTask(goal=goal, max_subtasks=most, may_nest=False, rejected=tuple(rejected))
        return PlanAnswer.model_validate_json((await self.complete(task, PlanAnswer)).text)

    async def carry_out(self, subtask: SubtaskDraft, inputs: Sequence[InputOutcome] = ()) -> WorkAnswer:
        """Take turns at a subtask until its agent answers."""
        rounds: list[Round] = []
        for _ in range(5):
            task = WorkTask(goal="", instruction=subtask.instruction, inputs=tuple(inputs), rounds=tuple(rounds))
            reply = await self.complete(task, WorkAnswer, subtask.agent)
            if reply.stop == "answer":
                answer = WorkAnswer.model_validate_json(reply.text)
                _check_quotations(answer, rounds, inputs)
                return answer
            self.calls.extend(reply.tool_calls)
            results = tuple(self._use(call) for call in reply.tool_calls)
            rounds.append(Round(calls=reply.tool_calls, results=results))
        raise AssertionError("the agent never answered")

    async def answer(self, goal: str) -> WorkAnswer:
        """Plan a request that one agent can answer, and let that agent answer it."""
        plan = await self.plan(goal)
        assert len(plan.subtasks) == 1, plan
        return await self.carry_out(plan.subtasks[0])

    async def outcomes(self, goal: str, most: int = 8) -> tuple[PlanAnswer, list[InputOutcome]]:
        """Plan and carry out."""
        plan = await self.plan(goal, most)
        done: dict[str, InputOutcome] = {}
        for subtask in plan.subtasks:
            inputs = [done[needed] for needed in subtask.depends_on]
            answer = await self.carry_out(subtask, inputs)
            done[subtask.id] = InputOutcome(
                id=subtask.id,
                agent=subtask.agent,
                instruction=subtask.instruction,
                outcome=ground(answer, self._read, ()),
            )
        return plan, list(done.values())

    async def report(self, goal: str, most: int = 8) -> tuple[PlanAnswer, SynthesisAnswer, tuple[str, ...]]:
        """Plan, carry out and write up; with the sources in citation order."""
        plan, outcomes = await self.outcomes(goal, most)
        refs = tuple(dict.fromkeys(source.ref for given in outcomes for source in given.outcome.sources))
        task = SynthesisTask(goal=goal, outcomes=tuple(outcomes), sources=refs)
        reply = await self.complete(task, SynthesisAnswer)
        return plan, SynthesisAnswer.model_validate_json(reply.text), refs

    @property
    def _read(self) -> dict[str, Source]:
        shown = [self._query(str(call.arguments["sql"]), call) for call in self.calls if call.tool == "query_data"]
        return {source.ref: source for source in (*self.passages, *(s for result in shown for s in result.sources))}

    def _use(self, call: ToolCall) -> ToolResult:
        if call.tool == "query_data":
            return self._query(str(call.arguments["sql"]), call)
        if call.tool == "read_document":
            found = [source for source in self.passages if source.ref.startswith(str(call.arguments["document"]))]
            return ToolResult(call_id=call.id, tool=call.tool, sources=tuple(found))
        place = str(call.arguments.get("document", ""))
        coverage, nowhere = search(str(call.arguments["query"]), self.passages)
        found = sorted(
            (source for source in self.passages if coverage[source.ref] > 0 and source.ref.startswith(place)),
            key=lambda source: -coverage[source.ref],
        )[:MOST_PASSAGES]
        output: dict[str, JsonValue] = {"coverage": {source.ref: coverage[source.ref] for source in found}}
        if nowhere:
            output["words_found_nowhere"] = list(nowhere)
        return ToolResult(call_id=call.id, tool=call.tool, output=output, sources=tuple(found))

    def _query(self, sql: str, call: ToolCall) -> ToolResult:
        try:
            cursor = self._database.execute(sql)
        except duckdb.Error as error:
            return ToolResult(call_id=call.id, tool=call.tool, ok=False, output={"error": str(error)})
        columns = [str(column[0]) for column in cursor.description or ()]
        rows = [[_as_json(cell) for cell in row] for row in cursor.fetchall()]
        text = "\n".join(" | ".join(str(cell) for cell in row) for row in [columns, *rows])
        return ToolResult(
            call_id=call.id,
            tool=call.tool,
            output={"columns": list(columns), "rows": list(rows), "row_count": len(rows)},
            sources=(Source(ref=f"sql:{abs(hash(sql)):x}", title=sql, quote=text),),
        )


def search(query: str, passages: Sequence[Source]) -> tuple[dict[str, float], list[str]]:
    """Say which share of the query's words each passage has, rare ones counting more, and which words none has.

    A word is known by its first four letters, which is crude enough to have nothing in common with the code under test.
    """
    wanted = list(dict.fromkeys(word[:4] for word in re.findall(r"\w+", query.lower())))
    held = {
        source.ref: {word[:4] for word in re.findall(r"\w+", f"{source.title} {source.quote}".lower())}
        for source in passages
    }
    bearers = {word: sum(word in words for words in held.values()) for word in wanted}
    weights = {word: math.log(1 + (len(held) + 0.5) / (max(1, bearers[word]) + 0.5)) for word in wanted}
    whole = sum(weights.values()) or 1.0
    coverage = {
        ref: round(sum(weights[word] for word in wanted if word in words) / whole, 2) for ref, words in held.items()
    }
    return coverage, [word for word in re.findall(r"\w+", query.lower()) if not bearers[word[:4]]]


def _check_quotations(answer: WorkAnswer, rounds: Sequence[Round], inputs: Sequence[InputOutcome]) -> None:
    """Hold every finding to what was read: its sources exist and its quotation stands in the first of them."""
    read = sources_read(rounds, inputs)
    for finding in answer.findings:
        assert set(finding.source_refs) <= read.keys()
        assert finding.quote in read[finding.source_refs[0]].quote


def _as_json(cell: Any) -> JsonValue:
    return cell if cell is None or isinstance(cell, bool | int | float | str) else str(cell)


def _load(database: duckdb.DuckDBPyConnection, folder: Path, name: str, text: str) -> Table:
    path = folder / f"{name}.csv"
    path.write_text(text)
    database.execute(f"CREATE TABLE {name} AS SELECT * FROM read_csv('{path}')")
    described = database.execute(f"DESCRIBE {name}").fetchall()
    columns = tuple(_column(database, name, str(column[0]), str(column[1])) for column in described)
    rows = len(text.strip().splitlines()) - 1
    return Table(name=name, document=f"{name.replace('_', '-')}.csv", rows=rows, columns=columns)


def _column(database: duckdb.DuckDBPyConnection, table: str, column: str, kind: str) -> Column:
    values = database.execute(
        f'SELECT CAST("{column}" AS VARCHAR), count(*) FROM {table} '
        f'WHERE "{column}" IS NOT NULL GROUP BY 1 ORDER BY 2 DESC, 1'
    ).fetchall()
    return Column(
        name=column, type=kind, examples=tuple(str(row[0]) for row in values[:EXAMPLES]), distinct=len(values)
    )
