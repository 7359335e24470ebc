"""Where the bytes of the main job's histories are: by event, by payload field, and in copies."""

import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from google.protobuf.message import Message
from pydantic import JsonValue
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from benchmarks import processes
from benchmarks.jobs import own_runs, until_polled
from benchmarks.scripted import Shape
from benchmarks.tables import Row
from chargehand.client import Chargehand

_QUEUE: Final = "history"
_LEAST: Final = 250
"""Minimum bytes of a row that is listed."""
_LEVELS: Final = 2
"""Depth to which fields are distinguished."""
_LONG: Final = 40
"""Minimum characters of a text whose repetitions count as copies."""
_COPIES: Final = 10
"""Number of texts listed."""


async def history() -> tuple[Sequence[Row], Sequence[str]]:
    """Run the job on a warm worker, and break down its histories."""
    with tempfile.TemporaryDirectory(prefix="chargehand-bench-") as name, processes.server(Path(name)) as server:
        with (
            processes.provider(Path(name)) as provider,
            processes.worker("own", server.address, _QUEUE, Path(name), provider) as worker,
        ):
            await until_polled(worker)
            run = own_runs(await Chargehand.connect(server.address, task_queue=_QUEUE))
            await run(Shape())
            parent, children = await run(Shape())
        client = await Client.connect(server.address)
        sides = {"parent": await _events(client, [parent]), "children": await _events(client, children)}
    sizes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    texts: Counter[str] = Counter()
    for side, events in sides.items():
        for event in events:
            kind = EventType.Name(event.event_type).removeprefix("EVENT_TYPE_").lower()
            for what in ("all", kind):
                sizes[what].update({side: event.ByteSize(), "all": event.ByteSize(), "count": 1})
            for path, payload in _payloads(event, ""):
                value = _value(payload)
                texts.update(_texts(value))
                for field, size in _fields(value, f"{kind}: {path}", _LEVELS):
                    sizes[field].update({side: size, "all": size, "count": 1})
    return _rows(sizes), _notes(texts)


async def _events(client: Client, workflow_ids: Sequence[str]) -> Sequence[HistoryEvent]:
    handles = map(client.get_workflow_handle, workflow_ids)
    return [event for handle in handles async for event in handle.fetch_history_events()]


def _rows(sizes: Mapping[str, Counter[str]]) -> Sequence[Row]:
    listed = [(what, counted) for what, counted in sizes.items() if counted["all"] >= _LEAST]
    columns = {"count": "count", "parent": "parent, bytes", "children": "children, bytes", "all": "all, bytes"}
    return [
        {"": what, **{column: counted[name] for name, column in columns.items()}}
        for what, counted in sorted(listed, key=lambda row: (":" in row[0], -row[1]["all"]))
    ]


def _notes(texts: Counter[str]) -> Sequence[str]:
    copies = {text: len(text) * (count - 1) for text, count in texts.items() if count > 1}
    most = sorted(copies, key=lambda text: -copies[text])[:_COPIES]
    return [
        "events with what frames them, then the JSON of their payloads by field",
        f"copies of texts of {_LONG} characters and more: {sum(copies.values()):,} characters, of which",
        *(f"{texts[text]} times {len(text)}: {text[:60]}…" for text in most),
    ]


def _payloads(message: Message, path: str) -> Iterator[tuple[str, Payload]]:
    """Find the payloads of an event, each with the names of its enclosing fields."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        is_map = field.message_type.GetOptions().map_entry
        each: Any  # what protobuf's reflection returns
        for each in value.values() if is_map else value if field.is_repeated else [value]:
            if isinstance(each, Payload):
                yield path or field.name, each
            elif isinstance(each, Message):
                name = "" if field.name.endswith("attributes") and not path else field.name
                yield from _payloads(each, name if name != "payloads" else path)


def _value(payload: Payload) -> JsonValue:
    try:
        return json.loads(payload.data)
    except ValueError:
        return payload.data.decode(errors="replace")


def _fields(value: JsonValue, path: str, levels: int) -> Iterator[tuple[str, int]]:
    """Measure the fields of a payload as JSON, with their names."""
    match value:
        case dict() if levels:
            for key, inner in value.items():
                yield from _fields(inner, f"{path}.{key}", levels - 1)
        case list() if levels:
            for inner in value:
                yield from _fields(inner, f"{path}[]", levels)
        case _:
            name = path.rpartition(".")[2].removesuffix("[]")
            yield path, len(json.dumps({name: value}, ensure_ascii=False, separators=(",", ":")).encode()) - 1


def _texts(value: JsonValue) -> Iterator[str]:
    match value:
        case dict():
            for inner in value.values():
                yield from _texts(inner)
        case list():
            for inner in value:
                yield from _texts(inner)
        case str() if len(value) >= _LONG:
            yield value
        case _:
            pass
