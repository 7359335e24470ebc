"""Plan validation: every error of a plan, in words that a model can act on."""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from decimal import Decimal
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import ValidationError
from pydantic_core import to_json

from activities.contracts.cards import LEAST_TURNS_OF_SESSION, CrewCard
from activities.json_schema import value_problems
from activities.turn_kinds.plan import PlanAnswer
from activities.turn_kinds.protocol import SubtaskDraft
from chargehand.contracts import Capability, Plan, Subtask
from chargehand.contracts.plan import LONGEST_INSTRUCTION, MOST_SUBTASKS
from chargehand.contracts.problems import describe_problems, join_problems, printable
from workflows.rules.graph import cycle
from workflows.rules.information_flow import leaks
from workflows.rules.refusal import Refused
from workflows.rules.task_deduplication import fingerprint, normalise, task_text

SUPERVISOR: Final = "supervisor"
"""The agent name of a nested session."""
_INPUT_STEPS: Final = 5_000
"""Takes about a tenth of a second of a workflow task."""
_MOST_BYTES: Final = 200_000
"""Total of all instructions, since the status and every client's copy of the plan repeat them."""
_NOT_OF_THE_PLAN: Final = {"kind", "omitted"}
_MOST_ERRORS: Final = 20
"""Maximum errors sent to a model at once."""
_LEAST_WORDS: Final = 3
_LEAST_CHARACTERS: Final = 12
_MARKS: Final = re.compile(r"[\d#%@/\\+<>=€$£§]|\S[._-]\S")
"""Figures, paths and identifiers; an instruction with one of these names something specific."""
_SPACES: Final = dict.fromkeys(map(ord, ".,;:!?¿¡()[]\"'’“”„«»…。、，！？：；・¡-–—"), " ")


class Funds(NamedTuple):
    """What the subtasks of a plan can spend, and what those that have not begun need."""

    usd: Decimal
    """Dollars left for them."""
    first: Decimal
    """What the most expensive one needs to start."""
    others: Decimal
    """What the others add to that; most of each reservation is returned before they need it."""


class InvalidPlan(Refused):
    """A plan is invalid; `errors` lists all reasons."""

    def __init__(self, errors: Sequence[str]) -> None:
        super().__init__(join_problems(errors))
        self.errors = tuple(errors)


def check_plan(
    draft: PlanAnswer | Plan,
    crew: CrewCard,
    *,
    turns: int,
    funds: Funds | None = None,
    begun: Collection[str] = (),
    may_nest: bool,
    ancestors: Collection[str],
    inherited: frozenset[Capability] = frozenset(),
    is_approved_by_person: bool = False,
) -> Plan:
    """Validate a draft and return it as a plan.

    Args:
        draft: the plan as a model or a person wrote it.
        crew: the agents that exist.
        turns: how many turns the limits leave for its subtasks.
        funds: the dollars that the limits leave; None if dollars are not checked.
        begun: ids of subtasks that already have their turns or need no more.
        may_nest: whether a subtask may be a nested session.
        ancestors: fingerprints of the work above this session.
        inherited: the kinds of text in the goal.
        is_approved_by_person: whether a person approves the plan and thereby may allow sending out private text.

    Raises:
        InvalidPlan: with all errors.
    """
    draft = _with_strategy(_with_lists_as_inputs(draft), crew)
    agents = {agent.name for agent in crew.agents}
    if may_nest:
        agents.add(SUPERVISOR)
    problems = chain(
        _count_errors(draft),
        _limit_errors(draft, crew, turns, funds, begun),
        _shape_errors(draft),
        (error for subtask in draft.subtasks for error in _subtask_errors(subtask, agents, ancestors)),
        (error for subtask in draft.subtasks for error in _input_errors(subtask, crew)),
        _repetition_errors(draft),
        _dependency_errors(draft),
        _delivery_errors(draft),
        () if is_approved_by_person else _leak_errors(draft, crew, inherited),
    )
    errors = list(islice(problems, 1 if len(draft.subtasks) > MOST_SUBTASKS else _MOST_ERRORS))
    if errors:
        raise InvalidPlan(errors)
    plan = Plan.model_validate(draft.model_dump(exclude=_NOT_OF_THE_PLAN))
    return plan if plan.strategy == "deliver" else plan.replace(deliver=None)


def _delivery_errors(draft: PlanAnswer | Plan) -> Iterator[str]:
    ids = {subtask.id for subtask in draft.subtasks}
    if draft.strategy == "deliver" and draft.deliver not in ids:
        named = printable(draft.deliver or "", 20)
        yield f"deliver: '{named}' is not in the plan; name the subtask whose text is the report"


def _with_strategy(draft: PlanAnswer | Plan, crew: CrewCard) -> PlanAnswer | Plan:
    """Apply the crew's strategy to a plan; a single subtask is always delivered."""
    if crew.strategy is not None:
        draft = draft.replace(strategy=crew.strategy)
    if draft.strategy == "deliver" and not draft.deliver and len(draft.subtasks) == 1:
        draft = draft.replace(deliver=draft.subtasks[0].id)
    return draft


def _with_lists_as_inputs(draft: PlanAnswer | Plan) -> PlanAnswer | Plan:
    """Make every template depend on the subtask that lists its items."""
    subtasks = [
        subtask.replace(depends_on=type(subtask.depends_on)((subtask.for_each, *subtask.depends_on)))
        if subtask.for_each and subtask.for_each not in subtask.depends_on
        else subtask
        for subtask in draft.subtasks
    ]
    return draft.replace(subtasks=tuple(subtasks) if isinstance(draft, Plan) else subtasks)


def _leak_errors(draft: PlanAnswer | Plan, crew: CrewCard, inherited: frozenset[Capability]) -> Iterator[str]:
    if next(chain(_shape_errors(draft), _dependency_errors(draft)), None) is not None:
        return
    for id_, needed in leaks(draft.subtasks, crew, inherited).items():
        brought = (
            f"by {', '.join(sorted(needed))}"
            if needed
            else "by the session that it belongs to, or the one that this follows"
        )
        yield (
            f"{_name(id_)}: it reaches out, and its inputs include private text, brought {brought}; remove that "
            "input, or have a person approve the plan"
        )


def _limit_errors(
    draft: PlanAnswer | Plan, crew: CrewCard, turns: int, funds: Funds | None, begun: Collection[str]
) -> Iterator[str]:
    """Compare the total needs of the subtasks that have not begun with the remaining limits."""
    new = [subtask for subtask in draft.subtasks if subtask.id not in begun]
    is_one = len(new) == 1
    each = {agent.name: agent.least_turns if is_one else agent.planned_turns for agent in crew.agents}
    each[SUPERVISOR] = LEAST_TURNS_OF_SESSION
    needed = sum(each.get(subtask.agent, 0) + bool(subtask.for_each) for subtask in new)
    fewer = "write fewer, and name what has no room in omitted"
    if needed > turns:
        counts = ", ".join(f"the {name} {each[name]}" for name in sorted(each.keys() & {one.agent for one in new}))
        yield f"subtasks: they take at least {needed} turns ({counts}, for_each 1 more), but {turns} were left; {fewer}"
    if funds is not None and not is_one and funds.first + funds.others > funds.usd:
        yield (
            f"subtasks: they take at least ${funds.first + funds.others:.4f} (${funds.first:.4f} to start the first, "
            f"${funds.others:.4f} for the others), but ${funds.usd:.4f} was left; {fewer}"
        )


def _count_errors(draft: PlanAnswer | Plan) -> Iterator[str]:
    if not draft.subtasks:
        yield "subtasks: there are none; a plan has at least one"
    if len(draft.subtasks) > MOST_SUBTASKS:
        yield f"subtasks: there are {len(draft.subtasks)}; a plan has {MOST_SUBTASKS} at most"
    size = sum(len(subtask.instruction.encode()) + len(to_json(subtask.input)) for subtask in draft.subtasks)
    if size > _MOST_BYTES:
        yield f"subtasks: instructions and inputs have {size:,} bytes together; {_MOST_BYTES:,} at most are allowed"


def _shape_errors(draft: PlanAnswer | Plan) -> Iterator[str]:
    try:
        Plan.model_validate(draft.model_dump(exclude=_NOT_OF_THE_PLAN))
    except ValidationError as error:
        yield from describe_problems(error, Plan)


def _subtask_errors(
    subtask: SubtaskDraft | Subtask, agents: Collection[str], ancestors: Collection[str]
) -> Iterator[str]:
    where = _name(subtask.id)
    if subtask.agent == SUPERVISOR and SUPERVISOR not in agents:
        yield f"{where}: the depth limit allows no nested session; name an agent instead"
    elif subtask.agent not in agents:
        yield f"{where}: there is no agent '{printable(subtask.agent, 40)}'; the agents are {', '.join(sorted(agents))}"
    if _is_too_long(subtask.instruction):
        return
    has_inputs = bool(subtask.depends_on or subtask.input)
    if not normalise(subtask.instruction) or is_vague(subtask.instruction, has_inputs=has_inputs):
        yield f"{where}: the instruction is too vague; name its object, and what a good answer contains"
    elif fingerprint(subtask.agent, task_text(subtask)) in ancestors:
        yield f"{where}: this session is already part of the same task; that would be a loop"


def _input_errors(subtask: SubtaskDraft | Subtask, crew: CrewCard) -> Iterator[str]:
    schema = next((agent.input for agent in crew.agents if agent.name == subtask.agent), None)
    where = f"{_name(subtask.id)}: input"
    if schema is None:
        if subtask.input:
            yield f"{where}: the agent '{printable(subtask.agent, 40)}' takes none; leave it empty"
        return
    try:
        entry = Subtask.model_validate({"id": "T", "agent": "a", "instruction": "", "input": subtask.input})
    except ValidationError:
        return  # reported by the shape errors
    yield from value_problems(schema, entry.input or {}, where, _INPUT_STEPS)


def _name(subtask_id: str) -> str:
    return f"subtask {printable(subtask_id, 20)}"


def _is_too_long(instruction: str) -> bool:
    """Return whether it is refused for its length, which the shape errors report."""
    return len(instruction.strip()) > LONGEST_INSTRUCTION


def _repetition_errors(draft: PlanAnswer | Plan) -> Iterator[str]:
    ids = Counter(subtask.id for subtask in draft.subtasks)
    yield from (f"{_name(repeated)}: the id occurs {count} times" for repeated, count in ids.items() if count > 1)
    first: dict[str, int] = {}
    for position, subtask in enumerate(draft.subtasks):
        if _is_too_long(subtask.instruction):
            continue
        same = first.setdefault(fingerprint(subtask.agent, task_text(subtask)), position)
        if same != position:
            other = printable(draft.subtasks[same].id, 20)
            yield f"{_name(subtask.id)}: gives the same agent the same task as {other}"


def _dependency_errors(draft: PlanAnswer | Plan) -> Iterator[str]:
    ids = {subtask.id for subtask in draft.subtasks}
    templates = {subtask.id for subtask in draft.subtasks if subtask.for_each}
    needs = {subtask.id: dict.fromkeys(subtask.depends_on) for subtask in draft.subtasks}
    for subtask in draft.subtasks:
        where = _name(subtask.id)
        for needed in dict.fromkeys(subtask.depends_on):
            if needed not in ids:
                yield f"{where}: depends on '{printable(needed, 20)}', which is not in the plan"
        for needed in dict.fromkeys(subtask.required):
            if needed not in needs[subtask.id]:
                yield f"{where}: requires '{printable(needed, 20)}', which is not among its depends_on"
        if subtask.for_each in templates:
            listed = printable(subtask.for_each or "", 20)
            yield f"{where}: is for each item of {listed}, which is itself for each item of a list; use one list"
    loop = cycle({node: [needed for needed in needed_by if needed in ids] for node, needed_by in needs.items()})
    if loop:
        path = " -> ".join(printable(node, 20) for node in [*loop, loop[0]])
        yield f"depends_on: {path} is a cycle; no subtask of it could ever start"


def is_vague(instruction: str, *, has_inputs: bool) -> bool:
    """Return whether an instruction names neither an object nor the content of a good answer.

    "Analyze the data" is vague: each of its words fits any task. Such words are listed in `vague_words.json` by
    language; any other word (a name, a figure, a column, a question word) is enough, so that no good instruction
    is refused. A dependency also counts as an object.
    """
    return _is_short(instruction) or (not has_inputs and _fits_any_task(instruction))


def _is_short(instruction: str) -> bool:
    # Two wide characters, as in Chinese and Japanese, are about a word, that is, five other characters.
    wide = sum(unicodedata.east_asian_width(character) in {"W", "F"} for character in instruction)
    words = max(len(re.findall(pattern, instruction)) for pattern in (r"\w{2,}", r"\S{2,}")) + wide // 2
    characters = len(instruction.strip()) + wide * 3 // 2
    # Thai, Lao and Khmer put no spaces between words.
    are_few = words < _LEAST_WORDS and characters < 2 * _LEAST_CHARACTERS
    return are_few or characters < _LEAST_CHARACTERS


def _fits_any_task(instruction: str) -> bool:
    text = unicodedata.normalize("NFKC", instruction).casefold()
    if _MARKS.search(text):
        return False
    spaced, wide = _vague_words()
    for word in wide:
        text = text.replace(word, " ")
    # One language at a time: a vague word in one may be a name in another.
    left = set(text.translate(_SPACES).split())
    return any(left <= words for words in spaced)


@cache
def _vague_words() -> tuple[tuple[frozenset[str], ...], tuple[str, ...]]:
    """Load the words by language; those of languages without spaces, longest first."""
    lists: dict[str, str] = json.loads(Path(__file__).with_name("vague_words.json").read_text(encoding="utf-8"))
    wide = sorted(lists.pop("wide").split(), key=len, reverse=True)
    return tuple(frozenset(words.split()) for words in lists.values()), tuple(wide)
