"""Updates of callers who do not have the operator's key are refused.

Validators run before an update is accepted, and never again: the key can change without an effect on replays.
"""

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict
from temporalio import workflow
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.worker import (
    HandleUpdateInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

from chargehand.wire import ErrorType
from chargehand_plugins.caller_key.signature import SETTING, SHORTEST, CallerKey
from worker.settings import Settings, settings_of


class CallerKeySettings(BaseSettings):
    model_config = SettingsConfigDict(use_attribute_docstrings=True)

    caller_key: SecretStr | None = Field(default=None, min_length=SHORTEST)
    """The key with which callers sign what changes a session; without a signature it is refused. 32 characters or
    more, such as those of `openssl rand -base64 32`."""


def interceptors(settings: Settings, _: Client) -> list[Interceptor]:
    key = settings_of(settings, CallerKeySettings).caller_key
    return [RequireCallerKey(CallerKey(key.get_secret_value()))] if key else []


class RequireCallerKey(Interceptor):
    """Lets only updates through that are signed with a key."""

    def __init__(self, key: CallerKey) -> None:
        self._key = key

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,  # noqa: A002, ARG002  # the SDK's own name
    ) -> type[WorkflowInboundInterceptor]:
        key = self._key

        class RequireSignature(WorkflowInboundInterceptor):
            def handle_update_validator(self, input: HandleUpdateInput) -> None:  # noqa: A002  # as above
                if not key.has_signed(input.headers, workflow.info().workflow_id, input.update, input.id, input.args):
                    raise ApplicationError(
                        f"{SETTING} is missing or is not the one of the workers: set it, and use the client, the "
                        f"command or the console, which sign what they send.",
                        type=ErrorType.UPDATE_REFUSED,
                        non_retryable=True,
                    )
                super().handle_update_validator(input)

        return RequireSignature
