"""A plan by rules: one subtask a question, figures to the tables and everything else to the documents."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from activities.contracts.drafts import SubtaskDraft
from activities.documents.catalog import Catalog
from activities.documents.words import words
from activities.turn_kinds.plan import PlanAnswer, PlanTask
from chargehand_plugins.extractive.evidence import SEARCHES
from chargehand_plugins.extractive.grammar import Figure, keeps, read_figure
from chargehand_plugins.extractive.lexicon import one_line, pattern

COMPUTE: Final = "Compute"
QUOTE: Final = "Quote"
_LONGEST: Final = 3_000
_BREAK: Final = r"(?<=\?)\s++|\n++|(?<!\s),?\s++(?:and|und|et|y)\s++(?=(?:{asking})\b)|,\s++(?=(?:what|how)\b)"

Agents = Sequence[tuple[str, str, tuple[str, ...]]]


class _Step(NamedTuple):
    kind: str
    question: str
    after: int | None = None
    """Position of the step whose answer is the name that this question points to."""


def plan(task: PlanTask, catalog: Catalog, agents: Agents) -> PlanAnswer:
    """Write a plan: one subtask that quotes for the whole request, unless there are figures to compute.

    So it is too for more questions than fit, and after a rejection.
    """
    steps = _steps(task.goal, catalog)
    searches = SEARCHES if catalog.documents else SEARCHES[::-1]
    if (
        task.rejected
        or all(step.kind == QUOTE for step in steps)
        or len(set(steps)) < len(steps)
        or len(steps) > max(1, task.max_subtasks)
    ):
        steps = [_Step(QUOTE, one_line(task.goal))]
    drafts: list[SubtaskDraft] = []
    for number, (kind, question, after) in enumerate(steps, start=1):
        agent = _agent(agents, ("query_data", *searches) if kind == COMPUTE else searches)
        needed = [] if after is None else [f"T{after + 1}"]
        text = f"{kind}: {question[:_LONGEST]}"
        drafts.append(
            SubtaskDraft(
                id=f"T{number}", agent=agent, instruction=text, depends_on=needed, required=needed, for_each=""
            )
        )
    return PlanAnswer(subtasks=drafts, strategy="merge", final_instruction="", deliver="", length_words=0, omitted=[])


def read_instruction(text: str) -> tuple[str, str]:
    """Read an instruction back: what to do, if it was written here, and the question."""
    first = one_line(text.strip().split("\n\n", 1)[0])
    kind, mark, question = first.partition(": ")
    return (kind, question) if mark and kind in {COMPUTE, QUOTE} else ("", first)


def point(question: str, name: str) -> str:
    pointer = rf"\b(?:{pattern('pointers')})\b"
    return re.sub(pointer, lambda _: f"{name}'s", question, count=1, flags=re.IGNORECASE) if name else question


def _agent(agents: Agents, tools: Sequence[str]) -> str:
    named = (name for tool in tools for name, _, own in agents if tool in own)
    return next(named, agents[0][0] if agents else "reader")


def _steps(goal: str, catalog: Catalog) -> list[_Step]:
    """Cut a request into questions. It is left whole where a piece asks nothing, since that may limit the others."""
    asking = pattern("asking")
    found = re.split(_BREAK.format(asking=asking), goal, flags=re.IGNORECASE)
    pieces = [one_line(piece).strip(" ,") for piece in found if words(piece)]
    asks = re.compile(rf"(?:{asking}|{pattern('asks')})\b", re.IGNORECASE)
    if not pieces or (len(pieces) > 1 and not all(map(asks.match, pieces))):
        pieces = [one_line(goal)]
    read: list[tuple[_Step, Figure | None]] = []
    for piece in pieces:
        read.append(_step(piece, read, catalog))
    return [step for step, _ in read]


def _step(question: str, read: Sequence[tuple[_Step, Figure | None]], catalog: Catalog) -> tuple[_Step, Figure | None]:
    """Read one of several questions, in the period of those before it."""
    before = [figure for _, figure in read]
    named = [at for at, figure in enumerate(before) if figure and figure.operation in {"most", "least"}]
    after = named[-1] if named and question != point(question, "-") else None
    leader = None if after is None else before[after]
    examples = leader.group.field.column.examples if leader and leader.group else ()
    example = next(iter(examples), "")
    figure = read_figure(point(question, example), catalog)
    periods = [known.period_text for known in before if known and known.period_text]
    if figure and periods and not figure.period_text:
        question = f"{question.rstrip(' ?')} in {periods[-1]}"
        figure = read_figure(point(question, example), catalog)
    if figure and not all(keeps(figure, step.question) for step, _ in read):
        figure = None
    return _Step(COMPUTE if figure else QUOTE, question, after), figure
