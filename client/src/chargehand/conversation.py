"""One conversation on a server: say something, read the reply, decide about tool calls, close it."""

import uuid
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from typing import Final

from pydantic import JsonValue
from temporalio.client import Client, WorkflowHandle
from temporalio.common import Priority, WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from chargehand.contracts import ConversationEnd, ConversationRequest, Event, PendingCall, Status
from chargehand.history.follow import follow
from chargehand.interface import ConversationInterface, valid_id
from chargehand.listing import goal_memo, one_line
from chargehand.messages import ConversationMessages, Input, Output, SessionMessage
from chargehand.session import exchange
from chargehand.temporal_errors import translated
from chargehand.visibility import describe_session, result_of

_TITLE: Final = "A conversation"


class Conversation(ConversationMessages):
    """One conversation: its messages, and how it ended.

    Every method raises errors of `chargehand.errors` only, as those of a session do.
    """

    def __init__(self, client: Client, conversation_id: str) -> None:
        self.id = conversation_id
        """The id of the conversation's workflow."""
        self._client = client
        self._handle: WorkflowHandle[ConversationInterface, ConversationEnd] = client.get_workflow_handle_for(
            ConversationInterface.run, conversation_id
        )

    async def send(
        self,
        message: SessionMessage[..., Input, Output],
        content: Input,
        *,
        id: str | None = None,  # noqa: A002  # as in Temporal
    ) -> Output:
        """Send a message with its content, and wait for the answer; an update of the same id has an effect only once.

        A reply can take as long as a person takes to approve a tool call.
        """
        return await exchange(self._client, self._handle, message, content, id)

    async def approve_call(self, call: PendingCall, arguments: Mapping[str, JsonValue] | None = None) -> Status:
        """Let a tool call of `status().calls` be made, with these arguments instead of its own if there are any."""
        if arguments is None:
            return await self.decide_call(call=call.id, hash=call.hash, decision="approve")
        return await self.decide_call(call=call.id, hash=call.hash, decision="edit", arguments=dict(arguments))

    async def reject_call(self, call: PendingCall, reason: str = "") -> Status:
        """Refuse a tool call of `status().calls`; its agent reads the reason, up to 2,000 characters, and continues."""
        return await self.decide_call(call=call.id, hash=call.hash, decision="reject", reason=reason)

    async def result(self) -> ConversationEnd:
        """Wait until the conversation has ended.

        Raises:
            SessionEnded: it failed, or was cancelled or terminated.
        """
        with translated(self.id):
            return await result_of(self._handle)

    async def cancel(self) -> None:
        """Stop the conversation without answering what waits; one that has ended stays as it is."""
        with translated(self.id):
            await describe_session(self._client, self.id)  # the server would cancel whatever has this id
            await self._handle.cancel()

    async def follow(self, after: str | None = None) -> AsyncGenerator[Event]:
        """Yield what happens in the conversation as it happens, as `Session.follow` does."""
        with translated(self.id):
            async with aclosing(follow(self._client, self.id, after)) as events:
                async for event in events:
                    yield event


async def start_conversation(
    client: Client, task_queue: str, request: ConversationRequest, conversation_id: str | None
) -> Conversation:
    """Open a conversation; with the id of one that exists, give that one back instead of opening a second."""
    name = f"conversation-{uuid.uuid4().hex[:12]}" if conversation_id is None else valid_id(conversation_id)
    with translated(name), suppress(WorkflowAlreadyStartedError):
        await client.start_workflow(
            ConversationInterface.run,
            request,
            id=name,
            task_queue=task_queue,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            static_summary=one_line(request.goal, 100) or _TITLE,
            memo=goal_memo(request.goal or _TITLE),
            priority=Priority(priority_key=request.priority, fairness_key=request.tenant),
        )
    return Conversation(client, name)
