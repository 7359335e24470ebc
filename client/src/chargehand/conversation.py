"""One conversation on a server: say something, read the reply, decide about tool calls, close it."""

import uuid
from contextlib import suppress
from typing import Final

from temporalio.client import Client
from temporalio.common import Priority, WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from chargehand.contracts import ConversationEnd, ConversationRequest
from chargehand.interface import valid_id
from chargehand.listing import goal_memo, one_line
from chargehand.messages import ConversationMessages
from chargehand.session import Execution
from chargehand.temporal_errors import translated
from chargehand.visibility import result_of
from chargehand.wire import WorkflowType

_TITLE: Final = "A conversation"


class Conversation(Execution, ConversationMessages):
    """One conversation: its messages, and how it ended.

    Every method raises errors of `chargehand.errors` only, as those of a session do.
    """

    def __init__(self, client: Client, conversation_id: str) -> None:
        self.id = conversation_id
        self._client = client
        self._handle = client.get_workflow_handle(conversation_id, result_type=ConversationEnd)

    async def result(self) -> ConversationEnd:
        """Wait until the conversation has ended.

        Raises:
            SessionEnded: it failed, or was cancelled or terminated.
        """
        with translated(self.id):
            return await result_of(self._handle)


async def start_conversation(
    client: Client, task_queue: str, request: ConversationRequest, conversation_id: str | None
) -> Conversation:
    """Open a conversation; with the id of one that exists, give that one back instead of opening a second."""
    name = f"conversation-{uuid.uuid4().hex[:12]}" if conversation_id is None else valid_id(conversation_id)
    with translated(name), suppress(WorkflowAlreadyStartedError):
        await client.start_workflow(
            WorkflowType.CONVERSATION,
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
