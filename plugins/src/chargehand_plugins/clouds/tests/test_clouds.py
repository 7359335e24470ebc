"""Models from cloud providers through the vendors' own clients, against a loopback server."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from decimal import Decimal

import pytest

from activities.backends import SettingsError
from activities.models.failures import ProviderError
from activities.models.protocol import CountsInput, ModelCall
from activities.models.registry import ModelSettings, build_models
from activities.models.tiers import Models
from chargehand.contracts import Tier
from chargehand.wire import ErrorType
from tests.activities.models.calls import a_call
from tests.scripted_provider import ScriptedProvider, ScriptedReply, answer, raw

NAMES = {"bedrock": "anthropic.claude-haiku-5-5", "vertex": "claude-haiku-5-5", "azure": "our-deployment"}
CLOUDS = sorted(NAMES)
TOKEN = "ya29.a0AfB_byDexample0123456789abcdefghijk"


class _Token:
    token = TOKEN
    expired = False


def _google(*, project_id: str) -> tuple[_Token, str]:
    """Stand in for the Google login, whose address cannot be configured."""
    return _Token(), project_id


def settings_of(cloud: str) -> ModelSettings:
    prices = {"our-deployment": (Decimal(1), Decimal(2))} if cloud == "azure" else {}
    return ModelSettings(provider=cloud, models=dict.fromkeys(Tier, NAMES[cloud]), prices=prices)


Serve = Callable[..., AbstractAsyncContextManager[tuple[ScriptedProvider, Models, ModelCall]]]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Serve:
    """Point the vendors' clients at a loopback server; yield the server, our adapter over them and a call."""

    @asynccontextmanager
    async def served(
        cloud: str, reply: ScriptedReply, *, signed: bool = True
    ) -> AsyncGenerator[tuple[ScriptedProvider, Models, ModelCall]]:
        async with ScriptedProvider(lambda _: reply) as server, AsyncExitStack() as closing:
            for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_BEARER_TOKEN_BEDROCK"):
                monkeypatch.delenv(name, raising=False)
            for name, value in _environment(cloud, server.base_url, signed=signed).items():
                monkeypatch.setenv(name, value)
            if signed:
                monkeypatch.setattr("anthropic.lib.vertex._client.load_auth", _google)
            models = build_models(settings_of(cloud), cloud, closing)
            await models.until_connected()
            yield server, models, a_call().model_copy(update={"model": NAMES[cloud]})

    return served


def _environment(cloud: str, url: str, *, signed: bool) -> dict[str, str]:
    """Return the environment of a vendor's client; unless `signed`, the client finds no credentials."""
    nowhere = ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "GOOGLE_APPLICATION_CREDENTIALS")
    keys = {"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": TOKEN}
    return (keys if signed else dict.fromkeys(nowhere, "/no/such/file")) | {
        "bedrock": {
            # The vendor's client keeps credentials by region, for the whole process.
            "AWS_REGION": "eu-central-1" if signed else "eu-west-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "ANTHROPIC_BEDROCK_MANTLE_BASE_URL": url,
        },
        "vertex": {
            "CLOUD_ML_REGION": "global",
            "ANTHROPIC_VERTEX_PROJECT_ID": "house",
            "ANTHROPIC_VERTEX_BASE_URL": url,
        },
        "azure": {"AZURE_OPENAI_ENDPOINT": url, "OPENAI_API_VERSION": "2026-10-01", "AZURE_OPENAI_API_KEY": TOKEN},
    }[cloud]


@pytest.mark.parametrize("cloud", CLOUDS)
async def test_a_cloud_turn_is_completed_counted_and_priced(cloud: str, serve: Serve) -> None:
    """The vendor's client signs; requests and charges are the same as at the vendor's own address."""
    async with serve(cloud, answer()) as (server, models, call):
        reply = await models.adapter.complete(call)
        assert isinstance(models.adapter, CountsInput)
        counted = await models.adapter.count_input(call)

    [request] = server.requests
    assert (reply.stop, reply.provider) == ("answer", cloud)
    assert reply.usage is not None
    assert reply.usage.cost_usd > 0
    assert models.card(Tier.SMALL).prices[0].output_usd_per_million > 0
    assert counted == server.count(server.counted[0]) > 0
    assert "service_tier" not in request.body or cloud == "azure"
    signature = request.headers.get("authorization", "") + request.headers.get("api-key", "")
    signatures = {"bedrock": "AWS4-HMAC-SHA256 Credential=AKIAEXAMPLE", "vertex": "Bearer " + TOKEN, "azure": TOKEN}
    assert signatures[cloud] in signature


@pytest.mark.parametrize("cloud", ["bedrock", "vertex"])
async def test_missing_credentials_are_reported_and_not_retried(cloud: str, serve: Serve) -> None:
    async with serve(cloud, answer(), signed=False) as (server, models, call):
        with pytest.raises(ProviderError, match="credentials") as failure:
            await models.adapter.complete(call)

    assert (failure.value.is_final, failure.value.kind) == (True, ErrorType.PROVIDER_REFUSED)
    assert not server.requests


@pytest.mark.parametrize("cloud", CLOUDS)
async def test_a_secret_echoed_by_a_cloud_is_not_disclosed(cloud: str, serve: Serve) -> None:
    refusal = raw(f'{{"error": {{"message": "key {TOKEN} is not ours"}}}}'.encode(), status=401)
    async with serve(cloud, refusal) as (_, models, call):
        with pytest.raises(ProviderError) as failure:
            await models.adapter.complete(call)

    assert failure.value.fault.status == 401
    assert TOKEN not in str(failure.value)


@pytest.mark.parametrize(
    ("cloud", "missing"), [("bedrock", "AWS_REGION"), ("vertex", "CLOUD_ML_REGION"), ("azure", "AZURE_OPENAI_ENDPOINT")]
)
async def test_a_missing_cloud_setting_is_named_at_startup(
    cloud: str, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (missing, "AWS_DEFAULT_REGION", "ANTHROPIC_BEDROCK_MANTLE_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    async with AsyncExitStack() as closing:
        with pytest.raises(SettingsError, match=missing):
            build_models(settings_of(cloud), cloud, closing)
