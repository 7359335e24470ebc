"""Conversations stored outside the history, so that a turn sends only what is new since the last one.

This only saves space: a worker that lacks a conversation requests all of it again.
"""

import asyncio
import base64
import logging
import zlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from pydantic_core import from_json

from activities.contracts.rounds import Round
from activities.documents.artifacts import ArtifactError, Artifacts
from activities.models.abilities import can_see
from activities.turn_kinds.protocol import Message, Picture, ToolText
from activities.turn_kinds.registry import Task
from activities.turn_kinds.work import WorkTask
from chargehand.converter import non_retryable_error
from chargehand.wire import ErrorType

_LEAST_BYTES: Final = 1_000
"""Minimum JSON size for storing a conversation with its next round; smaller ones are sent again."""
_LEAST_BYTES_BEFORE: Final = 4_000
"""The same without that round, which is then sent."""
_logger = logging.getLogger("chargehand.turns")
_LEVEL: Final = 1
"""zlib level: a tenth larger than by default, in a third of the time, which recurs in every turn."""


class ConversationStore:
    """Conversations of subtasks by content digest."""

    def __init__(self, store: Artifacts) -> None:
        self._store = store

    async def whole(self, task: Task) -> Task:
        """Prepend the stored part of a conversation. Raises `ConversationMissing` if this worker lacks that part."""
        if not isinstance(task, WorkTask) or not task.earlier:
            return task
        try:
            content = await asyncio.to_thread(self._store.read, task.earlier)
        except ArtifactError as error:
            raise non_retryable_error(
                ErrorType.CONVERSATION_MISSING, "This worker does not have the earlier part of the conversation."
            ) from error
        before = from_json(zlib.decompress(content))
        rounds = [Round.model_validate(each) for each in before.get("rounds", ())[: task.earlier_rounds]]
        if task.since is not None:
            rounds[-1] = rounds[-1].told_since(task.since)
        own = {"kind": task.kind, "must_answer": task.must_answer, "rounds": (*rounds, *task.rounds)}
        return type(task).model_validate(before | own)

    async def keep(self, task: Task, past: Round | None) -> str:
        """Store a conversation, and the round that follows it, for the next turn.

        Returns:
            its digest; "" if it is short or this is the last turn.
        """
        if not isinstance(task, WorkTask) or task.must_answer:
            return ""
        rounds = task.rounds if past is None else (*task.rounds, past)
        try:
            content = task.replace(rounds=rounds).model_dump_json().encode()
            if len(content) < (_LEAST_BYTES_BEFORE if past is None else _LEAST_BYTES):
                return ""
            return await asyncio.to_thread(lambda: self._store.put(zlib.compress(content, _LEVEL)))
        except Exception:
            # The conversation is sent again instead, since the reply must not be lost.
            _logger.exception("a conversation could not be stored")
            return ""


_PNG: Final = b"\x89PNG"
_UNSEEN: Final = "(There is a picture, which this model cannot see.)"
_GONE: Final = "(There was a picture, which cannot be read any more.)"


Read = Callable[[str], Awaitable[bytes | None]]
"""Reads a picture by name; None if it is gone."""


async def show_pictures(messages: Sequence[Message], read: Read, model: str) -> tuple[Message, ...]:
    """Load the pictures of tool results for a vision model; for others, state that they are not shown."""
    shown: list[Message] = []
    for message in messages:
        results = [await _show(result, read, model) if result.pictures else result for result in message.results]
        shown.append(message.replace(results=tuple(results)))
    return tuple(shown)


async def _show(result: ToolText, read: Read, model: str) -> ToolText:
    if not can_see(model):
        return hide_pictures(result)
    contents = [await read(name) for name in result.pictures]
    if None in contents:
        return hide_pictures(result, _GONE)
    kinds = [(each, "image/png" if each.startswith(_PNG) else "image/jpeg") for each in contents if each]
    shown = (Picture(media_type=kind, base64=base64.b64encode(each).decode()) for each, kind in kinds)
    return result.replace(shown=tuple(shown))


def hide_pictures(result: ToolText, why: str = _UNSEEN) -> ToolText:
    """State that pictures are not shown."""
    text = f"{result.text}\n{why}" if result.pictures else result.text
    return result.replace(text=text, pictures=(), shown=())
