"""The key of callers that may change sessions, for Temporal servers without access control.

Callers sign each update: the session, the update, its id and its arguments; workers and workflows sign each signal in
the same way, without an id. Workers with the key refuse all others. A reader of a history can replay a signed message,
but only to the same session, with the same arguments.
"""

import hmac
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

from pydantic_core import to_json
from temporalio.api.common.v1 import Payload
from temporalio.client import (
    Interceptor,
    OutboundInterceptor,
    SignalWorkflowInput,
    StartWorkflowInput,
    StartWorkflowUpdateInput,
    WorkflowHandle,
    WorkflowUpdateHandle,
)

from chargehand.errors import UnusableSettings

SETTING: Final = "CHARGEHAND_CALLER_KEY"
SHORTEST: Final = 32
"""Minimum characters of a key."""
_HEADER: Final = "chargehand-caller"


class CallerKey:
    """A secret that operators and callers share."""

    def __init__(self, text: str) -> None:
        if len(text) < SHORTEST:
            raise UnusableSettings(f"{SETTING} has {len(text)} characters; at least {SHORTEST} are needed.")
        self._key = text.encode()

    def sign(
        self, headers: Mapping[str, Payload], receiver: str, message: str, message_id: str, arguments: Sequence[Any], /
    ) -> dict[str, Payload]:
        """Return the headers of a message with its signature; `receiver` is a workflow id."""
        signature = hmac.digest(self._key, to_json([receiver, message, message_id, *arguments]), "sha256")
        return {**headers, _HEADER: Payload(metadata={"encoding": b"binary/plain"}, data=signature)}

    def has_signed(self, headers: Mapping[str, Payload], *message: Any) -> bool:
        return _HEADER in headers and hmac.compare_digest(headers[_HEADER].data, self.sign({}, *message)[_HEADER].data)


def sign_updates() -> Interceptor:
    key = os.environ.get(SETTING)
    return SignUpdates(CallerKey(key)) if key else Interceptor()


class SignUpdates(Interceptor):
    def __init__(self, key: CallerKey) -> None:
        self._key = key

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:  # noqa: A002  # the SDK's own name
        return _Sign(next, self._key)


class _Sign(OutboundInterceptor):
    def __init__(self, next: OutboundInterceptor, key: CallerKey) -> None:  # noqa: A002  # as above
        super().__init__(next)
        self._key = key

    async def signal_workflow(self, input: SignalWorkflowInput) -> None:  # noqa: A002  # as above
        input.headers = self._key.sign(input.headers, input.id, input.signal, "", input.args)
        await super().signal_workflow(input)

    async def start_workflow(self, input: StartWorkflowInput) -> WorkflowHandle[Any, Any]:  # noqa: A002  # as above
        if input.start_signal:
            signal = (input.id, input.start_signal, "", input.start_signal_args)
            input.headers = self._key.sign(input.headers, *signal)
        return await super().start_workflow(input)

    async def start_workflow_update(
        self,
        input: StartWorkflowUpdateInput,  # noqa: A002  # as above
    ) -> WorkflowUpdateHandle[Any]:
        input.update_id = input.update_id or str(uuid4())
        input.headers = self._key.sign(input.headers, input.id, input.update, input.update_id, input.args)
        return await super().start_workflow_update(input)
