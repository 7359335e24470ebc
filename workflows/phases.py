"""The phases of a run that have a span of their own where the worker traces; elsewhere they have none."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import Final, Literal

Phase = Literal["plan"]
OpenSpan = Callable[[Phase], AbstractContextManager[None]]
OPEN_SPAN: Final[ContextVar[OpenSpan]] = ContextVar("open_span", default=lambda _: nullcontext())
"""Opens the span of a phase; set by the interceptor of workers that trace."""


def phase(kind: Phase) -> AbstractContextManager[None]:
    """Put what is started in the block below a span of its own."""
    return OPEN_SPAN.get()(kind)
