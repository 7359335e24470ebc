"""Tool calls that wait for a person."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from pydantic import JsonValue

from chargehand.contracts.base import Contract, left_out

__all__ = ["PendingCall"]


class PendingCall(Contract):
    """A tool call that waits for a person's approval."""

    id: str
    """Id of the call in the session: `c1`, `c2`, …"""
    hash: str
    """SHA-256 of the agent, the tool and the arguments, as hexadecimal digits."""
    subtask: str
    """Id of the agent's subtask in its plan."""
    agent: str
    """The agent that makes the call."""
    tool: str
    """The tool."""
    arguments: dict[str, JsonValue]
    """The arguments, exactly as the tool will get them."""
    is_doubtful: bool = False
    """Whether the call was made with an unknown outcome: `approve` makes it again; of a `reject`, the agent
    is told the reason."""
    why: str = left_out("")
    """Why the call is not made without a person, if calls of its tool may be."""
    workflow_id: str
    """Id of the workflow that waits; in a nested session, its plan has the subtask."""
    open_until: datetime
    """When the call is denied without a decision."""


def call_title(tool: str, arguments: Mapping[str, JsonValue]) -> str:
    """Say in a line what a tool is called for: its name, and the beginning of its first argument."""
    first: Sequence[object] = list(arguments.values())[:1]
    return f"{tool}: {' '.join(str(*first).split())[:120]}"
