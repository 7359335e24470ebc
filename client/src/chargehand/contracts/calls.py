"""Tool calls that wait for a person, and what the person decides."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, JsonValue, StringConstraints

from chargehand.contracts.base import Contract, NoControlCharacters, TypedByPeople

CallId = Annotated[str, StringConstraints(pattern=r"^c[1-9][0-9]{0,5}$")]


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
    """Whether the call was made, and nobody knows if it was applied: `approve` makes it again; of a `reject`, the agent
    is told the reason."""
    workflow_id: str
    """Id of the workflow that waits; in a nested session, its plan has the subtask."""
    open_until: datetime
    """When the call is denied without a decision."""


class CallDecision(TypedByPeople):
    """A person's decision on one tool call."""

    call: CallId
    """Id of the call."""
    hash: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    """Hash of the call that the person has seen."""
    decision: Literal["approve", "edit", "reject"]
    """`approve` the call, `edit` its arguments and approve that, or `reject` it."""
    arguments: Annotated[dict[str, JsonValue], Field(max_length=100)] | None = None
    """The arguments to be used instead, for `edit`."""
    reason: Annotated[str, StringConstraints(max_length=2_000), NoControlCharacters] = ""
    """Why, for `reject`; the agent reads it."""


def call_title(tool: str, arguments: Mapping[str, JsonValue]) -> str:
    """Say in a line what a tool is called for: its name, and the beginning of its first argument."""
    first: Sequence[object] = list(arguments.values())[:1]
    return f"{tool}: {' '.join(str(*first).split())[:120]}"
