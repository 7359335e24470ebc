"""The Markdown details of a session in the Temporal Web UI."""

import json
import re
from datetime import datetime
from typing import Final

from chargehand.contracts import Status, SubtaskRecord
from chargehand.messages import UPDATES
from chargehand.state_words import SUBTASK_MARKS, reason_words

_DRAWING: Final = re.compile(r"[\\`|<>\[\]$]")


def details(status: Status, at: datetime) -> str:
    """Render a session's plan, turns and dollars as of a time; the server may have ended it since."""
    # No dollar signs: the Web UI renders text between two of them as a formula.
    lines = [
        f"**{status.standing.words}**, as of {at:%Y-%m-%d %H:%M:%S} UTC",
        "",
        f"- turns: {status.turns} of {status.max_turns}",
        f"- US dollars: {status.spent_usd:.4f} of {status.budget_usd:.2f} spent, {status.reserved_usd:.4f} reserved",
    ]
    if any(record.state == "running" for record in status.subtasks):
        lines.append("- not counted yet: what running subtasks spend")
    lines += [
        f"- **{question.subtask} ({question.agent}) asks:** {_plain(question.text, 400)}"
        for question in status.questions
    ]
    lines += [
        f"- **{call.subtask} ({call.agent}) asks to use {call.tool} ({call.id}):** "
        f"{_plain(json.dumps(call.arguments, ensure_ascii=False), 400)}"
        for call in status.calls
    ]
    lines += [
        f"- **the signal {_plain(name, 60)} was ignored:** "
        + (
            f"send it as an update: temporal workflow update execute --workflow-id {_plain(status.session, 300)} "
            f"--name {name}"
            if name in UPDATES
            else "sessions are steered by updates"
        )
        for name in status.unknown_signals
    ]
    if status.subtasks:
        lines += ["", "**plan**", "", *(_line(record) for record in status.subtasks)]
    return "\n".join(lines)


def _line(record: SubtaskRecord) -> str:
    state = f"{record.state}: {_plain(reason_words(record.reason), 80)}" if record.reason else record.state
    after = f", after {', '.join(record.depends_on)}" if record.depends_on else ""
    after += f", for each item of {record.for_each}" if record.for_each else ""
    spent = f", {record.usage.turns} turns, {record.usage.cost_usd:.4f} dollars" if record.usage.turns else ""
    task = f"{record.agent}{after} · {state}{spent} · {_plain(record.instruction, 160)}"
    return f"- {SUBTASK_MARKS[record.state]} **{record.id}** {task}"


def _plain(text: str, most: int) -> str:
    """Shorten a text to one line, and escape what Markdown renders as a link, a picture or a formula."""
    return _DRAWING.sub(r"\\\g<0>", " ".join(text.split())[:most])
