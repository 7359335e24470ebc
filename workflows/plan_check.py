"""Which plans may be carried out: every reason against one, in words that a model can act on."""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final, get_args

from pydantic import ValidationError

from activities.contracts import CrewCard, PlanDraft, SubtaskDraft
from chargehand.contracts import Plan, Strategy, Subtask
from chargehand.converter import describe_problems
from workflows.graph import cycle
from workflows.guard import fingerprint, normalise

SUPERVISOR: Final = "supervisor"
"""The agent name that stands for a session of its own."""
_LEAST_WORDS: Final = 3
_LEAST_CHARACTERS: Final = 12


class InvalidPlan(ValueError):  # noqa: N818  # it is raised as a statement of fact
    """A plan cannot be carried out; `errors` says all that is wrong with it."""

    def __init__(self, errors: Sequence[str]) -> None:
        super().__init__("; ".join(errors))
        self.errors = tuple(errors)


def check_plan(
    draft: PlanDraft | Plan, crew: CrewCard, *, max_subtasks: int, may_nest: bool, ancestors: Collection[str]
) -> Plan:
    """Turn a draft into a plan that can be carried out.

    Args:
        draft: the plan as a model or a person wrote it.
        crew: the agents that exist.
        max_subtasks: how many subtasks the limits pay for.
        may_nest: whether a subtask may be a session of its own.
        ancestors: fingerprints of the work that this session is part of.

    Raises:
        InvalidPlan: with every reason against it.
    """
    agents = {agent.name for agent in crew.agents}
    if may_nest:
        agents.add(SUPERVISOR)
    errors = [
        *_count_errors(draft, max_subtasks),
        *(error for subtask in draft.subtasks for error in _subtask_errors(subtask, agents, ancestors)),
        *_repetition_errors(draft),
        *_dependency_errors(draft),
    ]
    if draft.strategy not in get_args(Strategy):
        errors.append(f"strategy: '{draft.strategy[:40]}' is none of {', '.join(get_args(Strategy))}")
    if errors:
        raise InvalidPlan(errors)
    try:
        return Plan.model_validate(draft.model_dump())
    except ValidationError as error:
        raise InvalidPlan(describe_problems(error, Plan)) from None


def _count_errors(draft: PlanDraft | Plan, max_subtasks: int) -> list[str]:
    if not draft.subtasks:
        return ["subtasks: there are none; a plan has at least one"]
    if len(draft.subtasks) > max_subtasks:
        return [f"subtasks: there are {len(draft.subtasks)}, but the limits pay for {max_subtasks} at most"]
    return []


def _subtask_errors(subtask: SubtaskDraft | Subtask, agents: Collection[str], ancestors: Collection[str]) -> list[str]:
    errors: list[str] = []
    where = f"subtask {subtask.id[:20]}"
    if subtask.agent == SUPERVISOR and SUPERVISOR not in agents:
        errors.append(f"{where}: the depth limit allows no further session below this one; name an agent instead")
    elif subtask.agent not in agents:
        errors.append(f"{where}: there is no agent '{subtask.agent[:40]}'; there are {', '.join(sorted(agents))}")
    if _is_vague(subtask.instruction):
        errors.append(
            f"{where}: the instruction is too vague; say in a full sentence what to find or make, complete in itself"
        )
    elif fingerprint(subtask.agent, subtask.instruction) in ancestors:
        errors.append(f"{where}: this very work is already being done above; it would go in a circle")
    return errors


def _is_vague(instruction: str) -> bool:
    words = re.findall(r"\w{2,}", instruction)
    return len(words) < _LEAST_WORDS or len(instruction.strip()) < _LEAST_CHARACTERS or not normalise(instruction)


def _repetition_errors(draft: PlanDraft | Plan) -> list[str]:
    ids = Counter(subtask.id for subtask in draft.subtasks)
    errors = [f"subtask {repeated[:20]}: the id occurs {count} times" for repeated, count in ids.items() if count > 1]
    first: dict[str, str] = {}
    for subtask in draft.subtasks:
        twin = first.setdefault(fingerprint(subtask.agent, subtask.instruction), subtask.id)
        if twin != subtask.id:
            errors.append(f"subtask {subtask.id[:20]}: asks the same agent for the same thing as {twin[:20]}")
    return errors


def _dependency_errors(draft: PlanDraft | Plan) -> list[str]:
    ids = {subtask.id for subtask in draft.subtasks}
    errors: list[str] = []
    for subtask in draft.subtasks:
        where = f"subtask {subtask.id[:20]}"
        errors += [
            f"{where}: depends on '{needed[:20]}', which is not in the plan"
            for needed in subtask.depends_on
            if needed not in ids
        ]
        errors += [
            f"{where}: requires '{needed[:20]}', which is not among its depends_on"
            for needed in subtask.required
            if needed not in subtask.depends_on
        ]
    loop = cycle({subtask.id: [needed for needed in subtask.depends_on if needed in ids] for subtask in draft.subtasks})
    if loop:
        errors.append(f"depends_on: {' -> '.join([*loop, loop[0]])} is a cycle; no subtask of it could ever start")
    return errors
