"""Task queues: which kinds of work have a separate one, and which a worker serves."""

from collections.abc import Mapping
from typing import Final, Literal, get_args

from chargehand.contracts import Contract, left_out

Kind = Literal["models", "tools", "sandboxes"]
"""Kinds of work that can have a separate task queue: model turns, tool calls, and programs written by models."""
Role = Literal["sessions", "models", "tools", "sandboxes"]
"""What a worker runs: everything without a separate queue, or one kind of work that has its own."""
ROLES: Final[frozenset[Role]] = frozenset(get_args(Role))
SANDBOXED: Final = frozenset({"run_code"})
"""Tools that run programs written by models."""
COMPUTING: Final = SANDBOXED | {"query_data", "draw_chart"}
"""CPU-bound tools; other tools wait for a service."""


class ToolQueues(Contract):
    """Task queues of tool calls; None for the session's own."""

    tools: str | None = left_out(None)
    sandboxes: str | None = left_out(None)

    def of(self, tool: str) -> str | None:
        """Return the task queue of a tool; None if it has no separate one."""
        return self.sandboxes or self.tools if tool in SANDBOXED else self.tools


def queue_name(task_queue: str, kind: Kind) -> str:
    """Return the name of a kind's task queue, derived from the workers' own."""
    return f"{task_queue}-{kind}"


def tool_queues(task_queue: str, separate: Mapping[Kind, int]) -> ToolQueues:
    """Return the task queues of tool calls for sessions."""
    return ToolQueues(
        tools=queue_name(task_queue, "tools") if "tools" in separate else None,
        sandboxes=queue_name(task_queue, "sandboxes") if "sandboxes" in separate else None,
    )
