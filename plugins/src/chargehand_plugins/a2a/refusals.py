"""The operations of A2A that sessions do not serve, each with the reason."""
# ruff: noqa: ARG002  # the library's own signatures

from collections.abc import AsyncGenerator
from typing import NoReturn

from a2a.server.context import ServerCallContext
from a2a.server.events.event_queue import Event
from a2a.server.request_handlers.request_handler import RequestHandler
from a2a.types import a2a_pb2 as a2a
from a2a.utils.errors import PushNotificationNotSupportedError, UnsupportedOperationError


class Refusals(RequestHandler):
    """Refuses what the card does not offer."""

    async def on_message_send_stream(
        self, params: a2a.SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event]:
        """Refuse: the card says that nothing is streamed."""
        raise UnsupportedOperationError
        yield

    async def on_subscribe_to_task(
        self, params: a2a.SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event]:
        """Refuse, as above."""
        raise UnsupportedOperationError
        yield

    async def on_list_tasks(self, params: a2a.ListTasksRequest, context: ServerCallContext) -> NoReturn:
        """Refuse: a caller learns nothing of the tasks of others."""
        raise UnsupportedOperationError

    async def on_get_extended_agent_card(
        self, params: a2a.GetExtendedAgentCardRequest, context: ServerCallContext
    ) -> NoReturn:
        """Refuse: there is none."""
        raise UnsupportedOperationError

    async def on_create_task_push_notification_config(
        self, params: a2a.TaskPushNotificationConfig, context: ServerCallContext
    ) -> NoReturn:
        """Refuse: the console has webhooks of its own."""
        raise PushNotificationNotSupportedError

    async def on_get_task_push_notification_config(
        self, params: a2a.GetTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> NoReturn:
        """Refuse, as above."""
        raise PushNotificationNotSupportedError

    async def on_list_task_push_notification_configs(
        self, params: a2a.ListTaskPushNotificationConfigsRequest, context: ServerCallContext
    ) -> NoReturn:
        """Refuse, as above."""
        raise PushNotificationNotSupportedError

    async def on_delete_task_push_notification_config(
        self, params: a2a.DeleteTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> NoReturn:
        """Refuse, as above."""
        raise PushNotificationNotSupportedError
