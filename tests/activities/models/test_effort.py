"""The reasoning effort is sent to the models that accept it, and to no others."""

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from activities.contracts.cards import OutputCaps
from activities.contracts.session import OpenSessionRequest, SessionFacts
from activities.contracts.tool import tool_capabilities
from activities.crews.files import load_crews
from activities.crews.versions import CrewVersions
from activities.models.abilities import Abilities, abilities_of
from activities.models.failures import ProviderError
from activities.models.registry import build_models
from activities.models.streaming import Patience
from activities.opening.activity import SessionActivities
from chargehand.contracts import Effort, SessionRequest, Tier
from chargehand.contracts.limits import PROFILES, Profile
from tests.activities.models.calls import KEY, WIRES, Wire, a_call, a_provider, requests_of
from tests.crew_files import READS_DOCUMENTS, crew_folder
from tests.environment import TOOLS, scripted_cards
from tests.scripted_model import ScriptedTool, found
from tests.scripted_provider import ScriptedReply, ScriptedRequest, answer, error
from worker.settings import Settings

every_wire = pytest.mark.parametrize("wire", WIRES)
THINKERS = {"anthropic": "claude-sonnet-5-5", "responses": "gpt-6.1-sol", "chat": "gemini-3.8-flash"}
PLAIN = {"anthropic": "claude-haiku-4-5", "responses": "gpt-4.1", "chat": "house-model"}

NO_TEMPERATURE = {"anthropic": "claude-opus-4-8", "responses": "gpt-6.1-sol", "chat": "o4-mini"}
BOTH = {"anthropic": "claude-sonnet-4-6", "responses": "gpt-oss-120b", "chat": "gemini-3.8-flash"}
"""Models that take an effort or a temperature."""


def _sent(request: ScriptedRequest) -> tuple[object, ...]:
    """Read the effort of a request, and whatever turns thinking on."""
    body = request.body
    match request.wire:
        case "anthropic":
            return (body.get("thinking"), body["output_config"].get("effort"))
        case "responses":
            return (body.get("reasoning"),)
        case "chat":
            return (body.get("reasoning_effort"),)


def _as_sent(wire: Wire, effort: Effort | None) -> tuple[object, ...]:
    match wire:
        case "anthropic":
            return (effort and {"type": "adaptive"}, effort)
        case "responses":
            return (effort and {"effort": effort},)
        case "chat":
            return (effort,)


@every_wire
async def test_effort_is_sent_to_models_that_accept_it(wire: Wire) -> None:
    """Each wire has its own form; other models get no effort."""
    efforts: tuple[Effort, ...] = ("low", "medium", "high")
    call = a_call(wire)

    told = await requests_of(
        wire, *(call.model_copy(update={"model": THINKERS[wire], "effort": effort}) for effort in efforts)
    )
    untold = await requests_of(wire, call.model_copy(update={"model": PLAIN[wire], "effort": "high"}))

    assert [_sent(request) for request in told] == [_as_sent(wire, effort) for effort in efforts]
    assert [_sent(request) for request in untold] == [_as_sent(wire, None)]


@every_wire
async def test_reasoning_models_setting_overrides_the_model_name(wire: Wire) -> None:
    """It overrides the model table in both directions."""
    async with a_provider(wire, lambda _: answer()) as (server, model):
        model.reasoning_models = {THINKERS[wire]: False, PLAIN[wire]: True}
        for name in (THINKERS[wire], PLAIN[wire]):
            await model.complete(a_call(wire).model_copy(update={"model": name, "effort": "low"}))

    assert [_sent(request) for request in server.requests] == [_as_sent(wire, None), _as_sent(wire, "low")]


@every_wire
async def test_a_model_that_refuses_effort_is_called_again_without_it(wire: Wire) -> None:
    """One free request is spent, once per model; an unrelated refusal is still raised."""

    def respond(request: ScriptedRequest) -> ScriptedReply:
        if _sent(request) == _as_sent(wire, None):
            return answer()
        problem = {"type": "invalid_request_error", "message": "This model does not support the effort parameter."}
        return error(400, body={"type": "error", "error": problem})

    call = a_call(wire).model_copy(update={"model": THINKERS[wire], "effort": "high"})
    async with a_provider(wire, respond) as (server, model):
        replies = [await model.complete(call) for _ in range(2)]
        assert [reply.stop for reply in replies] == ["answer"] * 2
        assert len(server.requests) == 3

    async with a_provider(wire, lambda _: error(400)) as (server, model):
        with pytest.raises(ProviderError):
            await model.complete(call)
        assert len(server.requests) == 1


@every_wire
async def test_temperature_is_sent_only_to_models_that_accept_it(wire: Wire) -> None:
    """A turn that sends an effort sends no temperature; Anthropic's is capped at 1."""
    call = a_call(wire).model_copy(update={"temperature": 1.5})
    names = [PLAIN[wire], PLAIN[wire], NO_TEMPERATURE[wire]]
    settings = [{"model": name, "effort": effort} for name, effort in zip(names, (None, "low", None), strict=True)]
    settings.append({"model": BOTH[wire], "effort": "low"})

    sent = await requests_of(wire, *(call.model_copy(update=each) for each in settings))

    highest = 1.0 if wire == "anthropic" else 1.5
    assert [request.body.get("temperature") for request in sent] == [highest, highest, None, None]


def test_gateway_prefixes_do_not_hide_a_model() -> None:
    """Nothing is assumed about an unknown model."""
    assert abilities_of("openai/gpt-6-luna") == abilities_of("gpt-6-luna") == Abilities(True, False, 128_000)
    assert abilities_of("models/gemini-2.5-pro") == Abilities(True, True, 65_536)
    assert abilities_of("claude-opus-4-1-20250805") == Abilities(False, True, 32_000)
    assert abilities_of("gpt-5-chat-latest").takes_effort is False
    assert abilities_of("qwen3:8b") == Abilities()


def test_allowed_silence_grows_with_the_output_limit() -> None:
    """Three times the tokens allow three times the silence, and no call gets less than the configured patience."""
    usual = Patience(60, 30)

    assert [usual.for_output(tokens) for tokens in (500, 8_000, 24_000)] == [usual, usual, Patience(180, 90)]


@pytest.mark.parametrize(("provider", "key"), [("anthropic", "ANTHROPIC_API_KEY"), ("openai", "OPENAI_API_KEY")])
async def test_every_default_model_is_priced_and_accepts_effort(
    monkeypatch: pytest.MonkeyPatch, provider: str, key: str
) -> None:
    """The current price list and the model table know the model of each tier."""
    monkeypatch.setenv(key, KEY)
    async with AsyncExitStack() as closing:
        models = build_models(Settings(), provider, closing)

    cards = [models.card(tier) for tier in Tier]
    assert all(card.prices[0].output_usd_per_million > 0 for card in cards)
    assert all(abilities_of(card.name) == Abilities(True, False, 128_000) for card in cards)
    assert all(card.max_output_tokens == 128_000 for card in cards)


async def _facts(crews: Path, profile: Profile | None = None) -> SessionFacts:
    """Open a session of the crew in a folder."""
    tools = {name: ScriptedTool(name, found("a", "b")) for name in TOOLS}
    versions = CrewVersions(load_crews([crews], tool_capabilities(tools)), tools, scripted_cards())
    activities = SessionActivities(versions, tools, PROFILES["deep"], output_caps=OutputCaps(work=5_000))
    request = SessionRequest(goal="Why?", crew="research", profile=profile)
    return await activities.open_session(OpenSessionRequest(session="s", request=request))


async def test_an_agents_effort_defaults_to_that_of_its_crew(tmp_path: Path) -> None:
    """The crew's `effort` also applies to the supervisor."""
    analyst, clerk = (f'tools = ["query_data"]\n{READS_DOCUMENTS}\n{own}' for own in ('effort = "high"', ""))
    folder = crew_folder(tmp_path, "research", 'effort = "low"', analyst=analyst, clerk=clerk)

    facts = await _facts(folder)

    assert facts.crew.effort == "low"
    assert {agent.name: agent.effort for agent in facts.crew.agents} == {"analyst": "high", "clerk": "low"}
    assert facts.output_caps.work == 5_000


@pytest.mark.parametrize(("profile", "effort"), [("quick", "low"), ("standard", None), ("deep", "high")])
async def test_a_profile_sets_the_effort_of_a_crew_without_one(profile: Profile, effort: Effort | None) -> None:
    """The profile's effort applies to the supervisor and to every agent."""
    facts = await _facts(Path(__file__).parents[3] / "crews", profile)

    assert {facts.crew.effort, *(agent.effort for agent in facts.crew.agents)} == {effort}
