"""Task queues: which kinds of work have one of their own, and which of them a worker serves."""

from collections.abc import Mapping
from typing import Final, Literal, get_args

from chargehand.contracts import Contract, left_out

Kind = Literal["models", "tools", "sandboxes"]
"""Work that can have a task queue of its own: model turns, tool calls, and programs that models have written."""
Role = Literal["sessions", "models", "tools", "sandboxes"]
"""What a worker does: everything that has no queue of its own, or a kind that has one."""
ROLES: Final[frozenset[Role]] = frozenset(get_args(Role))


SANDBOXED: Final = frozenset({"run_code"})
"""Tools that run what a model has written."""
COMPUTING: Final = SANDBOXED | {"query_data", "draw_chart"}
"""Tools whose calls take a processor, where other calls wait for a service."""


class ToolQueues(Contract):
    """Task queues of tool calls; None for the session's own."""

    tools: str | None = left_out(None)
    sandboxes: str | None = left_out(None)

    def of(self, tool: str) -> str | None:
        """Return the task queue of a tool; None if its calls have none of their own."""
        return self.sandboxes or self.tools if tool in SANDBOXED else self.tools


def queue_name(task_queue: str, kind: Kind) -> str:
    """Name the task queue of a kind of work, beside the workers' own."""
    return f"{task_queue}-{kind}"


def tool_queues(task_queue: str, separate: Mapping[Kind, int]) -> ToolQueues:
    """Name the task queues of tool calls, for sessions."""
    return ToolQueues(
        tools=queue_name(task_queue, "tools") if "tools" in separate else None,
        sandboxes=queue_name(task_queue, "sandboxes") if "sandboxes" in separate else None,
    )
