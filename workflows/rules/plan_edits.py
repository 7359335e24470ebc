"""Edits of a running plan by people, who can change what has not begun. Pure."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final, Literal

from chargehand.contracts import (
    AddSubtask,
    DropSubtask,
    EditRecord,
    Plan,
    PlanChange,
    ReorderSubtask,
    RerouteSubtask,
    RewordSubtask,
    Subtask,
)
from chargehand.contracts.problems import printable
from workflows.rules.plan_validation import InvalidPlan

_BEFORE_CHARACTERS: Final = 200
"""Maximum of the previous text, since the report lists every edit."""


def apply_edits(
    plan: Plan, edits: Sequence[PlanChange], begun: Collection[str], at: datetime
) -> tuple[Plan, tuple[EditRecord, ...]]:
    """Apply edits in order; the result still has to be validated. Subtasks that have begun cannot be changed.

    Raises:
        InvalidPlan: an edit names a subtask that is not in the plan, or that has begun.
    """
    draft = _Draft(plan, begun, at)
    for number, edit in enumerate(edits):
        draft.apply(edit, f"edits.{number}")
    if draft.errors:
        raise InvalidPlan(draft.errors)
    return plan.replace(subtasks=tuple(draft.subtasks)), tuple(draft.records)


class _Draft:
    def __init__(self, plan: Plan, begun: Collection[str], at: datetime) -> None:
        self.subtasks = list(plan.subtasks)
        self.records: list[EditRecord] = []
        self.errors: list[str] = []
        self._begun = begun
        self._at = at

    def apply(self, edit: PlanChange, where: str) -> None:
        match edit:
            case AddSubtask(subtask=added, before=before):
                self._place(added, before, len(self.subtasks), where)
                self._record("add", added.id)
            case DropSubtask(subtask=id_):
                if dropped := self._take(id_, where):
                    self._record("drop", id_, f"{dropped.agent}: {dropped.instruction}")
            case RewordSubtask(subtask=id_, instruction=instruction):
                if reworded := self._change(id_, where, instruction=instruction):
                    self._record("reword", id_, reworded.instruction)
            case RerouteSubtask(subtask=id_, agent=agent):
                if rerouted := self._change(id_, where, agent=agent):
                    self._record("reroute", id_, rerouted.agent)
            case ReorderSubtask():
                self._reorder(edit, where)

    def _reorder(self, edit: ReorderSubtask, where: str) -> None:
        if edit.before is None and edit.depends_on is None:
            self.errors.append(f"{where}: give before, depends_on or both")
            return
        place = self._place_of(edit.subtask)
        moved = self._take(edit.subtask, where)
        if moved is None or place is None:
            return
        self._record("reorder", moved.id, ", ".join(moved.depends_on))
        if edit.depends_on is not None:
            required = tuple(each for each in moved.required if each in edit.depends_on)
            moved = moved.replace(depends_on=edit.depends_on, required=required)
        self._place(moved, edit.before, place, where)

    def _place(self, subtask: Subtask, before: str | None, otherwise: int, where: str) -> None:
        place = otherwise if before is None else self._place_of(before)
        if place is None:
            self.errors.append(f"{where}.before: '{printable(before or '', 20)}' is not in the plan")
        else:
            self.subtasks.insert(place, subtask)

    def _take(self, id_: str, where: str) -> Subtask | None:
        place = self._changeable(id_, where)
        return None if place is None else self.subtasks.pop(place)

    def _change(self, id_: str, where: str, **values: str) -> Subtask | None:
        """Change a subtask; return its previous version, or None if it cannot be changed."""
        if (place := self._changeable(id_, where)) is None:
            return None
        before = self.subtasks[place]
        self.subtasks[place] = before.replace(**values)
        return before

    def _changeable(self, id_: str, where: str) -> int | None:
        place = self._place_of(id_)
        if place is not None and id_ not in self._begun:
            return place
        problem = "is not in the plan" if place is None else "has begun"
        open_ = ", ".join(each.id for each in self.subtasks if each.id not in self._begun) or "none"
        self.errors.append(f"{where}.subtask: '{id_}' {problem}; subtasks that have not begun: {open_}")
        return None

    def _place_of(self, id_: str) -> int | None:
        return next((place for place, each in enumerate(self.subtasks) if each.id == id_), None)

    def _record(
        self, edit: Literal["add", "drop", "reword", "reroute", "reorder"], subtask: str, before: str = ""
    ) -> None:
        self.records.append(EditRecord(edit=edit, subtask=subtask, at=self._at, before=before[:_BEFORE_CHARACTERS]))
