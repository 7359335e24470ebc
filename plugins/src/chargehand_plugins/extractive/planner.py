"""A plan by rules: one subtask per question; figures go to tables, all else to the documents."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from activities.documents.catalog import Catalog
from activities.documents.words import words
from activities.turn_kinds.plan import PlanAnswer, PlanTask
from activities.turn_kinds.protocol import SubtaskDraft
from chargehand_plugins.extractive.evidence import SEARCHES
from chargehand_plugins.extractive.lexicon import one_line, pattern, says
from chargehand_plugins.extractive.query import Query
from chargehand_plugins.extractive.reading import keeps, read_query

COMPUTE: Final = "Compute"
QUOTE: Final = "Quote"
RELATE: Final = "Relate"
_LONGEST: Final = 3_000
_BREAK: Final = (
    r"(?<=\?)\s++|\n++|(?<!\s),?\s++(?:and|und|et|y)\s++(?=(?:{asking})\b)"
    r"|,\s++(?=(?:what|how|(?:when|where|why) (?:do|does|did|is|are|was|were|can|may|must|will))\b)"
)

Agents = Sequence[tuple[str, str, tuple[str, ...]]]


class _Step(NamedTuple):
    question: str
    query: Query | None = None
    after: int | None = None
    """Position of the step to whose answer this question refers."""


def plan(task: PlanTask, catalog: Catalog, agents: Agents) -> PlanAnswer:
    """Write a plan: one subtask that quotes for the whole request, unless figures can be computed within the limits."""
    steps = list[_Step]()
    for question in _questions(task.goal):
        steps.append(_step(question, steps, catalog))
    is_repeated = len({step.question for step in steps}) < len(steps)
    is_many = len(steps) > max(1, task.max_subtasks)
    if task.rejected or is_repeated or is_many or not any(step.query for step in steps):
        steps = [_Step(one_line(task.goal))]
    searches = SEARCHES if catalog.documents else SEARCHES[::-1]
    drafts: list[SubtaskDraft] = []
    for at, step in enumerate(steps, start=1):
        tools = ("query_data", *searches) if step.query else searches
        able = [name for tool in tools for name, _, own in agents if tool in own]
        agent = next(iter(able), agents[0][0] if agents else "reader")
        needs = [] if step.after is None else [f"T{step.after + 1}"]
        is_related = at > 1 and says("pronouns", step.question)
        text = f"{COMPUTE if step.query else RELATE if is_related else QUOTE}: {step.question[:_LONGEST]}"
        drafts.append(
            SubtaskDraft(id=f"T{at}", agent=agent, instruction=text, depends_on=needs, required=needs, for_each="")
        )
    return PlanAnswer(subtasks=drafts, strategy="merge", final_instruction="", deliver="", length_words=0, omitted=[])


def read_instruction(text: str) -> tuple[str, str]:
    """Parse an instruction written here into the action and the question."""
    first = one_line(text.strip().split("\n\n", 1)[0])
    kind, mark, question = first.partition(": ")
    return (kind, question) if mark and kind in {COMPUTE, QUOTE, RELATE} else ("", first)


def point(question: str, name: str) -> str:
    pointer = rf"\b(?:{pattern('pointers')})\b"
    return re.sub(pointer, lambda _: f"{name}'s", question, count=1, flags=re.IGNORECASE) if name else question


def _questions(goal: str) -> list[str]:
    """Cut a request into questions; not if a piece asks nothing, since it may restrict the others."""
    asking = pattern("asking")
    parts = re.split(_BREAK.format(asking=asking), goal, flags=re.IGNORECASE)
    pieces = [one_line(piece).strip(" ,") for piece in parts if words(piece)]
    asks = re.compile(rf"(?:{asking}|{pattern('asks')})\b", re.IGNORECASE)
    return pieces if len(pieces) == 1 or all(map(asks.match, pieces)) else [one_line(goal)]


def _step(question: str, before: Sequence[_Step], catalog: Catalog) -> _Step:
    """Read one of several questions, with the period of earlier ones."""
    queries = {at: step.query for at, step in enumerate(before) if step.query}
    named = [at for at, query in queries.items() if query.shape in {"most", "least"} and query.group]
    after = named[-1] if named and question != point(question, "-") else None
    group = None if after is None else queries[after].group
    example = next(iter(group.field.column.examples), "") if group else ""
    query = read_query(point(question, example), catalog)
    periods = [known.period_text for known in queries.values() if known.period_text]
    if query and periods and not query.period_text:
        question = f"{question.rstrip(' ?')} in {periods[-1]}"
        query = read_query(point(question, example), catalog)
    return _Step(question, query if query and all(keeps(query, step.question) for step in before) else None, after)
