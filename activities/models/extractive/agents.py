"""A subtask by rules: a figure if the tables give one beyond doubt, else evidence."""

import re
from typing import Final

from activities.contracts import AgentAnswer, InputOutcome, ToolCall, WorkTask
from activities.documents.catalog import Catalog
from activities.documents.words import language_of
from activities.models.extractive.evidence import SEARCHES, find_evidence, nothing
from activities.models.extractive.figures import sql_of, state
from activities.models.extractive.grammar import read_figure
from activities.models.extractive.planner import QUOTE, point, points_back, read_instruction

_BOLD: Final = re.compile(r"\*\*([^*\n]{1,120})\*\*")


def work(task: WorkTask, catalog: Catalog, tools: frozenset[str]) -> tuple[ToolCall, ...] | AgentAnswer:
    """Take one turn at a subtask: tool calls, or the answer."""
    kind, question = read_instruction(task.instruction)
    usable = tools | {call.tool for past in task.rounds for call in past.calls}
    if task.inputs and points_back(question):
        name = _name(task.inputs)
        if name is None:
            return nothing(language_of(question), "no name")
        question = point(question, name)
    if "query_data" in usable and kind != QUOTE:
        reply = _compute(task, question, catalog)
        if reply is not None:
            return reply
    if usable.intersection(SEARCHES):
        return find_evidence(task, question, tools)
    return nothing(language_of(question), "undecided" if "query_data" in usable else "no text")


def _compute(task: WorkTask, question: str, catalog: Catalog) -> tuple[ToolCall, ...] | AgentAnswer | None:
    """Ask the tables once; None if they do not answer."""
    figure = read_figure(question, catalog)
    if figure is None:
        return None
    results = [result for past in task.rounds for result in past.results if result.tool == "query_data"]
    if not results:
        sql = sql_of(figure)
        return None if task.must_answer else (ToolCall(id="query-1", tool="query_data", arguments={"sql": sql}),)
    return state(figure, results[-1]) if results[-1].ok else None


def _name(inputs: tuple[InputOutcome, ...]) -> str | None:
    """Find the name that an earlier figure came to: what it set in bold first."""
    for given in inputs:
        match = _BOLD.search(given.outcome.content) if given.outcome.kind == "success" else None
        if match:
            return match[1]
    return None
