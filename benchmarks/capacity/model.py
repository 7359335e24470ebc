"""From the cost of one session to workers, slots, limits and database: pure arithmetic; names state the units."""

import math
from dataclasses import dataclass
from typing import Final

_DAY_SECONDS: Final = 86_400
_BUSY: Final = 0.6
"""Planned peak utilisation of a core or a slot; above it, waiting grows steeply."""
_SHARD_BUSY: Final = 0.1
"""Planned share of time that a history shard is locked by a write; the load on shards is uneven."""
_PARTITION_TASKS: Final = 200.0
"""Planned tasks per second of one partition of a task queue."""
_LEAST_SHARDS: Final = 512
_LEAST_PARTITIONS: Final = 4
_PAIR: Final = 2
"""Minimum number of workers, so that one can fail."""


@dataclass(frozen=True)
class SessionCost:
    """What one session uses, regardless of what else runs."""

    worker_cpu_seconds: float
    server_cpu_seconds: float
    workflows: float
    workflow_tasks: float
    activities: float
    transitions: float
    """State transitions, which are the server's writes."""
    history_kb: float
    database_kb: float
    """Growth of the database, including indexes and visibility."""
    turns: float
    tools: float
    waiting_mb: float
    """Worker memory of a waiting session."""

    @property
    def actions(self) -> float:
        """Billable actions without heartbeats: one per workflow start (two for a child) and one per activity."""
        return 1 + 2 * (self.workflows - 1) + self.activities

    @property
    def requests(self) -> float:
        """Requests to the server's frontend: a poll and a completion per task, the start, the wait for a result."""
        return 2 + 2 * (self.workflow_tasks + self.activities)


@dataclass(frozen=True)
class Demand:
    """The expected load, and how fast model calls, tools and people respond."""

    sessions_a_day: float
    peak: float = 4.0
    """Ratio of the peak session rate to the average rate."""
    turn_seconds: float = 8.0
    tool_seconds: float = 2.0
    critical_turns: float = 4.0
    """Sequential turns and tool calls in a session: its critical path."""
    critical_tools: float = 1.0
    waits_for_people: float = 0.05
    """Share of sessions that wait for a person."""
    waits_seconds: float = 4 * 3_600.0
    retention_days: float = 7.0
    heartbeat_seconds: float = 1.0
    """Seconds between a call's heartbeats that reach the server; each is an action, a request and a write."""
    database_ms: float = 5.0
    """Duration of one write to the server's database."""

    @property
    def rate(self) -> float:
        """Sessions a second at the peak."""
        return self.sessions_a_day / _DAY_SECONDS * self.peak


@dataclass(frozen=True)
class Setup:
    """The deployment to run and the values to configure."""

    sessions_a_second: float
    open_sessions: int
    worker_processes: int
    max_activities: int
    """`CHARGEHAND_MAX_ACTIVITIES` of each."""
    wait_for_a_slot_ms: float
    worker_memory_mb: float
    """Memory of each process, on top of that of an idle one."""
    server_cores: float
    actions_a_second: float
    requests_a_second: float
    transitions_a_second: float
    history_shards: int
    partitions: int
    """Read and write partitions of the task queue."""
    database_gb: float


def setup(cost: SessionCost, demand: Demand) -> Setup:
    """Compute the deployment that carries the demand at its peak."""
    rate = demand.rate
    calls = rate * (cost.turns * demand.turn_seconds + cost.tools * demand.tool_seconds)
    processes = max(_PAIR, math.ceil(rate * cost.worker_cpu_seconds / _BUSY))
    # If one process is lost, the others can carry all of its calls.
    slots = math.ceil(_slots(calls) / max(1, processes - 1))
    # A worker takes at most 1,000.
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
    """Return enough slots that a call seldom waits: the mean plus three standard deviations."""
    return calls + 3 * math.sqrt(calls) + 1


def wait_seconds(calls: float, slots: int, call_seconds: float) -> float:
    """Return the mean time that a call waits for a slot, assuming random arrivals (Erlang C).

    `calls` is the average number in progress. Without enough slots for them, the wait is infinite.
    """
    if slots <= calls:
        return math.inf
    blocked = 1.0
    for slot in range(1, slots + 1):  # Erlang B, by its recurrence
        blocked = calls * blocked / (slot + calls * blocked)
    waits = blocked / (1 - calls / slots * (1 - blocked))
    return waits * call_seconds / (slots - calls)


def most_a_second(cost: SessionCost, cores: float, other_cpu_seconds: float = 0.0) -> float:
    """Return the sessions a second that one machine sustains with a worker process, the server and anything else on it.

    A worker process uses little more than one core, because Python runs one thread at a time.
    """
    together = cost.worker_cpu_seconds + cost.server_cpu_seconds + other_cpu_seconds
    return min(cores / together, 1 / cost.worker_cpu_seconds)


def _power_of_two(least: float) -> int:
    return 2 ** math.ceil(math.log2(max(1.0, least)))
