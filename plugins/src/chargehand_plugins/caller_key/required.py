"""Refuses updates of callers without the operator's key.

Validators run only before an update is accepted, so the key can change without affecting replays.
"""

from pydantic import Field, SecretStr
from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import HandleUpdateInput, Interceptor, WorkflowInboundInterceptor, WorkflowInterceptorClassInput

from chargehand.converter import non_retryable_error
from chargehand.wire import ErrorType
from chargehand_plugins.caller_key.signature import SETTING, SHORTEST, CallerKey
from worker.settings import PartSettings, Settings, settings_of


class CallerKeySettings(PartSettings):
    caller_key: SecretStr | None = Field(default=None, min_length=SHORTEST)
    """The key with which callers sign what changes a session; without a signature it is refused. 32 characters or
    more, such as those of `openssl rand -base64 32`."""
    caller_key_accepted: SecretStr | None = Field(default=None, min_length=SHORTEST)
    """A second key whose signatures workers accept too, while callers change from one key to the other."""


def interceptors(settings: Settings, _: Client) -> list[Interceptor]:
    own = settings_of(settings, CallerKeySettings)
    keys = [CallerKey(key.get_secret_value()) for key in (own.caller_key, own.caller_key_accepted) if key]
    return [RequireCallerKey(*keys)] if keys else []


class RequireCallerKey(Interceptor):
    def __init__(self, *keys: CallerKey) -> None:
        self._keys = keys

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,  # noqa: A002, ARG002  # the SDK's own name
    ) -> type[WorkflowInboundInterceptor]:
        keys = self._keys

        class RequireSignature(WorkflowInboundInterceptor):
            def handle_update_validator(self, input: HandleUpdateInput) -> None:  # noqa: A002  # as above
                signed = (workflow.info().workflow_id, input.update, input.id, input.args)
                if not any(key.has_signed(input.headers, *signed) for key in keys):
                    raise non_retryable_error(
                        ErrorType.UPDATE_REFUSED,
                        f"{SETTING} is missing or is not the one of the workers: set it, and use the client, the "
                        f"command or the console, which sign what they send.",
                    )
                super().handle_update_validator(input)

        return RequireSignature
