"""How a run of a workflow ends: as new, cancelled, or discarded by its worker."""

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

from temporalio import workflow

MOST_EVENTS: Final = 4_000
MOST_BYTES: Final = 4 << 20


def is_continue_as_new_due() -> bool:
    """Return whether this run's history is long, well below Temporal's limits of 51,200 events and 50 MiB."""
    info = workflow.info()
    return (
        info.is_continue_as_new_suggested()
        or info.get_current_history_length() > MOST_EVENTS
        or info.get_current_history_size() > MOST_BYTES
    )


def raise_if_cancelled() -> None:
    """Raise if the workflow was cancelled while it sent a signal, where the SDK does not raise."""
    if workflow.cancellation_reason() is not None:
        raise asyncio.CancelledError


@contextmanager
def on_exit(act: Callable[[], object]) -> Generator[None]:
    """Call `act` after the block, like `finally`, unless its coroutine is discarded.

    A coroutine that its worker discards is closed by the garbage collector, possibly while another workflow runs. A
    `finally` would then act on that other workflow.
    """
    try:
        yield
    except GeneratorExit:
        raise
    except BaseException:
        act()
        raise
    act()
