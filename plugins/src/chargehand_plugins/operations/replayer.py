"""The worker program's replay of recorded histories: whether its workflows still make the same decisions."""

import gzip
import json
import re
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, cast

from temporalio.client import WorkflowHistory
from temporalio.converter import DataConverter
from temporalio.runtime import Runtime, TelemetryConfig
from temporalio.worker import Replayer

from chargehand.connect import connection_settings
from chargehand.environment import BAD_SETTINGS
from chargehand_plugins.caller_key.required import RequireCallerKey
from worker.process import converter
from worker.settings import Settings
from workflows.registry import WORKFLOWS, AroundWorkflows, RefuseBadInput, added_workflows, workflow_runner

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
    namespace = connection_settings().get("namespace") or "default"
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
        debug_mode=True,  # the sandbox stays; the limit of two seconds for each task goes, which a busy machine exceeds
        interceptors=[AroundWorkflows(RefuseBadInput), RequireCallerKey()],
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
    match = _OWN_WORDS.search(text)
    return (match[1].replace('\\"', '"') if match else text)[:_MOST_CHARACTERS]
