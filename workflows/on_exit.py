"""What follows a block of a workflow however it ends, as `finally` does, but not when its coroutine is thrown away.

A coroutine that its worker leaves behind is closed by the garbage collector, perhaps while another workflow runs. A
`finally` would then act on that other workflow.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager


@contextmanager
def on_exit(act: Callable[[], object]) -> Generator[None]:
    """Act once the block has ended, unless its coroutine is thrown away."""
    try:
        yield
    except GeneratorExit:
        raise
    except BaseException:
        act()
        raise
    act()
