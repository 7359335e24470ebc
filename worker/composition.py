"""From settings to activities: choose adapters by settings, and build the activities on top of them."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final

from activities.backends import Choice, SettingsError, secret
from activities.contracts.tool import Tool, acting_tools, tool_capabilities
from activities.credentials import credential_problems
from activities.crews.files import load_crews, mcp_declarations, slow_queues
from activities.crews.versions import CrewVersions
from activities.documents.artifacts import Artifacts
from activities.documents.cleanup import keep_swept
from activities.documents.library import DocumentLibrary
from activities.documents.registry import (
    CACHES,
    artifact_store,
    document_library,
    effect_record,
    lasting_store,
    require_writable,
)
from activities.models.registry import build_models, model_backend
from activities.models.tiers import Models, name_models
from activities.opening.activity import SearchAttributesCheck, SessionActivities, record_session
from activities.opening.backlogs import BacklogActivities
from activities.queues import SANDBOXED, Kind, queue_name, tool_queues
from activities.tools.code.registry import code_backend
from activities.tools.own import choose_own_tools, find_own_tools, open_own_tools
from activities.tools.registry import TOOL_NAMES, absent_tools, build_tools, choose_pages
from activities.tools.search.registry import search_backend
from activities.turn.activity import TurnActivities
from activities.turn.agent_conversations import ConversationStore
from activities.turn.apply_once import ActingCalls
from activities.turn.discarded_runs import RunningDuplicateActivities
from activities.turn.tool_use import ToolActivities
from chargehand.credentials import credential_keys
from chargehand.errors import ChargehandError
from chargehand.payloads.encryption import Encryption
from chargehand.payloads.settings import encryption_from
from chargehand.plugins import installed
from worker.parts import Traffic, TrafficWrapper, WorkerParts, add_parts
from worker.server_gauges import Queue
from worker.settings import Settings

_SHIPPED_CREWS: Final = Path(__file__).resolve().parents[1] / "crews"


def choose(settings: Settings) -> dict[str, Choice]:
    """Choose the adapter of each backend, by backend name.

    Raises:
        SettingsError: some cannot be chosen; the message names all settings concerned.
    """
    (model,), (search,), (code,), *added = _choose_each(
        lambda: [model_backend().choose(settings)],
        lambda: [search_backend().choose(settings)],
        lambda: [code_backend().choose(settings)],
        *(partial(extension.list_of, Choice, "choices", settings) for extension in installed().choices),
    )
    choices = (
        model,
        search,
        code,
        choose_pages(search),
        choose_own_tools(installed().tools, TOOL_NAMES),
        Choice("documents", "embedded parsers", "always"),
        Choice("data", "duckdb", "always"),
        Choice("encryption", "AES-256-GCM", f"CHARGEHAND_ENCRYPTION_KEY_ID is {settings.encryption_key_id}")
        if settings.encryption_key_id
        else Choice("encryption", "none", "no CHARGEHAND_ENCRYPTION_KEY_ID: Temporal stores payloads as they are"),
        Choice("large payloads", settings.storage, "set by CHARGEHAND_STORAGE")
        if settings.storage and settings.storage != "off"
        else Choice("large payloads", "none", "no CHARGEHAND_STORAGE: payloads above 2 MB are refused"),
        *chain.from_iterable(added),
    )
    return {choice.backend: choice for choice in choices}


def _choose_each(*choosing: Callable[[], Sequence[Choice]]) -> list[Sequence[Choice]]:
    chosen: list[Sequence[Choice]] = []
    problems: list[str] = []
    for choose_one in choosing:
        try:
            chosen.append(choose_one())
        except ChargehandError as error:
            problems.append(str(error))
    if problems:
        raise SettingsError(" ".join(problems))
    return chosen


async def compose(
    settings: Settings,
    environment: Mapping[str, str],
    closing: AsyncExitStack,
    *wrappers: TrafficWrapper,
    models: Models | None = None,
) -> Sequence[Callable[..., object]]:
    """Build the chosen adapters, and the activities on top of them.

    MCP servers get their variables from `environment`. The wrappers apply after those of plug-ins: evaluations count
    traffic and replace answers. Tests pass their own models.
    """
    require_writable(settings.state_dir)
    chosen = choose(settings)
    keys = encryption(settings)
    store = artifact_store(settings, keys)
    library = document_library(settings, store)
    conversations = ConversationStore(lasting_store(settings, "conversations", store, keys))
    _keep_caches_swept(settings, closing)
    parts = await _open_parts(settings, environment, library, store, closing, chosen=chosen)
    models = models or build_models(settings, chosen["model"].adapter, closing)
    traffic = Traffic(models, parts.tools | parts.of_crews, absent_tools(chosen, parts.tools))
    for wrap in (*parts.traffic_wrappers, *wrappers):
        traffic = wrap(traffic)
    takes_turns = not settings.roles.isdisjoint({"sessions", "models"})
    has_all_tools = takes_turns or "tools" in settings.roles
    shared = {name: tool for name, tool in traffic.tools.items() if name not in parts.of_crews}
    loaded = load_crews(parts.crew_folders, tool_capabilities(shared), traffic.absent, acting_tools(shared))
    models = name_models(traffic.models, loaded.values()) if takes_turns else traffic.models
    tools = {name: tool for name, tool in traffic.tools.items() if has_all_tools or name in SANDBOXED}
    cards, crew_store = models.cards if takes_turns else None, lasting_store(settings, "crews", store, keys)
    crews = CrewVersions(loaded, tools, cards, crew_store, models.named, has_all_tools=has_all_tools)
    if takes_turns:
        await models.until_connected()
    acting, opening = ActingCalls(effect_record(settings, keys)), credential_keys(secret(settings.credential_keys))
    parts.request_checks.append(partial(credential_problems, opening))
    parts.opening_steps.append(partial(record_session, acting.record))
    sessions = _session_activities(settings, crews, tools, library, parts)
    tool_activities = ToolActivities(crews, tools, acting, library, opening)
    return [
        sessions.open_session,
        sessions.add_agents,
        TurnActivities(crews, models, tool_activities, library, conversations).take_turn,
        tool_activities.use_tool,
        tool_activities.check_call,
        acting.record_decision,
        RunningDuplicateActivities().await_duplicate,
        BacklogActivities().read_backlog,
        *parts.activities,
    ]


def queues_in_use(settings: Settings) -> list[Queue]:
    """List the task queues that sessions of this installation may need, including other workers' and crews'."""
    own = settings.task_queue
    named = [own, turns_queue(settings), *(queue_name(own, kind) for kind in settings.queues)]
    every = dict.fromkeys(filter(None, (*named, *slow_queues(crew_folders(settings)))))
    return [Queue(own, "workflow"), *(Queue(each, "activity") for each in every)]


def _keep_caches_swept(settings: Settings, closing: AsyncExitStack) -> None:
    caches = [settings.state_dir / name for name in CACHES]
    sweeping = asyncio.create_task(keep_swept(caches, timedelta(days=settings.index_days)))
    closing.callback(sweeping.cancel)


async def _open_parts(
    settings: Settings,
    environment: Mapping[str, str],
    library: DocumentLibrary,
    store: Artifacts,
    closing: AsyncExitStack,
    *,
    chosen: Mapping[str, Choice],
) -> WorkerParts:
    folders = crew_folders(settings)
    _require_mcp(folders)
    tools = await open_tools(settings, chosen, library, store, closing)
    starts_servers = not any(choice.replaces_all for choice in chosen.values())
    parts = WorkerParts(settings, environment, library, store, closing, folders, tools, starts_servers=starts_servers)
    await add_parts(parts)
    return parts


def _session_activities(
    settings: Settings, crews: CrewVersions, tools: Mapping[str, Tool], library: DocumentLibrary, parts: WorkerParts
) -> SessionActivities:
    return SessionActivities(
        crews,
        tools,
        settings.ceilings,
        turns_queue(settings),
        library,
        settings.output_tokens,
        stores_payloads=settings.storage not in {None, "off"},
        request_checks=parts.request_checks,
        document_checks=parts.document_checks,
        listing=SearchAttributesCheck(),
        tool_queues=tool_queues(settings.task_queue, settings.queues),
        recall_for=timedelta(seconds=settings.recall_seconds),
        opening_steps=parts.opening_steps,
    )


def _require_mcp(folders: Sequence[Path]) -> None:
    declaring = [crew for crew, servers in mcp_declarations(folders).items() if servers]
    if declaring and "mcp" not in installed().names:
        raise SettingsError(
            f"Crew '{declaring[0]}' declares MCP servers, which need a plug-in; install it with "
            "`pip install 'chargehand[mcp]'`."
        )


async def open_tools(
    settings: Settings,
    chosen: Mapping[str, Choice],
    library: DocumentLibrary,
    store: Artifacts,
    closing: AsyncExitStack,
) -> dict[str, Tool]:
    tools = build_tools(
        search=search_backend().builder(settings, chosen["search"].adapter)(settings, library, closing),
        code=await code_backend().builder(settings, chosen["code"].adapter)(settings, closing),
        library=library,
        artifacts=store,
        page_hosts=settings.page_hosts,
        closing=closing,
    )
    return tools | await open_own_tools(find_own_tools(installed().tools, tools), settings.max_activities, closing)


def crew_folders(settings: Settings) -> list[Path]:
    return [_SHIPPED_CREWS, *installed().crews, *([settings.crews] if settings.crews else [])]


def encryption(settings: Settings) -> Encryption | None:
    """Build the encryption of payloads, documents and conversations; None if encryption is off."""
    keys = secret(settings.encryption_keys) or None
    return encryption_from(keys, settings.encryption_key_id, accept_plain=settings.encryption_accept_plain)


def turns_queue(settings: Settings) -> str | None:
    """Return the task queue of model turns, if they have one: a rate limit applies to a whole queue."""
    is_separate = settings.requests_per_second or "models" in settings.queues
    return queue_name(settings.task_queue, "models") if is_separate else None


def activity_slots(settings: Settings) -> dict[str, int]:
    """Return how many activities this worker runs at once, by task queue."""
    turns, roles, queues = turns_queue(settings), settings.roles, settings.queues
    slots = {settings.task_queue: settings.max_activities} if "sessions" in roles else {}
    if turns and "models" in roles:
        slots[turns] = queues.get("models", settings.max_activities)
    kinds: tuple[Kind, ...] = ("tools", "sandboxes")
    for kind in kinds:
        if kind in queues and kind in roles:
            slots[queue_name(settings.task_queue, kind)] = queues[kind]
    return slots
