"""The worker program's own commands that report its settings and crews as JSON."""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, cast

from activities.backends import Choice, secret
from activities.contracts.tool import acting_tools, tool_capabilities
from activities.crews.files import check_crews
from activities.documents.registry import artifact_store, document_library
from activities.models.clients import ProviderModel
from activities.models.failures import ProviderError
from activities.models.registry import build_models
from activities.tools.registry import absent_tools
from chargehand.credentials import credential_keys
from chargehand.plugins import Extension, installed, require_each
from chargehand_plugins.operations.doctor_trials import try_search
from worker.composition import choose, crew_folders, encryption, open_tools
from worker.parts import WorkerParts, add_parts
from worker.settings import Settings


async def explain(settings: Settings, _: Path) -> int:
    """Print the chosen adapters with reasons, as JSON."""
    chosen = choose(settings)
    artifact_store(settings, encryption(settings))
    credential_keys(secret(settings.credential_keys))
    trials: list[Awaitable[Sequence[Choice]]] = [_examine(each, settings) for each in installed().examinations]
    if not any(each.replaces_all for each in chosen.values()):
        trials.append(asyncio.gather(_try_models(settings, chosen["model"]), try_search(settings, chosen["search"])))
    chosen |= {choice.backend: choice for choice in chain.from_iterable(await asyncio.gather(*trials))}
    report = {"active": [vars(choice) for choice in chosen.values()], "task_queue": settings.task_queue}
    sys.stdout.write(json.dumps(report) + "\n")
    return 0


async def _examine(extension: Extension, settings: Settings) -> Sequence[Choice]:
    with extension.calling("examination"):
        return require_each(Choice, await extension.load_function()(settings, os.environ))


async def _try_models(settings: Settings, choice: Choice) -> Choice:
    """Ask the providers for the models of all tiers, which costs nothing."""
    async with AsyncExitStack() as closing:
        models = build_models(settings, choice.adapter, closing)
        try:
            for each in filter(None, (models, models.fallback)):
                if isinstance(each.adapter, ProviderModel):
                    adapter = cast("ProviderModel[Any]", each.adapter)
                    await asyncio.gather(*(adapter.check(name) for name in {card.name for card in each.cards.values()}))
        except ProviderError as error:
            return replace(choice, problem=error.message)
    return choice


async def list_crews(settings: Settings, file: Path) -> int:
    """Check a crew file, or else all crews, and print one result per line; return 1 if any is invalid."""
    chosen = choose(settings)
    store = artifact_store(settings, encryption(settings))
    async with AsyncExitStack() as closing:
        library, folders = document_library(settings, store), crew_folders(settings)
        tools = await open_tools(settings, chosen, library, store, closing)
        await add_parts(WorkerParts(settings, {}, library, store, closing, folders, tools, starts_servers=False))
        known = tool_capabilities(tools), absent_tools(chosen, tools), acting_tools(tools)
        checks = list(check_crews(folders, None if file == Path() else file, *known))
    sys.stdout.writelines(check.model_dump_json() + "\n" for check in checks)
    return 1 if any(check.problem for check in checks) else 0
