"""Follows a session: the events of its workflow and of all workflows below it, as they happen.

Histories are the event log, so following adds nothing to them. The events of a workflow are yielded in history
order; those of a child after the event that starts it and before the one that ends it. A cursor states how
much of each history was yielded. Only text still being written has another source: the heartbeats of its turn.
"""

import asyncio
import sys
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final
from zlib import crc32

from pydantic import Field, ValidationError
from temporalio.client import Client
from temporalio.service import RPCError

from chargehand.contracts import AgentTextEvent, Contract, Event, LiveText, TextEvent, TurnEvent, left_out
from chargehand.errors import ChargehandError
from chargehand.history.projection import Change, Child, Projection
from chargehand.history.records import Decoder, Heartbeat
from chargehand.history.runs import growing_history, run_before
from chargehand.history.steps import Draft, Scope, Written, agent_of, is_text_for_all
from chargehand.visibility import UnlessGone, describe

_WAITING: Final = 100
"""Maximum events buffered for a slow consumer; reading pauses at this number."""
_LIVE_SECONDS: Final = 0.5
"""Interval at which text being written is read."""
_LIVE_SHARE: Final = 25
"""The interval is at least this multiple of the server's response time, which spares a busy server."""
_LONGEST_CURSOR: Final = 50_000
_EVERYTHING: Final = (sys.maxsize, 0, 0)
"""The position in a child that ended before the cursor."""


class Position(Contract):
    """The position up to which the events of a workflow were yielded."""

    model_config = Contract.model_config | {"frozen": False}

    run: int = Field(default=0, ge=0, alias="r", exclude_if=lambda value: not value)
    """Index of the run, from 0, of a child that may have continued as new."""
    event: int = Field(default=0, ge=0, alias="e")
    outputs: int = Field(default=0, ge=0, alias="n")
    """How many of the outputs of this history event were yielded."""
    children: dict[int, "Position"] = Field(default={}, alias="c", exclude_if=lambda value: not value)
    """Positions in running children, by the event that initiated them."""


class TextPosition(Contract):
    """How much of the text of the report or the latest reply was yielded."""

    model_config = Contract.model_config | {"frozen": False}

    draft: int = left_out(0)
    length: int = left_out(0)
    """In characters."""
    crc: int = left_out(0)
    """CRC-32 of the text as UTF-8."""
    subtask: str = left_out("")
    """The subtask that writes the reply."""

    def advance(self, live: LiveText) -> str:
        """Return the new part of a text, in the current draft if it continues that, otherwise in a new one."""
        known = self.length - live.offset
        if 0 <= known <= len(live.text) and _crc(live.text[:known], live.before) == self.crc:
            new = live.text[known:]
        elif live.offset:
            return ""  # the beginning of this draft was missed; the whole text follows once it is written
        else:
            self.draft, self.length, self.crc, new = self.draft + 1, 0, 0, live.text
        self.draft = max(self.draft, 1)
        self.length, self.crc = self.length + len(new), _crc(new, self.crc)
        return new


class Cursor(Contract):
    """The position up to which the events of a session were yielded."""

    run: str
    """Run id of the session's workflow."""
    position: Position
    text: TextPosition = TextPosition()

    def __str__(self) -> str:
        return urlsafe_b64encode(self.model_dump_json(by_alias=True).encode()).decode().rstrip("=")


def read_cursor(after: str) -> Cursor:
    """Parse a cursor; any other text raises `ChargehandError`."""
    try:
        if len(after) > _LONGEST_CURSOR:
            raise ValueError("too long")  # noqa: TRY301  # handled like any other unreadable text
        return Cursor.model_validate_json(urlsafe_b64decode(after + "=" * (-len(after) % 4)))
    except (ValueError, ValidationError):
        raise ChargehandError("after: is not a cursor; pass the `cursor` of an event, unchanged.") from None


def _crc(text: str, before: int) -> int:
    return crc32(text.encode(errors="surrogatepass"), before)


@dataclass(eq=False)
class _Branch:
    """A followed workflow."""

    projection: Projection
    position: Position
    done: tuple[int, int, int]
    """The position from which it is followed; everything before was already yielded."""
    runs: list[str]
    """Ids of its runs read so far, in order."""
    above: tuple[Position, int] | None = None
    """The position of its parent workflow, and its number there."""
    pending: dict[int, Child] = field(default_factory=dict[int, Child])
    """Children started before that position that have not ended."""
    tasks: "dict[int, asyncio.Task[None]]" = field(default_factory=dict[int, "asyncio.Task[None]"])

    @property
    def workflow_id(self) -> str:
        return self.projection.scope.draft.id

    @property
    def is_root(self) -> bool:
        return self.above is None


@dataclass(frozen=True)
class _Item:
    """An event on its way to the consumer."""

    output: Event | Written
    branch: _Branch
    at: tuple[int, int, int]
    ended: Child | None = None
    """The child that ends with this event."""


@dataclass(frozen=True)
class _Live:
    """Text being written by a turn."""

    branch: _Branch
    turn: Draft
    text: LiveText


def follow(client: Client, session_id: str, after: str | None) -> AsyncGenerator[Event]:
    """Yield the events of a session after a cursor, as they happen, up to its end."""
    return _Follower(client, session_id).events(after)


async def watch(
    client: Client, session_id: str, *, has_contents: bool = False
) -> AsyncGenerator[tuple[Event, Projection]]:
    """Yield the events of a session from its beginning, each with the session's projection at that point."""
    follower = _Follower(client, session_id, has_contents=has_contents)
    async with aclosing(follower.events(None)) as events:
        async for event in events:
            yield event, follower.root.projection


class _Follower:
    def __init__(self, client: Client, session_id: str, *, has_contents: bool = False) -> None:
        self._has_contents = has_contents
        self._client = client
        self._decoder = Decoder(client.data_converter)
        self._session = session_id
        self._queue = asyncio.Queue[_Item | _Live | Exception | None](_WAITING)
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_writing = asyncio.Event()
        self._text = TextPosition()
        self._agent_texts: dict[str, TextPosition] = {}
        """How much of the text of running turns was yielded, by step id."""
        self._writing: set[_Branch] = set()
        """Workflows with a turn whose text is followed."""
        self._over: set[str] = set()
        """Step ids of ended turns."""

    async def events(self, after: str | None) -> AsyncGenerator[Event]:
        self.root = root = await self._root(None if after is None else read_cursor(after))
        self._spawn(self._follow_to_the_end, root)
        self._spawn(self._read_live, root)
        try:
            while (item := await self._queue.get()) is not None:
                if isinstance(item, Exception):
                    raise item
                event = self._live_event(item) if isinstance(item, _Live) else self._event(item)
                if event is None:
                    continue
                run, position = root.runs[root.position.run], root.position.replace(run=0)
                yield event.replace(cursor=str(Cursor(run=run, position=position, text=self._text)))
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _root(self, cursor: Cursor | None) -> _Branch:
        """Find the first run of the session, and the position from which to continue."""
        if cursor is None:
            info = (await describe(self._client, self._session)).workflow_execution_info
            runs = [info.execution.run_id]
        else:
            self._text, runs = cursor.text.model_copy(), [cursor.run]
        while before := await run_before(self._client, self._session, runs[0]):
            runs.insert(0, before)
        position = cursor.position if cursor else Position()
        if cursor:
            position.run = len(runs) - 1
        return self._branch(Draft.of(self._session), position, runs[0])

    def _branch(self, draft: Draft, position: Position, run: str, subtask: str = "") -> _Branch:
        scope = Scope(self._decoder, self._session, draft, subtask, has_contents=self._has_contents)
        if subtask:
            scope.live_text = self.root.projection.scope.live_text
        projection = Projection(scope)
        return _Branch(projection, position, (position.run, position.event, position.outputs), [run])

    def _spawn(self, follow: Callable[[_Branch], Coroutine[Any, Any, None]], branch: _Branch) -> "asyncio.Task[None]":
        async def read() -> None:
            try:
                await follow(branch)  # created here, since a task cancelled before it starts would never await it
            except Exception as error:  # noqa: BLE001  # raised again by the consumer
                await self._queue.put(error)

        task = asyncio.create_task(read())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _follow_to_the_end(self, root: _Branch) -> None:
        await self._follow(root)
        await self._queue.put(None)

    async def _follow(self, branch: _Branch) -> None:
        number, run_id = 0, branch.runs[0]
        while run_id:
            run_id = await self._follow_run(branch, number, run_id)
            number += 1
            branch.runs.append(run_id)
        self._writing.discard(branch)

    async def _follow_run(self, branch: _Branch, number: int, run_id: str) -> str:
        """Read a run to its end; return the run in which it continues."""
        continued_as = ""
        with nullcontext() if branch.is_root else UnlessGone():  # the namespace no longer retains a child
            async for event in growing_history(self._client, branch.workflow_id, run_id):
                change = await branch.projection.read(event)
                here = (number, event.event_id)
                if change.started is not None:
                    branch.pending[change.started.number] = change.started
                if change.ended is not None:
                    await self._end_child(branch, change.ended)
                await self._give(branch, change, here)
                if here >= branch.done[:2]:
                    self._catch_up(branch)
                continued_as = change.continued_as
        return continued_as

    async def _give(self, branch: _Branch, change: Change, here: tuple[int, int]) -> None:
        for count, output in enumerate((branch.projection.settle(), *change.outputs)):
            if output is not None and (*here, count) > branch.done:
                await self._queue.put(_Item(output, branch, (*here, count), change.ended))

    async def _end_child(self, branch: _Branch, child: Child) -> None:
        """Read a child to its end; if it ended before the cursor, only if its parent does not know its cost."""
        pending = branch.pending.pop(child.number, None)
        if pending is not None and child.cost is None:
            self._follow_child(branch, child, _EVERYTHING)
        if (task := branch.tasks.pop(child.number, None)) is not None:
            await task

    def _catch_up(self, branch: _Branch) -> None:
        for child in branch.pending.values():
            self._follow_child(branch, child)
        branch.pending.clear()
        (self._writing.add if branch.projection.activities.writing else self._writing.discard)(branch)
        self._is_writing.set() if self._writing else self._is_writing.clear()

    def _follow_child(self, branch: _Branch, child: Child, done: tuple[int, int, int] | None = None) -> None:
        position = branch.position.children.get(child.number) or Position()
        below = self._branch(child.draft.unread(), position, child.run, child.subtask)
        below.above, below.done = (branch.position, child.number), done or below.done
        child.projection = below.projection
        branch.tasks[child.number] = self._spawn(self._follow, below)

    def _event(self, item: _Item) -> Event | None:
        position = item.branch.position
        position.run, position.event, position.outputs = item.at
        if item.branch.above is not None:
            parent, number = item.branch.above
            parent.children[number] = position
        if item.ended is not None:
            position.children.pop(item.ended.number, None)
        output = item.output
        if isinstance(output, Written):
            return self._text_event(LiveText(text=output.text), output.at, output.subtask, output.turn)
        if isinstance(output, TurnEvent) and output.state != "started":
            self._over.add(f"{item.branch.workflow_id}#{output.turn}")
        return output

    def _live_event(self, item: _Live) -> Event | None:
        if item.turn.id in self._over:
            return None
        scope = item.branch.projection.scope
        of_agent = None if is_text_for_all(item.turn, scope) else item.turn
        return self._text_event(item.text, datetime.now(UTC), scope.subtask, of_agent)

    def _text_event(self, text: LiveText, at: datetime, subtask: str, of_agent: Draft | None) -> Event | None:
        about: dict[str, Any] = {"session": self._session, "subtask": subtask, "at": at}
        if of_agent:
            # A follower that joins late starts a long text where it is available.
            begun = TextPosition(draft=1, length=text.offset, crc=text.before)
            position = self._agent_texts.setdefault(of_agent.id, begun)
            if not (new := position.advance(text)):
                return None
            offset = position.length - len(new)
            of_agent.written = of_agent.written[:offset] + new
            about |= {"turn": of_agent.activity_id, "agent": agent_of(of_agent)}
            return AgentTextEvent(offset=offset, text=new, **about)
        if subtask != self._text.subtask:
            self._text = TextPosition(subtask=subtask)
        new = self._text.advance(text)
        if not new:
            return None
        offset = self._text.length - len(new)
        draft = self._text.draft
        return TextEvent(draft=draft, offset=offset, text=new, **about)

    async def _read_live(self, _: _Branch) -> None:
        while True:
            await self._is_writing.wait()
            polled_at = time.monotonic()
            try:
                for branch in [*self._writing]:
                    await self._read_heartbeats(branch)
            except RPCError:
                await asyncio.sleep(_LIVE_SECONDS)
            await asyncio.sleep(max(_LIVE_SECONDS, _LIVE_SHARE * (time.monotonic() - polled_at)))

    async def _read_heartbeats(self, branch: _Branch) -> None:
        description = await describe(self._client, branch.workflow_id)
        for activity in description.pending_activities:
            if turn := branch.projection.activities.writing.get(activity.activity_id):
                heartbeat = await self._decoder.read(activity.heartbeat_details.payloads, Heartbeat)
                if heartbeat is not None and heartbeat.live is not None:
                    await self._queue.put(_Live(branch, turn, heartbeat.live))
