"""The words for states and stop reasons on every screen. A translation is another file like this one."""

from collections.abc import Mapping
from typing import Final, Literal

from chargehand.contracts import SessionState, StopReason, SubtaskState

SESSION_STATES: Final[Mapping[SessionState | Literal["running", "completed", "terminated", "timed_out"], str]] = {
    "queued": "queued",
    "planning": "planning",
    "awaiting_approval": "awaiting approval",
    "executing": "executing",
    "awaiting_answer": "awaiting an answer",
    "awaiting_call_approval": "awaiting call approval",
    "awaiting_message": "awaiting a message",
    "paused": "paused",
    "synthesising": "writing the report",
    "finished": "finished",
    "failed": "failed",
    "cancelled": "cancelled",
    "running": "running",
    "completed": "completed",
    "terminated": "terminated",
    "timed_out": "timed out",
}
"""A session's own states, and those that only the server knows."""
NO_REPORT: Final[Mapping[SessionState, str]] = {
    "queued": "it waits for its turn among the sessions of its tenant.",
    "planning": "the session is still planning its work.",
    "awaiting_approval": "its plan awaits approval.",
    "executing": "its subtasks are still running.",
    "awaiting_answer": "an agent awaits an answer.",
    "awaiting_call_approval": "a tool call awaits approval.",
    "awaiting_message": "it is a conversation.",
    "paused": "the session is paused at a limit.",
    "synthesising": "it is being written.",
    "finished": "it can no longer be read from the server.",
    "failed": "the session failed.",
    "cancelled": "the session was cancelled.",
}
"""Why a session in a state has no report."""
NEEDS: Final[Mapping[SessionState, str]] = {
    "awaiting_approval": "The plan awaits approval.",
    "awaiting_answer": "An agent awaits an answer.",
    "awaiting_call_approval": "A tool call awaits approval.",
    "paused": "Paused at a limit: raise it, or have the report written.",
}
"""What a session in a state needs from a person."""
STOP_REASONS: Final[Mapping[StopReason, str]] = {
    "completed": "completed",
    "partial": "answered in part",
    "deadline": "stopped at its deadline",
    "out_of_turns": "stopped: out of turns",
    "out_of_budget": "stopped: out of budget",
    "overcharged": "stopped: a provider charged more than was reserved",
    "finish_now": "stopped by `finish`",
    "nothing_succeeded": "nothing succeeded",
    "unwritten": "not written by a model",
    "invalid_output": "without a valid output",
}
SUBTASK_MARKS: Final[Mapping[SubtaskState, str]] = {
    "waiting": "·",
    "running": "▶",
    "success": "✔",
    "partial": "◐",
    "failure": "✘",
    "escalation": "↑",
    "skipped": "–",
}


def state_words(state: str) -> str:
    """Name a state in words; Temporal spells one of them its own way, and a newer worker may know others."""
    known: Mapping[str, str] = {**SESSION_STATES}
    state = "cancelled" if state == "canceled" else state
    return known.get(state, state.replace("_", " "))


def stop_words(reason: str) -> str:
    """Name a stop reason in words; a newer worker may know others."""
    known: Mapping[str, str] = {**STOP_REASONS}
    return known.get(reason, reason.replace("_", " "))
