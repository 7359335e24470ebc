"""The synchronous client, for scripts and notebooks: the same methods, each of which blocks until it has its result.

    from chargehand.sync import Chargehand

    chargehand = Chargehand.connect()
    session = chargehand.start("How long is the notice period?", documents=["lease.md"])
    for event in session.follow():
        print(event.kind)
    print(session.result().answer)

They use an event loop in a separate thread, and therefore also work where a loop is already running, as in a notebook.
Each method has the parameters and types of the asynchronous one.
"""

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from chargehand import client, session
from chargehand.messages import ConversationMessages, Messages, MessagesWithoutAwait

__all__ = ["Chargehand", "Conversation", "Session"]

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")
_Face = TypeVar("_Face")
_END: Final = object()
_starting: Final = threading.Lock()


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="chargehand", daemon=True).start()
    return loop


def _wait(work: Coroutine[Any, Any, _Result]) -> _Result:
    with _starting:
        loop = _loop()
    result = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return result.result()
    except BaseException:  # such as Ctrl-C: stop the work with its caller
        result.cancel()
        raise


def _waiting(
    method: Callable[Concatenate[Any, _Parameters], Coroutine[Any, Any, _Result]],
) -> Callable[Concatenate[Any, _Parameters], _Result]:
    @functools.wraps(method)
    def wait(self: Any, *args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        return _wait(getattr(self.asynchronous, method.__name__)(*args, **kwargs))

    return wait


def _opening(
    method: Callable[Concatenate[Any, _Parameters], Coroutine[Any, Any, _Result]], face: Callable[[_Result], _Face]
) -> Callable[Concatenate[Any, _Parameters], _Face]:
    wait = _waiting(method)

    @functools.wraps(method)
    def open_face(self: Any, *args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Face:
        return face(wait(self, *args, **kwargs))

    return open_face


def _iterating(
    method: Callable[Concatenate[Any, _Parameters], AsyncIterator[_Result]],
) -> Callable[Concatenate[Any, _Parameters], Generator[_Result]]:
    @functools.wraps(method)
    def iterate(self: Any, *args: _Parameters.args, **kwargs: _Parameters.kwargs) -> Generator[_Result]:
        items = getattr(self.asynchronous, method.__name__)(*args, **kwargs)

        async def following() -> Any:
            return await anext(items, _END)

        try:
            while (item := _wait(following())) is not _END:
                yield item
        finally:
            _wait(items.aclose())

    return iterate


def _connecting(
    connect: Callable[_Parameters, Coroutine[Any, Any, client.Chargehand]],
) -> Callable[_Parameters, "Chargehand"]:
    @functools.wraps(connect)
    def wait(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> "Chargehand":
        return Chargehand(_wait(connect(*args, **kwargs)))

    return wait


class _Execution(MessagesWithoutAwait):
    def __init__(self, asynchronous: session.Execution) -> None:
        self.asynchronous = asynchronous
        self.id = asynchronous.id

    approve_call = _waiting(session.Execution.approve_call)
    reject_call = _waiting(session.Execution.reject_call)
    opened = _waiting(session.Execution.opened)
    cancel = _waiting(session.Execution.cancel)
    send = _waiting(session.Execution.send)
    request = _waiting(session.Execution.request)
    recorded_status = _waiting(session.Execution.recorded_status)
    ending = _waiting(session.Execution.ending)
    follow = _iterating(session.Execution.follow)


class Session(_Execution, Messages):
    """A session on a server; see `chargehand.Session`."""

    approve = _waiting(session.Session.approve)
    edit = _waiting(session.Session.edit)
    reject = _waiting(session.Session.reject)
    ask = _opening(session.Session.ask, lambda opened: Session(opened))  # noqa: PLW0108  # it is defined here
    documents = _waiting(session.Session.documents)
    thread = _waiting(session.Session.thread)
    follow_up = _waiting(session.Session.follow_up)
    result = _waiting(session.Session.result)
    trace = _waiting(session.Session.trace)
    artifacts = _waiting(session.Session.artifacts)
    verify = _waiting(session.Session.verify)


class Conversation(_Execution, ConversationMessages):
    """A conversation on a server; see `chargehand.Conversation`."""

    result = _waiting(session.Conversation.result)


class Chargehand:
    """Sessions on one Temporal namespace and task queue; see `chargehand.Chargehand`."""

    def __init__(self, asynchronous: client.Chargehand) -> None:
        self.asynchronous = asynchronous
        self.task_queue = asynchronous.task_queue

    connect = staticmethod(_connecting(client.Chargehand.connect))
    start = _opening(client.Chargehand.start, Session)
    run = _waiting(client.Chargehand.run)
    list = _iterating(client.Chargehand.list)
    schedule = _waiting(client.Chargehand.schedule)
    unschedule = _waiting(client.Chargehand.unschedule)
    missing_search_attributes = _waiting(client.Chargehand.missing_search_attributes)
    converse = _opening(client.Chargehand.converse, Conversation)

    def conversation(self, conversation_id: str) -> Conversation:
        """Return a handle to a conversation by id, without checking that it exists."""
        return Conversation(self.asynchronous.conversation(conversation_id))

    def session(self, session_id: str) -> Session:
        """Return a handle to a session by id, without checking that it exists."""
        return Session(self.asynchronous.session(session_id))
