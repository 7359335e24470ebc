"""The client without `await`, for scripts and notebooks: the same methods, which wait for their result.

    from chargehand.sync import Chargehand

    chargehand = Chargehand.connect()
    session = chargehand.start("How long is the notice period?", documents=["lease.md"])
    for event in session.follow():
        print(event.kind)
    print(session.result().answer)

They run in an event loop of a thread of their own, so they also work where one runs already, as in a notebook. The
signatures are in `sync.pyi`, which `python -m tests.unit.client.sync_stub` writes from the asynchronous classes.
"""

import asyncio
import functools
import inspect
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from typing import Any, Final, TypeVar

from chargehand import client, session

__all__ = ["Chargehand", "Session"]

_T = TypeVar("_T")
_END: Final = object()
_starting: Final = threading.Lock()


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="chargehand", daemon=True).start()
    return loop


def _wait(work: Coroutine[Any, Any, _T]) -> _T:
    with _starting:
        loop = _loop()
    result = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return result.result()
    except BaseException:  # Ctrl-C, for one: what nobody waits for any more must not go on
        result.cancel()
        raise


def _waiting(method: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
    @functools.wraps(method)
    def wait(face: "_Face", *given: Any, **named: Any) -> Any:
        return _without_await(_wait(getattr(face.asynchronous, method.__name__)(*given, **named)))

    return wait


def _iterating(method: Callable[..., AsyncGenerator[Any]]) -> Callable[..., Any]:
    @functools.wraps(method)
    def iterate(face: "_Face", *given: Any, **named: Any) -> Generator[Any]:
        items = getattr(face.asynchronous, method.__name__)(*given, **named)

        async def following() -> Any:
            return await anext(items, _END)

        try:
            while (item := _wait(following())) is not _END:
                yield item
        finally:
            _wait(items.aclose())

    return iterate


def _calling(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(face: "_Face", *given: Any, **named: Any) -> Any:
        return _without_await(getattr(face.asynchronous, method.__name__)(*given, **named))

    return call


class _Face:
    """Has every public method of an asynchronous class, and its attributes."""

    def __init_subclass__(cls, of: type) -> None:
        for name, method in vars(of).items():
            if name.startswith("_") or not inspect.isfunction(method):
                continue
            if inspect.iscoroutinefunction(method):
                setattr(cls, name, _waiting(method))
            else:
                setattr(cls, name, (_iterating if inspect.isasyncgenfunction(method) else _calling)(method))

    def __init__(self, asynchronous: Any) -> None:
        self.asynchronous = asynchronous

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.asynchronous, name)


class Session(_Face, of=session.Session):
    """One session on a server; see `chargehand.Session`."""


class Chargehand(_Face, of=client.Chargehand):
    """Sessions on one Temporal namespace and task queue; see `chargehand.Chargehand`."""

    @classmethod
    def connect(cls, *given: Any, **named: Any) -> "Chargehand":
        """Connect to a server; see `chargehand.Chargehand.connect`."""
        return cls(_wait(client.Chargehand.connect(*given, **named)))


def _without_await(result: object) -> object:
    return Session(result) if isinstance(result, session.Session) else result
