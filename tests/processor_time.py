"""Limits on processor time that apply on machines of any speed, busy or not."""

import gc
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

_SQUARES: Final = 100_000
_USUAL_SECONDS: Final = 0.0036


def slowness() -> float:
    """Return how many times as long a loop takes here and now as on the benchmark machine; at least 1."""
    began = time.thread_time()
    sum(number * number for number in range(_SQUARES))
    return max(1.0, (time.thread_time() - began) / _USUAL_SECONDS)


@contextmanager
def uncollected() -> Generator[None]:
    """Hold back the garbage collector, whose time depends on what other tests have left."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def processor_seconds(most: float) -> Generator[None]:
    """Fail if the block takes more processor time than this many seconds of the benchmark machine."""
    before = slowness()
    with uncollected():
        began = time.thread_time()
        yield
        took = time.thread_time() - began
    assert took < most * max(before, slowness()), f"{took:.3f} s of processor time"
