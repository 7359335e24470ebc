"""States, stop reasons and reasons, with their words and tone on every screen; a translation is a file like this."""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

SessionState = Literal[
    "queued",
    "planning",
    "awaiting_approval",
    "executing",
    "awaiting_answer",
    "awaiting_call_approval",
    "awaiting_message",
    "paused",
    "synthesising",
    "finished",
    "failed",
    "cancelled",
    "terminated",
    "timed_out",
]
"""The server sets the last two when it ends a session, which cannot report that itself."""
ENDED: Final[frozenset[SessionState]] = frozenset({"finished", "failed", "cancelled", "terminated", "timed_out"})
"""States of ended sessions."""
SubtaskState = Literal["waiting", "running", "success", "partial", "failure", "escalation", "skipped"]
StopReason = Literal[
    "completed",
    "partial",
    "unanswered",
    "deadline",
    "out_of_turns",
    "out_of_budget",
    "overcharged",
    "finish_now",
    "nothing_succeeded",
    "unwritten",
    "invalid_output",
]
"""Why the session stopped: `completed` means that the plan was carried out completely and the report was written
without gaps; `partial`, that the report was written but names gaps; `unanswered`, that it states nothing, such as a
refusal or a question; `unwritten`, that no model could write the report, which therefore lists the outcomes unedited;
`invalid_output`, that the report was written, but no `output` satisfies the request's `output_schema`; `overcharged`,
that a provider charged more than its reservation, beyond the budget."""
EndReason = Literal["closed", "idle", "out_of_turns", "out_of_budget", "overcharged"]
"""Why a conversation ended: `closed` by a person, `idle` for too long, or at its limits."""
Tone = Literal["success", "partial", "failure", "escalation", "running", "waiting"]
"""The meaning of a colour. Only `success` is green: a session that answered everything and whose claims are all
verified, or a subtask that succeeded."""


class Standing(NamedTuple):
    """The state or end of a session, as words and a colour."""

    words: str
    tone: Tone


SESSION_STATES: Final[Mapping[SessionState | Literal["running", "completed"], Standing]] = {
    "queued": Standing("queued", "waiting"),
    "planning": Standing("planning", "running"),
    "awaiting_approval": Standing("awaiting approval", "partial"),
    "executing": Standing("executing", "running"),
    "awaiting_answer": Standing("awaiting an answer", "partial"),
    "awaiting_call_approval": Standing("awaiting call approval", "partial"),
    "awaiting_message": Standing("awaiting a message", "waiting"),
    "paused": Standing("paused", "partial"),
    "synthesising": Standing("writing the report", "running"),
    "finished": Standing("finished", "waiting"),
    "failed": Standing("failed", "failure"),
    "cancelled": Standing("cancelled", "waiting"),
    "running": Standing("running", "running"),
    "completed": Standing("finished", "waiting"),
    "terminated": Standing("terminated", "failure"),
    "timed_out": Standing("timed out", "failure"),
}
"""Words of a session's own states and of the server's. For finished sessions, the stop reason applies instead."""
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
    "terminated": "the session was terminated.",
    "timed_out": "the server ended the session at its time-out.",
}
"""Why a session has no report, by state."""
NEEDS: Final[Mapping[SessionState, str]] = {
    "awaiting_approval": "The plan awaits approval.",
    "awaiting_answer": "An agent awaits an answer.",
    "awaiting_call_approval": "A tool call awaits approval.",
    "paused": "Paused at a limit: raise it, or have the report written.",
}
"""What a session needs from a person, by state."""
STOP_REASONS: Final[Mapping[StopReason | EndReason, Standing]] = {
    "completed": Standing("answered", "success"),
    "partial": Standing("answered in part", "partial"),
    "unanswered": Standing("not answered", "partial"),
    "deadline": Standing("stopped at its deadline", "partial"),
    "out_of_turns": Standing("stopped: out of turns", "partial"),
    "out_of_budget": Standing("stopped: out of budget", "partial"),
    "overcharged": Standing("stopped: a provider charged more than was reserved", "partial"),
    "finish_now": Standing("stopped by `finish`", "partial"),
    "nothing_succeeded": Standing("nothing succeeded", "failure"),
    "unwritten": Standing("not written by a model", "partial"),
    "invalid_output": Standing("without a valid output", "partial"),
    "closed": Standing("closed", "waiting"),
    "idle": Standing("closed: idle for too long", "waiting"),
}
_LOG: Final = "The reasons of its subtasks and the worker's log name the cause."
STOP_REMEDIES: Final[Mapping[str | None, str]] = {
    "deadline": "Raise the deadline; if a provider or a tool failed meanwhile, the worker's log names the cause.",
    "out_of_turns": "Raise max_turns, or name a larger profile.",
    "out_of_budget": "Raise budget_usd, or name a larger profile.",
    "overcharged": "Compare CHARGEHAND_PRICES with the provider's price list.",
    "invalid_output": "Correct the schema by the problems that the report lists, or name a larger model.",
    **dict.fromkeys(("nothing_succeeded", "unwritten"), _LOG),
}
"""What to do about an end that a limit or a failure caused."""
REASONS: Final[Mapping[str, str]] = {
    "provider_unavailable": "the model provider does not answer, or answers with errors",
    "provider_refused": "the model provider refused the call",
    "refused": "the model declined",
    "truncated": "the reply was cut off",
    "empty": "the reply was empty",
    "malformed": "the reply was malformed",
    "invalid_output": "no valid output",
    "no_answer": "no answer was found",
    "deadline": "out of time",
    "duplicate": "the same task was given before",
    "tool_unavailable": "a tool is unavailable",
    "quarantined": "two workers were lost in the middle of it",
    "internal": "a fault of the worker, whose log names the cause",
    "ambiguous_input": "the task can be read in several ways",
    "out_of_scope": "it is another agent's work",
    "confidence_too_low": "the agent is not sure enough",
    "timeout": "it takes longer than the agent has",
    "too_big": "it is too much for one agent",
}
"""Why a subtask has no result or only a partial one, for reasons whose name does not say it."""
_UNVERIFIED: Final = Standing("answered, not all verified", "partial")
_VERIFIED: Final = (None, "computed", "supported")
"""Verifications that count as verified; None means that there are no claims."""
SUBTASK_MARKS: Final[Mapping[SubtaskState, str]] = {
    "waiting": "·",
    "running": "▶",
    "success": "✔",
    "partial": "◐",
    "failure": "✘",
    "escalation": "↑",
    "skipped": "–",
}


def reason_words(reason: str) -> str:
    """Return the words for a reason; a reason written for people is unchanged."""
    return REASONS.get(reason, reason.replace("_", " ") if reason.isidentifier() else reason)


def standing(state: str, stop_reason: str = "", verification: str | None = None) -> Standing:
    """Return the words and the tone of a session's state or end, as used on all screens.

    Temporal spells one state differently, and newer workers may report unknown ones.

    Args:
        state: Chargehand's or Temporal's state.
        stop_reason: why it stopped, if it has a report or is a conversation.
        verification: of the report's weakest claim; None if it has no claims.
    """
    ended: Mapping[str, Standing] = {**STOP_REASONS}
    states: Mapping[str, Standing] = {**SESSION_STATES}
    if stop_reason and state in ("finished", "completed"):
        if stop_reason == "completed" and verification not in _VERIFIED:
            return _UNVERIFIED
        return ended.get(stop_reason, Standing(stop_reason.replace("_", " "), "partial"))
    state = "cancelled" if state == "canceled" else state
    return states.get(state, Standing(state.replace("_", " "), "waiting"))
