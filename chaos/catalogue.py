"""All experiments, in starting order."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from random import Random
from typing import Final

from chaos import (
    clocks,
    deploys,
    kills,
    late,
    messages,
    network,
    notices,
    operators,
    outages,
    resources,
    restores,
    sizes,
    stops,
    unattended,
)
from chaos.result import Result, Scale

Experiment = Callable[[Scale, Random, Path], Awaitable[Result]]

EXPERIMENTS: Final[Mapping[str, Experiment]] = {
    "unattended": unattended.no_worker_at_all,
    "killed-after-an-answer": kills.killed_after_an_answer,
    "stopped": stops.stopped,
    "senseless-messages": messages.senseless_messages,
    "reset": operators.reset_by_hand,
    "unguarded-change": deploys.unguarded_change,
    "restore": restores.restored,
    "late-services": late.late_services,
    "bad-network": network.bad_network,
    "server-away": outages.server_away,
    "by-hand": operators.by_hand,
    "stopped-at-each-stage": operators.stopped_at_each_stage,
    "rolling-restarts": stops.rolling_restarts,
    "random-kills": kills.random_kills,
    "traced-kills": kills.traced_kills,
    "server-killed": outages.server_killed,
    "deploys": deploys.deploys,
    "wrong-clocks": clocks.wrong_clocks,
    "disk-full": resources.disk_full,
    "decisions": notices.notices,
    "largest": sizes.largest,
    "killed-in-a-call": kills.killed_in_a_call,
    "no-worker": outages.no_worker,
    "unknown-types": unattended.unknown_types,
    "queued": resources.queued,
    "saturated": resources.saturated,
    "faulty-provider": outages.faulty_provider,
    "little-processor": resources.little_processor,
}
ALONE: Final = frozenset(
    {"killed-in-a-call", "decisions", "no-worker", "unknown-types", "queued", "saturated", "little-processor"}
)
"""Experiments that measure times or use the whole machine. The others run several at a time."""
