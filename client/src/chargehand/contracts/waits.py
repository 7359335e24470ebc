"""Waits of a session for a person's decision, pending tool calls, and the decisions."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Literal

from pydantic import JsonValue, StringConstraints

from chargehand.contracts.base import Contract, NoControlCharacters, left_out

__all__ = ["DecisionRecord", "PendingCall", "Question", "Wait"]

WaitKind = Literal["plan", "call", "question", "limits", "message"]
"""A plan or a tool call that awaits approval, a question of a subtask, limits that are reached, or the next message of
a conversation."""
Verdict = Literal["approved", "edited", "rejected", "answered", "declined", "raised", "none"]
"""A decision; `none` if the wait ended without one."""
Decider = Annotated[str, StringConstraints(max_length=200), NoControlCharacters]
"""Who decides and through which channel (200 characters at most), as stated by the sending program."""


class Wait(Contract):
    """A session's wait for a person's decision."""

    id: str
    """Its id in the session: `plan`, the id of the call, `question-T1`, `limits-1`, `message-2` after the reply
    of that number."""
    kind: WaitKind
    """What has to be decided."""
    asks: str
    """The request, in a line of at most 500 characters."""
    since: datetime
    """When the wait began."""
    until: datetime
    """When it expires."""


class DecisionRecord(Contract):
    """How a wait for a person ended."""

    wait: str
    """Id of the wait."""
    kind: WaitKind
    """The kind of wait."""
    decision: Verdict
    """The decision; `none` if the wait ended without one."""
    by: str = left_out("")
    """Who decided, if stated."""
    at: datetime
    """When the wait ended."""


class Question(Contract):
    """A subtask's question for a person."""

    subtask: str
    """The subtask's id in the plan; `Answer.subtask` repeats it."""
    agent: str
    """The agent that asks."""
    text: str
    """The question."""
    form: dict[str, JsonValue] = left_out({})
    """JSON Schema of the object expected as the answer, as JSON; for a single field, its value will do."""
    open_until: datetime
    """When the subtask continues without an answer."""


class PendingCall(Contract):
    """A tool call awaiting a person's approval."""

    id: str
    """Id of the call in the session: `c1`, `c2`, …"""
    hash: str
    """SHA-256 of the agent, the tool and the arguments, as hexadecimal digits."""
    subtask: str
    """The agent's subtask, such as `T1`, or `T2/T1` in the session of `T2`."""
    agent: str
    """The agent that makes the call."""
    tool: str
    """The tool."""
    arguments: dict[str, JsonValue]
    """The arguments exactly as the tool will receive them."""
    is_doubtful: bool = False
    """Whether the call was already made, with an unknown outcome: `approve` repeats it; with `reject`, the agent reads
    the reason."""
    why: str = left_out("")
    """Why the call needs a person, if calls of its tool otherwise do not."""
    workflow_id: str
    """Id of the workflow that waits."""
    open_until: datetime
    """When the call is denied if there is no decision."""


def call_title(tool: str, arguments: Mapping[str, JsonValue]) -> str:
    """Summarise a call in a line: the tool's name and the beginning of its first argument."""
    first: Sequence[object] = list(arguments.values())[:1]
    return f"{tool}: {' '.join(str(*first).split())[:120]}"
