"""Templates of a plan: one subtask for each item of a list that is known only once another subtask has ended."""

from collections.abc import Collection, Sequence
from typing import Final

from chargehand.contracts import Plan, Subtask

MOST_ITEMS: Final = 50
"""Subtasks that one template may become."""
_LONGEST_BASE: Final = 16
"""Characters of a template's id that the ids of its items begin with; theirs have 20 at most."""


def expand_template(plan: Plan, template: Subtask, instructions: Sequence[str]) -> Plan:
    """Replace a template by one subtask for each instruction, not yet checked.

    What depends on the template depends on all that it becomes. Where it is required, a single subtask still is; of
    several, those that are lost become gaps.
    """
    ids = _item_ids(template.id, len(instructions), {subtask.id for subtask in plan.subtasks})
    items = tuple(
        template.model_copy(update={"id": id_, "instruction": instruction, "for_each": None})
        for id_, instruction in zip(ids, instructions, strict=True)
    )
    required = ids if len(ids) == 1 else ()
    subtasks: list[Subtask] = []
    for subtask in plan.subtasks:
        subtasks += items if subtask.id == template.id else (_repoint(subtask, template.id, ids, required),)
    return plan.model_copy(update={"subtasks": tuple(subtasks)})


def item_ids(before: Plan, after: Plan) -> frozenset[str]:
    """Name the subtasks that an expansion has made."""
    return frozenset(subtask.id for subtask in after.subtasks) - {subtask.id for subtask in before.subtasks}


def _item_ids(template: str, count: int, taken: Collection[str]) -> tuple[str, ...]:
    """Number the items of a template, past the ids that are taken."""
    candidates = (f"{template[:_LONGEST_BASE]}-{number}" for number in range(1, count + len(taken) + 1))
    free = [candidate for candidate in candidates if candidate not in taken]
    return tuple(free[:count])


def _repoint(subtask: Subtask, template: str, ids: Sequence[str], required: Sequence[str]) -> Subtask:
    if template not in subtask.depends_on:
        return subtask
    return subtask.model_copy(
        update={
            "depends_on": _replace(subtask.depends_on, template, ids),
            "required": _replace(subtask.required, template, required),
        }
    )


def _replace(ids: Sequence[str], old: str, new: Sequence[str]) -> tuple[str, ...]:
    return tuple(each for id_ in ids for each in (new if id_ == old else (id_,)))
