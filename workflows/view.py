"""What the Temporal Web UI shows of a session: Markdown."""

import re
from typing import Final

from chargehand.contracts import Status, SubtaskRecord

_MARKS: Final = {
    "waiting": "·",
    "running": "▶",
    "success": "✔",
    "partial": "◐",
    "failure": "✘",
    "escalation": "↑",
    "skipped": "–",
}
_DRAWING: Final = re.compile(r"[\\`|<>\[\]]")


def details(status: Status) -> str:
    """Draw a session's state as Markdown: the plan with states, turns and dollars against their limits."""
    state = status.state.replace("_", " ")
    dollars = f"${status.spent_usd:.4f} of ${status.budget_usd:.2f} spent, ${status.reserved_usd:.4f} set aside"
    lines = [f"**{state}** · {status.turns} of {status.max_turns} turns · {dollars}"]
    if status.subtasks:
        lines += ["", "| | id | agent | after | state | turns | $ | instruction |", "|---|---|---|---|---|---|---|---|"]
        lines += [_row(record) for record in status.subtasks]
    return "\n".join(lines)


def _row(record: SubtaskRecord) -> str:
    state = f"{record.state}: {_cell(record.reason, 80)}" if record.reason else record.state
    return (
        f"| {_MARKS[record.state]} | {record.id} | {record.agent} | {', '.join(record.depends_on)} | {state} "
        f"| {record.usage.turns} | {record.usage.cost_usd:.4f} | {_cell(record.instruction, 160)} |"
    )


def _cell(text: str, most: int) -> str:
    """Make a text fit into a cell: one line, and nothing in it draws a table, a link or a picture."""
    return _DRAWING.sub(r"\\\g<0>", " ".join(text.split())[:most])
