"""Templates of a plan: each stands for one subtask per item of a list that another subtask produces. Pure."""

from collections.abc import Collection, Sequence
from typing import Final

from chargehand.contracts import Plan, Subtask

MOST_ITEMS: Final = 50
"""Maximum subtasks of one template."""
_LONGEST_BASE: Final = 16
"""Characters of a template's id with which its items' ids begin; ids have at most 20."""


def expand_template(plan: Plan, template: Subtask, instructions: Sequence[str]) -> Plan:
    """Replace a template with one subtask per instruction; the result still has to be validated.

    Dependents of the template depend on all its subtasks. A required template stays required if it is a single subtask;
    if there are several, lost ones become gaps.
    """
    ids = _item_ids(template.id, len(instructions), {subtask.id for subtask in plan.subtasks})
    items = tuple(
        template.replace(id=id_, instruction=instruction, for_each=None)
        for id_, instruction in zip(ids, instructions, strict=True)
    )
    required = ids if len(ids) == 1 else ()
    subtasks: list[Subtask] = []
    for subtask in plan.subtasks:
        subtasks += items if subtask.id == template.id else (_repoint(subtask, template.id, ids, required),)
    return plan.replace(subtasks=tuple(subtasks))


def item_ids(before: Plan, after: Plan) -> frozenset[str]:
    """List the ids of the subtasks that an expansion created."""
    return frozenset(subtask.id for subtask in after.subtasks) - {subtask.id for subtask in before.subtasks}


def _item_ids(template: str, count: int, taken: Collection[str]) -> tuple[str, ...]:
    """Number the items of a template, skipping ids that are taken."""
    candidates = (f"{template[:_LONGEST_BASE]}-{number}" for number in range(1, count + len(taken) + 1))
    free = [candidate for candidate in candidates if candidate not in taken]
    return tuple(free[:count])


def _repoint(subtask: Subtask, template: str, ids: Sequence[str], required: Sequence[str]) -> Subtask:
    if template not in subtask.depends_on:
        return subtask
    return subtask.replace(
        depends_on=_replace(subtask.depends_on, template, ids), required=_replace(subtask.required, template, required)
    )


def _replace(ids: Sequence[str], old: str, new: Sequence[str]) -> tuple[str, ...]:
    return tuple(each for id_ in ids for each in (new if id_ == old else (id_,)))
