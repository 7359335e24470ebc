"""Sharing of results: concurrent callers share one run of the work, and the latest results are kept."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass
class _Call(Generic[T]):
    work: "asyncio.Future[T]"
    callers: int = 0


class SingleFlight(Generic[T]):
    """Running calls by key."""

    def __init__(self) -> None:
        self._calls: dict[Hashable, _Call[T]] = {}

    async def run(self, key: Hashable, work: Callable[[], Awaitable[T]]) -> T:
        """Do the work, or wait for the running call of this key, which is cancelled when its last caller is."""
        call = self._calls.get(key)
        if call is None:
            call = self._calls[key] = _Call(asyncio.ensure_future(work()))
        call.callers += 1
        try:
            return await asyncio.shield(call.work)
        except asyncio.CancelledError:
            if call.callers == 1 and not call.work.done():
                self._end(key, call)
                call.work.cancel()
                with suppress(asyncio.CancelledError):
                    await call.work
            raise
        finally:
            call.callers -= 1
            if call.work.done():
                self._end(key, call)

    def _end(self, key: Hashable, call: _Call[T]) -> None:
        if self._calls.get(key) is call:
            del self._calls[key]


Key = TypeVar("Key")
Value = TypeVar("Value")


class Newest(OrderedDict[Key, Value]):
    """A mapping that drops its oldest entry when it has more than `most`."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: Key, value: Value) -> None:
        super().__setitem__(key, value)
        if len(self) > self._most:
            self.popitem(last=False)
