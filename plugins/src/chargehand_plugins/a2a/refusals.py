"""The operations of A2A that sessions do not serve, each with the reason."""
# ruff: noqa: ARG002  # the library's own signatures

from collections.abc import AsyncGenerator
from typing import NoReturn

from a2a.server.events.event_queue import Event
from a2a.server.request_handlers.request_handler import RequestHandler
from a2a.utils.errors import PushNotificationNotSupportedError, UnsupportedOperationError


class Refusals(RequestHandler):
    """Refuses what the card does not offer: streams, an extended card, and push notifications beside our webhooks."""

    async def _stream(self, params: object, context: object) -> AsyncGenerator[Event]:
        raise UnsupportedOperationError
        yield

    async def _push(self, params: object, context: object) -> NoReturn:
        raise PushNotificationNotSupportedError

    async def on_get_extended_agent_card(self, params: object, context: object) -> NoReturn:
        raise UnsupportedOperationError

    on_message_send_stream = on_subscribe_to_task = _stream
    on_create_task_push_notification_config = on_get_task_push_notification_config = _push
    on_list_task_push_notification_configs = on_delete_task_push_notification_config = _push
