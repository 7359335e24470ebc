"""Code to run after a block of a workflow, like `finally`, except when the coroutine is discarded.

A coroutine that its worker discards is closed by the garbage collector, possibly while another workflow runs. A
`finally` would then act on that other workflow.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager


@contextmanager
def on_exit(act: Callable[[], object]) -> Generator[None]:
    """Call `action` after the block, unless its coroutine is discarded."""
    try:
        yield
    except GeneratorExit:
        raise
    except BaseException:
        act()
        raise
    act()
