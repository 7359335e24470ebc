"""Texts about a running session and its subtasks, for all screens."""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

from chargehand import PendingCall, Plan, Status, SubtaskRecord
from chargehand.contracts import SubtaskState
from chargehand.history.steps import Draft
from chargehand.state_words import Tone, reason_words
from chargehand_cli.rendering.escaping import exact_text, one_safe_line, safe_text
from chargehand_cli.rendering.text import count, dollars, duration

TONES: Final[Mapping[Tone | SubtaskState, str]] = {
    "waiting": "bright_black",
    "running": "blue",
    "success": "green",
    "partial": "yellow",
    "failure": "red",
    "escalation": "magenta",
    "skipped": "red",
}
"""Terminal colours by tone."""


def spend_facts(status: Status) -> list[str]:
    """Return the turns and dollars spent, with their limits if known."""
    if status.max_turns:
        budget = f"{dollars(status.spent_usd)} of {dollars(status.budget_usd)}"
        return [f"{status.turns} of {status.max_turns} turns", budget]
    return [count(status.turns, "turn"), dollars(status.spent_usd)] if status.turns else []


def argument_lines(call: PendingCall) -> Iterator[str]:
    """Render all arguments of a pending call, one per line."""
    for name, value in call.arguments.items():
        yield exact_text(f"{name}: {json.dumps(value, ensure_ascii=False)}").replace("\n", "\N{SYMBOL FOR LINE FEED}")


def record_state(record: SubtaskRecord) -> SubtaskState:
    """Return the state that determines a subtask's mark and colour: `waiting` if it waits for a person."""
    return "waiting" if record.state == "running" and record.reason else record.state


def record_words(record: SubtaskRecord, at: datetime | None = None) -> str:
    """Describe a subtask's state in a few words, without its reason; if running, include its duration up to `at`."""
    facts: list[str] = [reason_words(record.reason) if record.state == "running" and record.reason else record.state]
    if record.state == "waiting" and record.depends_on:
        facts = [f"waiting for {', '.join(one_safe_line(each, 20) for each in record.depends_on)}"]
    if record.for_each:
        facts.append(f"for each item of {one_safe_line(record.for_each, 20)}")
    if record.attempts > 1:
        facts.append(f"attempt {record.attempts}")
    until = record.ended_at or (at if record_state(record) == "running" else None)
    if record.started_at and until:
        facts.append(duration(until - record.started_at))
    return ", ".join(facts)


def record_reason(record: SubtaskRecord) -> str:
    """Return why a subtask is in its state, possibly as a sentence; empty if the state implies it."""
    return "" if record.state in ("running", record.reason) else one_safe_line(reason_words(record.reason), 400)


def step_words(step: Draft) -> str:
    """Describe a turn by number and purpose, a tool call by tool and first argument."""
    if step.kind != "turn":
        return one_safe_line(step.name, 300)
    number = step.activity_id.removeprefix("turn-").replace(".again-", ", again ")
    return f"turn {number}: {step.purpose.replace('_', ' ')}"


def plan_lines(plan: Plan) -> Iterator[str]:
    """Describe a plan with all texts to approve: agents, instructions, dependencies and the final report."""
    for subtask in plan.subtasks:
        after = f" after {', '.join(map(one_safe_line, subtask.depends_on))}" if subtask.depends_on else ""
        yield f"{one_safe_line(subtask.id)} {one_safe_line(subtask.agent)}{after}"
        for line in safe_text(subtask.instruction).splitlines():
            yield f"    {line}"
        if subtask.input is not None:
            yield f"    input: {exact_text(json.dumps(subtask.input, ensure_ascii=False))}"
    yield f"Then: {plan.strategy}. {' '.join(safe_text(plan.final_instruction).split())}".rstrip()
