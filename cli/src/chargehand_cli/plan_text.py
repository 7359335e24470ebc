"""A plan as lines of text."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from chargehand_cli.rendering.escaping import one_safe_line, safe_text

if TYPE_CHECKING:
    from chargehand import Plan


def plan_lines(plan: "Plan") -> Iterator[str]:
    """Describe a plan: who does what after what, and what is made of it."""
    for subtask in plan.subtasks:
        after = f" after {', '.join(map(one_safe_line, subtask.depends_on))}" if subtask.depends_on else ""
        yield f"{one_safe_line(subtask.id)} {one_safe_line(subtask.agent)}{after}"
        for line in safe_text(subtask.instruction).splitlines():
            yield f"    {line}"
    yield f"Then: {plan.strategy}. {one_safe_line(plan.final_instruction, 2_000)}".rstrip()
