"""Adapters for the model vendors' cloud clients, which take address and credentials from the environment."""

import os
from collections.abc import Generator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar, Final

from pydantic import JsonValue

from activities.backends import SettingsError
from activities.models.anthropic_messages import AnthropicModel, MessageFold, request_body
from activities.models.failures import ProviderError, ProviderFault, redacted
from activities.models.openai_responses import OpenAIResponsesModel
from activities.models.protocol import ModelCall
from activities.models.registry import ModelSettings
from chargehand.wire import ErrorType

if TYPE_CHECKING:
    import anthropic
    import openai

_CREDENTIALS: Final = frozenset({"botocore", "google"})
"""Packages whose errors concern credentials here."""


@contextmanager
def _explain_credentials(provider: str) -> Generator[None]:
    """Explain missing or refused credentials; only a failure to fetch them is retryable."""
    try:
        yield
    except Exception as error:
        # The vendors' clients raise a bare exception if the credential chain yields no credentials.
        if type(error).__module__.partition(".")[0] not in _CREDENTIALS and type(error) is not RuntimeError:
            raise
        message = f"{provider}: no credentials could be had: {redacted(str(error))}"
        is_final = not getattr(error, "retryable", False)
        kind = ErrorType.PROVIDER_REFUSED if is_final else ErrorType.PROVIDER_UNAVAILABLE
        raise ProviderError(message, ProviderFault(provider=provider), kind, is_final=is_final) from None


@dataclass(kw_only=True, eq=False, repr=False)
class _CloudClaude(AnthropicModel):
    """Claude in a cloud: the Messages API at the cloud's address, without batches."""

    lists_models = False
    client_class: ClassVar[tuple[str, str]]
    """Module and name of the vendor's client, which finds address and credentials itself."""

    def _make_client(self) -> "anthropic.AsyncAnthropic":
        import anthropic

        module, name = self.client_class
        network = self._limit(anthropic.DefaultAsyncHttpxClient)
        return getattr(import_module(module), name)(max_retries=0, http_client=network, open_telemetry=False)

    async def _send(self, client: "anthropic.AsyncAnthropic", call: ModelCall) -> JsonValue:
        # Clouds sell reserved capacity in other ways.
        body = {name: part for name, part in request_body(call).items() if name != "service_tier"}
        with _explain_credentials(self.provider):
            return await self._stream(client, "/v1/messages", body, call, MessageFold())

    async def count_input(self, call: ModelCall) -> int:
        with _explain_credentials(self.provider):
            return await super().count_input(call)


@dataclass(kw_only=True, eq=False, repr=False)
class BedrockModel(_CloudClaude):
    provider = "bedrock"
    client_class = ("anthropic.lib.bedrock", "AsyncAnthropicBedrockMantle")
    price_list: str = "aws"


@dataclass(kw_only=True, eq=False, repr=False)
class VertexModel(_CloudClaude):
    provider = "vertex"
    client_class = ("anthropic.lib.vertex", "AsyncAnthropicVertex")
    price_list: str = "google"


@dataclass(kw_only=True, eq=False, repr=False)
class AzureModel(OpenAIResponsesModel):
    """OpenAI's models on Azure; their names are the operator's deployments, so prices must be set."""

    provider = "azure"
    lists_models = False

    def _make_client(self) -> "openai.AsyncOpenAI":
        import openai

        return openai.AsyncAzureOpenAI(max_retries=0, http_client=self._limit(openai.DefaultAsyncHttpxClient))


def open_bedrock(_: ModelSettings, __: AsyncExitStack) -> BedrockModel:
    _require("bedrock", "AWS_REGION", "AWS_DEFAULT_REGION", "ANTHROPIC_BEDROCK_MANTLE_BASE_URL")
    return BedrockModel(api_key=_secret("AWS_BEARER_TOKEN_BEDROCK", "AWS_SECRET_ACCESS_KEY"))


def open_vertex(_: ModelSettings, __: AsyncExitStack) -> VertexModel:
    _require("vertex", "CLOUD_ML_REGION")
    _require("vertex", "ANTHROPIC_VERTEX_PROJECT_ID", "GOOGLE_APPLICATION_CREDENTIALS")
    return VertexModel()


def open_azure(_: ModelSettings, __: AsyncExitStack) -> AzureModel:
    _require("azure", "AZURE_OPENAI_ENDPOINT")
    _require("azure", "OPENAI_API_VERSION")
    _require("azure", "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN")
    return AzureModel(api_key=_secret("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN"))


def _secret(*names: str) -> str:
    """Return a value to redact from errors; the vendor's client reads it itself."""
    return next(filter(None, map(os.environ.get, names)), "")


def _require(provider: str, *names: str) -> None:
    """Report missing variables at the worker's start; any one of several suffices."""
    if not any(map(os.environ.get, names)):
        raise SettingsError(f"{names[0]}: CHARGEHAND_PROVIDER={provider} needs it.")
