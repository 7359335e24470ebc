"""The form of a plan: a row for each subtask, and empty ones for more."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError
from starlette.datastructures import FormData

from chargehand.contracts import Plan

_EMPTY_ROWS: Final = 3
_ROW: Final = "rows."


@dataclass(frozen=True)
class PlanRow:
    number: int
    id: str = ""
    agent: str = ""
    instruction: str = ""
    depends_on: str = ""


def plan_rows(plan: Plan) -> list[PlanRow]:
    """List the rows of a plan, the last ones empty."""
    rows = [
        PlanRow(number, each.id, each.agent, each.instruction, ", ".join(each.depends_on))
        for number, each in enumerate(plan.subtasks, start=1)
    ]
    return rows + [PlanRow(len(rows) + number) for number in range(1, _EMPTY_ROWS + 1)]


def has_rows(form: FormData) -> bool:
    return any(name.startswith(_ROW) for name in form)


def read_plan(form: FormData) -> dict[str, Any]:
    """Read the plan that was typed, as its contract is written; what has no field stays as it was.

    A row `rows.2` was made of the subtask `rows.2.was`; its place among the others is `rows.2.place`.
    """
    try:
        plan = Plan.model_validate_json(str(form.get("plan", "")))
    except ValidationError:  # not as this page has written it
        plan = Plan(subtasks=())
    before = {each.id: each.model_dump(mode="json") for each in plan.subtasks}
    return plan.model_dump(mode="json") | {
        "subtasks": [_subtask(row, before.get(row.get("was", ""), {})) for row in _in_order(form)],
        "final_instruction": str(form.get("final_instruction", plan.final_instruction)),
    }


def _in_order(form: FormData) -> Iterator[Mapping[str, str]]:
    """Yield the rows that are not empty and not dropped, by their places."""
    rows: dict[str, dict[str, str]] = {}
    for name, value in form.items():
        if name.startswith(_ROW) and isinstance(value, str):
            number, _, field = name.removeprefix(_ROW).partition(".")
            rows.setdefault(number, {})[field] = value.replace("\r\n", "\n").strip()
    kept = [row for row in rows.values() if "drop" not in row and (row.get("id") or row.get("instruction"))]
    yield from sorted(kept, key=lambda row: _place(row.get("place", "")))


def _place(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("inf")


def _subtask(row: Mapping[str, str], before: Mapping[str, Any]) -> dict[str, Any]:
    after = row.get("depends_on", "").replace(",", " ").split()
    required = [each for each in before.get("required") or () if each in after]
    typed = {"id": row.get("id", ""), "agent": row.get("agent", ""), "instruction": row.get("instruction", "")}
    return {**before, **typed, "depends_on": after, "required": required}
