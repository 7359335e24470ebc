"""Conversations kept outside of the history, so that a turn sends only what is new since the one before.

A worker that does not have one asks for the whole again: keeping them saves space and is never relied upon.
"""

import asyncio
import zlib
from typing import Final

from temporalio.exceptions import ApplicationError

from activities.documents.artifacts import ArtifactError, Artifacts
from activities.turn_kinds.registry import Task
from activities.turn_kinds.work import WorkTask
from chargehand.wire import ErrorType

LEAST_BYTES: Final = 4_000
"""Size as JSON from which a conversation is kept; a smaller one is sent again."""


class Conversations:
    """The conversations of subtasks, by the digest of what was said."""

    def __init__(self, store: Artifacts) -> None:
        self._store = store

    async def whole(self, task: Task) -> Task:
        """Put what came before in front of what is new.

        Raises:
            ApplicationError: `ConversationMissing`, if this worker does not have what came before.
        """
        if not isinstance(task, WorkTask) or not task.earlier:
            return task
        try:
            kept = await asyncio.to_thread(self._store.read, task.earlier)
        except ArtifactError as error:
            raise ApplicationError(
                "This worker does not have the earlier part of the conversation.",
                type=ErrorType.CONVERSATION_MISSING,
                non_retryable=True,
            ) from error
        before = WorkTask.model_validate_json(zlib.decompress(kept))
        return before.model_copy(
            update={"rounds": (*before.rounds, *task.rounds), "must_answer": task.must_answer, "earlier": ""}
        )

    async def keep(self, task: Task) -> str:
        """Keep a conversation for the next turn; its digest, or nothing if it is short or its last turn."""
        if not isinstance(task, WorkTask) or task.must_answer:
            return ""
        content = task.model_dump_json().encode()
        if len(content) < LEAST_BYTES:
            return ""
        try:
            return await asyncio.to_thread(lambda: self._store.put(zlib.compress(content)))
        except (ArtifactError, OSError):
            return ""
