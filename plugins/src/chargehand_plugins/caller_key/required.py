"""Refuses updates and signals from senders without the operator's key, and signs the signals of workflows.

Validators run only before an update is accepted. A refused signal leaves a marker in the history, and replays depend
only on markers. The key can therefore change without affecting replays.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import Field, SecretStr
from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, Plugin
from temporalio.plugin import SimplePlugin
from temporalio.worker import (
    HandleSignalInput,
    HandleUpdateInput,
    Interceptor,
    SignalExternalWorkflowInput,
    WorkflowInboundInterceptor,
    WorkflowOutboundInterceptor,
)

from chargehand.converter import non_retryable_error
from chargehand.wire import ErrorType, SignalName
from chargehand_plugins.caller_key.signature import SETTING, SHORTEST, CallerKey, SignUpdates
from worker.settings import PartSettings, Settings, settings_of
from workflows.registry import AroundWorkflows


class CallerKeySettings(PartSettings):
    caller_key: SecretStr | None = Field(default=None, min_length=SHORTEST)
    """The key with which callers sign what changes a session; without a signature it is refused. 32 characters or
    more, such as those of `openssl rand -base64 32`."""
    caller_key_accepted: SecretStr | None = Field(default=None, min_length=SHORTEST)
    """A second key whose signatures workers accept too, while callers change from one key to the other."""


def client_plugins(settings: Settings, _: object) -> list[Plugin]:
    return [SimplePlugin(SETTING, interceptors=[SignUpdates(key)]) for key in _keys(settings)[:1]]


def _keys(settings: Settings) -> list[CallerKey]:
    own = settings_of(settings, CallerKeySettings)
    return [CallerKey(key.get_secret_value()) for key in (own.caller_key, own.caller_key_accepted) if key]


def interceptors(settings: Settings, _: Client) -> list[Interceptor]:
    return [RequireCallerKey(*_keys(settings))]  # without a key, for signals that were refused when there was one


_OURS = frozenset[str](SignalName)


def _has_signed(keys: tuple[CallerKey, ...], headers: Mapping[str, Payload], *signed: Any) -> bool:
    return not keys or any(key.has_signed(headers, *signed) for key in keys)


class _SignSignals(WorkflowOutboundInterceptor):
    def __init__(self, next: WorkflowOutboundInterceptor, key: CallerKey) -> None:  # noqa: A002  # the SDK's own name
        super().__init__(next)
        self._key = key

    async def signal_external_workflow(self, input: SignalExternalWorkflowInput) -> None:  # noqa: A002  # as above
        input.headers = self._key.sign(input.headers, input.workflow_id, input.signal, "", input.args)
        await super().signal_external_workflow(input)


class RequireCallerKey(AroundWorkflows):
    def __init__(self, *keys: CallerKey) -> None:
        class RequireSignature(WorkflowInboundInterceptor):
            _signals = 0

            def init(self, outbound: WorkflowOutboundInterceptor) -> None:
                super().init(_SignSignals(outbound, keys[0]) if keys else outbound)

            async def handle_signal(self, input: HandleSignalInput) -> None:  # noqa: A002  # as above
                self._signals += 1
                signed = (input.headers, workflow.info().workflow_id, input.signal, "", input.args)
                is_replayed = workflow.unsafe.is_replaying()
                is_accepted = not is_replayed and (input.signal not in _OURS or _has_signed(keys, *signed))
                if is_accepted or not workflow.patched(f"signal {self._signals} is not signed"):
                    await super().handle_signal(input)

            def handle_update_validator(self, input: HandleUpdateInput) -> None:  # noqa: A002  # as above
                signed = (workflow.info().workflow_id, input.update, input.id, input.args)
                if not _has_signed(keys, input.headers, *signed):
                    raise non_retryable_error(
                        ErrorType.UPDATE_REFUSED,
                        f"{SETTING} is missing or is not the one of the workers: set it, and use the client, the "
                        f"command or the console, which sign what they send.",
                    )
                super().handle_update_validator(input)

        super().__init__(RequireSignature)
