"""The worker program's own commands: its settings and crews as JSON, and the replay of recorded histories."""

import asyncio
import gzip
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Final, cast

from temporalio.client import WorkflowHistory
from temporalio.converter import DataConverter
from temporalio.envconfig import ClientConfig
from temporalio.runtime import Runtime, TelemetryConfig
from temporalio.worker import Replayer

from activities.backends import Choice, secret
from activities.contracts.tool import acting_tools, tool_capabilities
from activities.crews.files import check_crews
from activities.documents.registry import artifact_store, document_library
from activities.models.clients import ProviderModel
from activities.models.failures import ProviderError
from activities.models.registry import build_models
from activities.tools.registry import absent_tools
from chargehand.credentials import credential_keys
from chargehand.environment import BAD_SETTINGS
from chargehand.plugins import installed
from chargehand_plugins.operations.places import try_search
from worker.composition import choose, crew_folders, encryption, open_tools
from worker.parts import WorkerParts, add_parts
from worker.process import converter
from worker.settings import Settings
from workflows.registry import WORKFLOWS, RefuseBadInput, added_workflows, workflow_runner


async def explain(settings: Settings, _: Path) -> int:
    """Print the chosen adapters with reasons, as JSON."""
    chosen = choose(settings)
    artifact_store(settings, encryption(settings))
    credential_keys(secret(settings.credential_keys))
    trials: list[Awaitable[Sequence[Choice]]] = [
        extension.load_function()(settings, os.environ) for extension in installed().examinations
    ]
    if not any(each.replaces_all for each in chosen.values()):
        trials.append(asyncio.gather(_tried(settings, chosen["model"]), try_search(settings, chosen["search"])))
    chosen |= {choice.backend: choice for choice in chain.from_iterable(await asyncio.gather(*trials))}
    report = {"active": [vars(choice) for choice in chosen.values()], "task_queue": settings.task_queue}
    sys.stdout.write(json.dumps(report) + "\n")
    return 0


async def _tried(settings: Settings, choice: Choice) -> Choice:
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


_MOST_CHARACTERS: Final = 600
_OWN_WORDS: Final = re.compile(r'message: "((?:[^"\\]|\\.)+)"')
"""The relevant sentence in the SDK's dump of a failure."""


class HistoriesError(Exception):
    """A file of histories is unreadable; the message says why."""


@dataclass(frozen=True)
class Replayed:
    id: str
    type: str
    events: int
    problem: str = ""
    """The difference; empty if the workflow still makes the same decisions."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))


async def print_replayed(settings: Settings, file: Path) -> int:
    """Replay the histories of a file and print one result per line; return 1 if any diverges."""
    namespace = ClientConfig.load_client_connect_config().get("namespace") or "default"
    diverged = 0
    # Otherwise the runtime would mix its log with the results.
    Runtime.set_default(Runtime(telemetry=TelemetryConfig(logging=None)))
    try:
        async for result in replay(file, converter(settings, namespace)):
            sys.stdout.write(result.to_json() + "\n")
            diverged = 1 if result.problem else diverged
    except HistoriesError as error:
        sys.stderr.write(f"Nothing can be replayed: {error}\n")
        return BAD_SETTINGS
    return diverged


async def replay(file: Path, converter: DataConverter) -> AsyncIterator[Replayed]:
    """Replay every history of a file. Raises `HistoriesError` if it has none."""
    replayer = Replayer(
        workflows=[*WORKFLOWS, *added_workflows()],
        workflow_runner=workflow_runner(),
        interceptors=[RefuseBadInput()],
        data_converter=converter,
    )

    async def one_by_one() -> AsyncIterator[WorkflowHistory]:
        for history in read_histories(file):
            yield history

    async with replayer.workflow_replay_iterator(one_by_one()) as results:
        async for result in results:
            history = result.history
            kind = history.events[0].workflow_execution_started_event_attributes.workflow_type.name
            yield Replayed(history.workflow_id, kind, len(history.events), _problem(result.replay_failure))


def read_histories(file: Path) -> Iterator[WorkflowHistory]:
    """Read a list of `{"id", "history"}` in Chargehand's format, or one history in Temporal's.

    Raises:
        HistoriesError: it is neither.
    """
    try:
        content = file.read_bytes()
        read: object = json.loads(gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content)
    except (OSError, EOFError, ValueError) as error:
        raise HistoriesError(f"{file} cannot be read as JSON: {error}") from error
    entries: list[object] = cast("list[object]", read) if isinstance(read, list) else [{"id": "", "history": read}]
    if not entries:
        raise HistoriesError(f"{file} holds no histories.")
    for entry in entries:
        yield _history(file, entry)


def _history(file: Path, entry: object) -> WorkflowHistory:
    try:
        fields = cast("dict[str, object]", entry)
        history = WorkflowHistory.from_json(str(fields["id"]), cast("dict[str, object]", fields["history"]))
        # Children's ids begin with the session's, so only the original id replays.
        true_id = history.events[0].workflow_execution_started_event_attributes.workflow_id
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise HistoriesError(
            f"{file} is not a history: neither what `chargehand replay --save` writes nor what "
            "`temporal workflow show --output json` puts out."
        ) from error
    return WorkflowHistory(history.workflow_id or true_id, history.events)


def _problem(failure: Exception | None) -> str:
    if failure is None:
        return ""
    text = str(failure) or type(failure).__name__
    found = _OWN_WORDS.search(text)
    return (found[1].replace('\\"', '"') if found else text)[:_MOST_CHARACTERS]
