"""A plan by rules: which agent answers which question, and which question waits for another."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from activities.contracts import SubtaskDraft
from activities.documents.catalog import Catalog, DocumentEntry
from activities.models.extractive.instructions import Lead, instruction
from activities.models.extractive.periods import find_periods
from activities.models.extractive.questions import (
    asks_for_a_story,
    asks_for_an_arrangement,
    asks_to_write,
    is_about_rules,
    is_summary,
    is_table,
    named_documents,
    pointed,
    points_back,
    split_questions,
)
from activities.models.extractive.sql import Query, best_query
from activities.models.extractive.wording import read_words
from activities.turn_kinds.plan import PlanAnswer, PlanTask

MOST_SUBTASKS: Final = 6

Agents = Sequence[tuple[str, str, tuple[str, ...]]]


@dataclass(frozen=True)
class _Step:
    tool: str
    instruction: str
    after: int | None = None
    """Position of the step whose answer this one needs."""
    leads: bool = False
    """Whether its answer is one name that later questions can point back to."""


def plan(task: PlanTask, catalog: Catalog, agents: Agents) -> PlanAnswer:
    """Write a plan; after a rejection the simplest one there is."""
    most = max(1, min(task.max_subtasks, MOST_SUBTASKS))
    steps = _steps(task.goal, catalog, most) if not task.rejected else [_fallback(task.goal, catalog)]
    drafts: list[SubtaskDraft] = []
    for position, step in enumerate(steps, start=1):
        needed = [f"T{step.after + 1}"] if step.after is not None else []
        drafts.append(
            SubtaskDraft(
                id=f"T{position}",
                agent=_agent(agents, step.tool, position + len(task.rejected) if len(task.rejected) > 1 else 0),
                instruction=step.instruction,
                depends_on=needed,
                required=needed,
            )
        )
    return PlanAnswer(
        subtasks=drafts,
        strategy="merge",
        final_instruction="An evidence sheet: each question with its figures and quotations.",
    )


def _agent(agents: Agents, tool: str, rotation: int) -> str:
    """Choose who has the tool, else who has a tool like it, else anybody."""
    for wanted in (
        tool,
        *(other for other in ("search_documents", "search", "query_data", "read_document") if other != tool),
    ):
        for name, _, tools in agents[rotation % max(1, len(agents)) :] if rotation else agents:
            if wanted in tools:
                return name
    return agents[0][0] if agents else "reader"


def _fallback(goal: str, catalog: Catalog) -> _Step:
    question = " ".join(goal.split())
    query = best_query(question, catalog)
    if query and query.has_operator and query.explained >= 0.6 and len(split_questions(goal)) == 1:
        return _Step("query_data", instruction(Lead.COMPUTE, question, query.view))
    return _Step("search_documents" if catalog.documents else "search", instruction(Lead.QUOTE, question))


def _steps(goal: str, catalog: Catalog, most: int) -> list[_Step]:
    steps: list[_Step] = []
    for question in split_questions(goal):
        for step in _steps_for(question, catalog, steps, most):
            if _sameness(step) not in {_sameness(known) for known in steps}:
                steps.append(step)
    if len(steps) > most:
        # What does not fit is asked in one go rather than left out without a word.
        rest = "; ".join(split_questions(goal)[most - 1 :])
        steps = [
            *steps[: most - 1],
            _Step("search_documents" if catalog.documents else "search", instruction(Lead.QUOTE, rest[:3_000])),
        ]
    return steps


def _sameness(step: _Step) -> tuple[str, tuple[str, ...]]:
    """What two steps have in common if one of them would be refused as a repetition."""
    return step.tool, tuple(word.stem for word in read_words(step.instruction) if word.is_content)


def _steps_for(question: str, catalog: Catalog, before: Sequence[_Step], most: int) -> list[_Step]:
    readable = [entry for entry in catalog.documents if not entry.problem]
    if not readable:
        return [_Step("search", instruction(Lead.SEARCH, question))]
    if is_summary(question, catalog):
        return _summaries(question, catalog, most)
    if topic := asks_to_write(question):
        return [_Step("search_documents", instruction(Lead.GATHER, topic))]
    leading = next((i for i in reversed(range(len(before))) if before[i].leads), None)
    after = leading if leading is not None and points_back(question) else None
    asked = pointed(question, "") if after is not None else question
    query = _data_query(asked, catalog, readable)
    if query is None:
        named = named_documents(question, readable)
        where = ", ".join(entry.name for entry in named) if 0 < len(named) <= 3 else ""
        return [_Step("search_documents", instruction(Lead.QUOTE, question, where), after)]
    if after is not None:
        question, query = _same_period(question, before[after].instruction, query, catalog)
    leads = query.order != "" and query.limit <= 1 and len(query.dimensions or query.names) == 1
    return [_Step("query_data", instruction(Lead.COMPUTE, question, query.view), after, leads=leads)]


def _same_period(question: str, earlier: str, query: Query, catalog: Catalog) -> tuple[str, Query]:
    """Keep to the time that the first half of a sentence named, where the table has times."""
    periods = find_periods(earlier)
    if not periods or find_periods(question):
        return question, query
    period = periods[-1].text
    whole = (
        f"{question.rstrip(' ?.')} in {period}"
        if period[:1].isupper() or period[:1].isdigit()
        else f"{question.rstrip(' ?.')} {period}"
    )
    narrowed = best_query(pointed(whole, ""), catalog)
    if narrowed and narrowed.view == query.view and any(period in said for said in narrowed.conditions):
        return whole, narrowed
    return question, query


def _data_query(question: str, catalog: Catalog, readable: Sequence[DocumentEntry]) -> Query | None:
    """Decide whether the tables answer a question; the more other documents could, the surer it must be."""
    query = best_query(question, catalog)
    if query is None:
        return None
    named = named_documents(question, readable)
    texts = [entry for entry in readable if not is_table(entry)]
    if named and all(not is_table(entry) for entry in named):
        return None
    needed = 0.6 if texts else 0.34
    if not query.has_operator:
        needed = 0.75 if texts else 0.5
    if texts and is_about_rules(question):
        needed = max(needed, 0.95) if query.is_computed else 2.0
    if asks_for_a_story(question) or (texts and asks_for_an_arrangement(question)):
        needed = 2.0
    return query if query.explained >= needed else None


def _summaries(question: str, catalog: Catalog, most: int) -> list[_Step]:
    readable = [entry for entry in catalog.documents if not entry.problem]
    named = named_documents(question, readable)
    wanted = list(named) or sorted(readable, key=is_table)
    steps: list[_Step] = []
    for entry in wanted:
        tables = [table for table in catalog.tables if table.document == entry.name]
        if tables:
            steps += [_Step("query_data", instruction(Lead.PROFILE, table.name, entry.name)) for table in tables]
        else:
            steps.append(_Step("read_document", instruction(Lead.SUMMARISE, "what it is about", entry.name)))
    if len(steps) > most:
        left = [entry.name for entry in wanted[most - 1 :]]
        steps = [
            *steps[: most - 1],
            _Step("search_documents", instruction(Lead.SUMMARISE, "what they are about", ", ".join(left[:12]))),
        ]
    return steps
