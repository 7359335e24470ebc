"""The metrics of a worker in addition to the SDK's own: names, descriptions, and bounds on labels.

They go through the SDK's meters and are exported with the SDK's metrics at the worker's Prometheus endpoint. Labels are
names from settings, crews and requests, and never text of users, models or documents.
"""

import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final, NamedTuple

from temporalio import activity
from temporalio.common import MetricMeter

OTHER: Final = "other"
"""Label for values beyond the maximum number of labels."""
_LONGEST_LABEL: Final = 100


class Metric(NamedTuple):
    """A metric with its description."""

    name: str
    meaning: str
    unit: str = ""


SESSIONS_STARTED: Final = Metric("chargehand_sessions_started", "Sessions that began, without nested ones.")
SESSIONS_ENDED: Final = Metric("chargehand_sessions_ended", "Sessions that ended, by stop reason or as failures.")
SESSION_DURATION: Final = Metric("chargehand_session_duration", "Time from a session's start to its end.", "duration")
SUBTASKS_ENDED: Final = Metric("chargehand_subtasks_ended", "Attempts at subtasks that ended, by kind of outcome.")
TURNS: Final = Metric("chargehand_turns", "LLM calls that were settled.")
TOKENS: Final = Metric("chargehand_tokens", "Tokens of these calls: uncached_input, cached_input, output.")
COST: Final = Metric("chargehand_cost_nanodollars", "What these calls cost, in billionths of a US dollar.")
CACHE_HITS: Final = Metric("chargehand_cache_hits", "Calls that read a part of their prompt from the provider's cache.")
DOUBTFUL_CALLS: Final = Metric("chargehand_possibly_billed_twice_calls", "Calls that may have been charged twice.")
DOUBTFUL_COST: Final = Metric("chargehand_possibly_billed_twice_nanodollars", "The part of the cost for such calls.")
LOST_GRANTS: Final = Metric(
    "chargehand_lost_grants_nanodollars", "Charged for subtasks that did not say what they spent."
)
LIMITS_REACHED: Final = Metric("chargehand_limits_reached", "Sessions and attempts at subtasks that a limit stopped.")
REFUSALS: Final = Metric("chargehand_refusals", "Plans, subtasks and tool calls that were refused.")
TOOL_DURATION: Final = Metric("chargehand_tool_duration", "Time that tools took.", "duration")
FAILED_ATTEMPTS: Final = Metric("chargehand_failed_attempts", "Attempts at activities that failed, by error type.")
PROVIDER_ERRORS: Final = Metric("chargehand_provider_errors", "Failed requests to model providers.")
BREAKER_OPENINGS: Final = Metric("chargehand_breaker_openings", "Times that a model's circuit breaker opened.")
EVENT_LOOP_LAG: Final = Metric("chargehand_event_loop_lag", "Lag of the worker's event loop.", "duration")
ACTIVITY_SLOTS: Final = Metric("chargehand_activity_slots", "Model turns and tool calls that a worker makes at once.")
SESSIONS_OPEN: Final = Metric("chargehand_sessions_open", "Sessions that have not ended, without nested ones.")
SESSIONS_STUCK: Final = Metric("chargehand_sessions_stuck", "Workflows whose tasks fail again and again.")
QUEUE_POLLERS: Final = Metric("chargehand_queue_pollers", "Workers that poll a task queue.")
QUEUE_BUILDS: Final = Metric("chargehand_queue_builds", "Workers that poll a task queue, by their build.")
BACKLOG_TASKS: Final = Metric("chargehand_backlog_tasks", "Tasks that wait for a worker on a task queue.")
BACKLOG_AGE: Final = Metric("chargehand_backlog_age", "How long the oldest of them waits.", "seconds")

_MINUTES: Final = (1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0, 21_600.0)
_SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 90.0, 300.0)
_LAGS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
BUCKETS: Final = {SESSION_DURATION.name: _MINUTES, TOOL_DURATION.name: _SECONDS, EVENT_LOOP_LAG.name: _LAGS}
"""Upper bounds of histograms, in seconds."""


class BoundedLabel:
    """Limits the number of distinct values of a label per process; further values become `other`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[str] = set()

    def of(self, value: str) -> str:
        """Return the value, or `other`."""
        if value not in self._known:
            if len(self._known) >= self._most or len(value) > _LONGEST_LABEL or not value.isprintable():
                return OTHER
            self._known.add(value)
        return value


# Per process, like the metrics. Workflows use them too, but never depend on them.
MODELS: Final = BoundedLabel(50)
TENANTS: Final = BoundedLabel(100)
TOOLS: Final = BoundedLabel(200)
ERRORS: Final = BoundedLabel(100)
BUILDS: Final = BoundedLabel(50)


def count(meter: MetricMeter, metric: Metric, number: int = 1, **labels: str) -> None:
    """Add to a counter. Adding 0 creates it, so that Prometheus sees its first increase."""
    meter.create_counter(metric.name, metric.meaning).add(number, labels)


@contextmanager
def time_tool(tool: str) -> Generator[None]:
    """Measure the duration of a tool in the current activity, if any."""
    began = time.monotonic()
    try:
        yield
    finally:
        if activity.in_activity():
            duration = activity.metric_meter().create_histogram_timedelta(*TOOL_DURATION)
            duration.record(timedelta(seconds=time.monotonic() - began), {"tool": TOOLS.of(tool)})


def count_in_activity(metric: Metric, **labels: str) -> None:
    """Count something in the current activity, if any."""
    if activity.in_activity():
        count(activity.metric_meter(), metric, 1, **labels)
