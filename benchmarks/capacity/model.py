"""From the cost of one session to workers, slots, limits and database: pure arithmetic, in units that names tell."""

import math
from dataclasses import dataclass
from typing import Final

_DAY_SECONDS: Final = 86_400
_BUSY: Final = 0.6
"""Share of a core or a slot that is planned to be used at the peak: above it, waiting grows steeply."""
_SHARD_BUSY: Final = 0.1
"""Share of the time that a history shard is planned to be locked by a write: they are hit unevenly."""
_PARTITION_TASKS: Final = 200.0
"""Tasks a second that a partition of a task queue is planned to hand out."""
_LEAST_SHARDS: Final = 512
_LEAST_PARTITIONS: Final = 4
_PAIR: Final = 2
"""Workers at least, so that one may go."""


@dataclass(frozen=True)
class SessionCost:
    """What one session takes, whatever else runs."""

    worker_cpu_seconds: float
    server_cpu_seconds: float
    workflows: float
    workflow_tasks: float
    activities: float
    transitions: float
    """State transitions, which are the server's writes."""
    history_kb: float
    database_kb: float
    """By which the database grows, indexes and visibility included."""
    turns: float
    tools: float
    waiting_mb: float
    """Memory of the worker for a session that waits."""

    @property
    def actions(self) -> float:
        """Billable actions, without heartbeats: each workflow's start, two for a child, each activity's."""
        return 1 + 2 * (self.workflows - 1) + self.activities

    @property
    def requests(self) -> float:
        """Calls of the server's frontend: a poll and a completion for each task, a start, a wait for the result."""
        return 2 + 2 * (self.workflow_tasks + self.activities)


@dataclass(frozen=True)
class Demand:
    """What arrives, and how the world outside answers."""

    sessions_a_day: float
    peak: float = 4.0
    """Sessions a second at the busiest time over those of the average."""
    turn_seconds: float = 8.0
    tool_seconds: float = 2.0
    critical_turns: float = 4.0
    """Turns and tools that follow one another in a session."""
    critical_tools: float = 1.0
    waits_for_people: float = 0.05
    """Share of the sessions that wait for a person."""
    waits_seconds: float = 4 * 3_600.0
    retention_days: float = 7.0
    heartbeat_seconds: float = 1.0
    """Between two heartbeats of a call that reach the server: each is an action, a request and a write."""
    database_ms: float = 5.0
    """What a write of the server's database takes."""

    @property
    def rate(self) -> float:
        """Sessions a second at the peak."""
        return self.sessions_a_day / _DAY_SECONDS * self.peak


@dataclass(frozen=True)
class Setup:
    """What to run and to set."""

    sessions_a_second: float
    open_sessions: int
    worker_processes: int
    max_activities: int
    """`CHARGEHAND_MAX_ACTIVITIES` of each."""
    wait_for_a_slot_ms: float
    worker_memory_mb: float
    """Of each process, on top of what an idle one has."""
    server_cores: float
    actions_a_second: float
    requests_a_second: float
    transitions_a_second: float
    history_shards: int
    partitions: int
    """Of the task queue, to read and to write."""
    database_gb: float


def setup(cost: SessionCost, demand: Demand) -> Setup:
    """Find what carries the demand at its peak."""
    rate = demand.rate
    calls = rate * (cost.turns * demand.turn_seconds + cost.tools * demand.tool_seconds)
    processes = max(_PAIR, math.ceil(rate * cost.worker_cpu_seconds / _BUSY))
    # One process may go: the others carry all of its calls.
    slots = math.ceil(_slots(calls) / max(1, processes - 1))
    # A worker takes 1,000 at most.
    while slots > 1_000:
        processes += 1
        slots = math.ceil(_slots(calls) / (processes - 1))
    duration = demand.critical_turns * demand.turn_seconds + demand.critical_tools * demand.tool_seconds
    held = rate / demand.peak * demand.waits_for_people * demand.waits_seconds
    sessions = rate * duration + held
    tasks = rate * max(cost.workflow_tasks, cost.activities)
    heartbeats = calls / demand.heartbeat_seconds
    transitions = rate * cost.transitions + heartbeats
    return Setup(
        sessions_a_second=rate,
        open_sessions=math.ceil(sessions),
        worker_processes=processes,
        max_activities=slots,
        wait_for_a_slot_ms=wait_seconds(calls, slots * (processes - 1), demand.turn_seconds) * 1_000,
        worker_memory_mb=sessions * cost.waiting_mb / processes,
        server_cores=rate * cost.server_cpu_seconds / _BUSY,
        actions_a_second=rate * cost.actions + heartbeats,
        requests_a_second=rate * cost.requests + heartbeats,
        transitions_a_second=transitions,
        history_shards=max(_LEAST_SHARDS, _power_of_two(transitions * demand.database_ms / 1_000 / _SHARD_BUSY)),
        partitions=max(_LEAST_PARTITIONS, math.ceil(tasks / _PARTITION_TASKS)),
        database_gb=demand.sessions_a_day * demand.retention_days * cost.database_kb / 1e6,
    )


def _slots(calls: float) -> float:
    """Give so many slots that a call seldom waits: the mean, and three times its deviation."""
    return calls + 3 * math.sqrt(calls) + 1


def wait_seconds(calls: float, slots: int, call_seconds: float) -> float:
    """Give the mean time that a call waits for a slot, if calls come at random (Erlang C).

    `calls` is how many are under way on average. Without enough slots for them the wait has no end.
    """
    if slots <= calls:
        return math.inf
    blocked = 1.0
    for slot in range(1, slots + 1):  # Erlang B, by its recurrence
        blocked = calls * blocked / (slot + calls * blocked)
    waits = blocked / (1 - calls / slots * (1 - blocked))
    return waits * call_seconds / (slots - calls)


def most_a_second(cost: SessionCost, cores: float, other_cpu_seconds: float = 0.0) -> float:
    """Give the sessions a second that one machine carries with a worker process, the server, and whatever else it runs.

    A worker process uses little more than a core, since Python runs one thread at a time.
    """
    together = cost.worker_cpu_seconds + cost.server_cpu_seconds + other_cpu_seconds
    return min(cores / together, 1 / cost.worker_cpu_seconds)


def _power_of_two(least: float) -> int:
    return 2 ** math.ceil(math.log2(max(1.0, least)))
