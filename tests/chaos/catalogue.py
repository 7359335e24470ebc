"""All experiments, in the order in which they run."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from random import Random
from typing import Final

from tests.chaos import comparison, kills, messages, network, operators, outages, resources, stops
from tests.chaos.result import Result, Scale

Experiment = Callable[[Scale, Random, Path], Awaitable[Result]]

EXPERIMENTS: Final[Mapping[str, Experiment]] = {
    "killed-in-a-call": kills.killed_in_a_call,
    "killed-after-an-answer": kills.killed_after_an_answer,
    "random-kills": kills.chaos_monkey,
    "stopped": stops.stopped,
    "no-worker": outages.no_worker,
    "rolling-restarts": stops.rolling_restarts,
    "server-killed": outages.server_killed,
    "server-away": outages.server_away,
    "bad-network": network.bad_network,
    "disk-full": resources.disk_full,
    "little-memory": resources.little_memory,
    "little-processor": resources.little_processor,
    "stopped-at-each-stage": operators.stopped_at_each_stage,
    "by-hand": operators.by_hand,
    "reset": operators.reset_by_hand,
    "senseless-messages": messages.senseless_messages,
    "unknown-types": messages.nobody_knows,
    "nobody-there": messages.nobody_there,
    "beside-bare": comparison.beside_bare,
}
