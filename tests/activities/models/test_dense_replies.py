"""A reply of very many values is refused without holding up the worker."""

import json
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from activities.http_limits import BodyRefused
from activities.models.replies import parse

_BYTES = 4_000_000
"""The longest event that is read."""
_MOST_SECONDS = 0.1
"""Processor time for which nothing else may run, on a slow machine."""
DENSE = ("[],", "{},", "0,", '"",', '{"a":[1]},')


@contextmanager
def _interruptions() -> Generator[list[float]]:
    """Collect how much processor time the process took between two turns of another thread."""
    gaps: list[float] = []
    stop = threading.Event()

    def watch() -> None:
        before = time.process_time()
        while not stop.wait(0.001):
            now = time.process_time()
            gaps.append(now - before)
            before = now

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield gaps
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("value", DENSE)
async def test_a_dense_reply_holds_up_nothing(value: str) -> None:
    """A reply of very many values is refused before a parser makes them."""
    content = f'{{"output":[{value * (_BYTES // len(value))}0]}}'.encode()
    with _interruptions() as gaps, pytest.raises(BodyRefused):
        await parse(content)

    assert max(gaps, default=0.0) < _MOST_SECONDS


async def test_a_long_text_is_no_dense_reply() -> None:
    """Commas and brackets within a text are no values, so that a long table of an answer is read."""
    table = "1,[2],{3}\n" * 100_000

    assert await parse(json.dumps({"text": table}).encode()) == {"text": table}
