"""What the bytes of the main job's histories are: by event type, by field of what the events carry, and twice."""

import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

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
_LEAST: Final = 200
"""Bytes of a row that is listed."""
_LEVELS: Final = 2
"""How deep fields are told apart."""
_LONG: Final = 40
"""Bytes of a text that counts as a copy where it stands again."""


async def history() -> tuple[Sequence[Row], Sequence[str]]:
    """Run the job twice, and take the histories of the second apart."""
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
        events = {
            "parent": await _events(client, [parent]),
            "children": await _events(client, children),
        }
    rows = [*_rows("events", events, _sizes), *_rows("fields", events, _field_sizes)]
    texts = Counter(text for side in events.values() for event in side for text in _texts(event))
    copies = sum(len(text) * (count - 1) for text, count in texts.items())
    worst = sorted(texts.items(), key=lambda item: -len(item[0]) * (item[1] - 1))[:20]
    return rows, [
        f"copies of texts of {_LONG} bytes and more: {copies / 1_000:.1f} kB",
        *(f"{count} x {len(text)}: {text[:90]!r}" for text, count in worst if count > 1),
    ]


async def _events(client: Client, workflow_ids: Sequence[str]) -> Sequence[HistoryEvent]:
    return [
        event
        for workflow_id in workflow_ids
        async for event in client.get_workflow_handle(workflow_id).fetch_history_events()
    ]


def _rows(what: str, events: Mapping[str, Sequence[HistoryEvent]], sizes: object) -> Sequence[Row]:
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for side, each in events.items():
        for event in each:
            for name, size in sizes(event):  # type: ignore[operator]
                found[name].update({side: size, "count": 1, "all": size})
    listed = sorted(found.items(), key=lambda item: -item[1]["all"])
    total: Counter[str] = sum((counted for _, counted in listed), Counter())
    return [
        {"": f"{what}: {name}", **{each: counted[each] for each in ("count", *events, "all")}}
        for name, counted in [("all", total), *listed]
        if counted["all"] >= _LEAST
    ]


def _sizes(event: HistoryEvent) -> Iterator[tuple[str, int]]:
    yield _name(event), event.ByteSize()


def _name(event: HistoryEvent) -> str:
    return EventType.Name(event.event_type).removeprefix("EVENT_TYPE_").lower()


def _field_sizes(event: HistoryEvent) -> Iterator[tuple[str, int]]:
    yield from _fields(event, _name(event))


def _fields(message: Message, path: str) -> Iterator[tuple[str, int]]:
    """Walk a message to its payloads and plain fields; what frames them is theirs."""
    for field, value in message.ListFields():
        values = value if field.is_repeated else [value]
        if field.message_type and field.message_type.GetOptions().map_entry:
            values = [value[key] for key in value] if hasattr(value, "keys") else values
            entries = [(f"{path}.{field.name}[{key}]", value[key], len(key) + 6) for key in value]
        else:
            entries = [(f"{path}.{field.name}", each, 2) for each in values]
        for name, each, frame in entries:
            if isinstance(each, Payload):
                yield from _payload(each, name.removesuffix(".payloads"))
            elif isinstance(each, Message):
                yield from _fields(each, name)
            else:
                yield name, frame + (len(str(each)) if isinstance(each, str | bytes) else 3)


def _payload(payload: Payload, path: str) -> Iterator[tuple[str, int]]:
    yield f"{path} (encoding)", payload.ByteSize() - len(payload.data)
    try:
        value = json.loads(payload.data)
    except ValueError:
        yield path, len(payload.data)
    else:
        yield from _json_sizes(value, path, _LEVELS)


def _json_sizes(value: JsonValue, path: str, levels: int) -> Iterator[tuple[str, int]]:
    match value:
        case dict() if levels:
            for key, each in value.items():
                yield from ((name, size) for name, size in _json_sizes(each, f"{path}.{key}", levels - 1))
                yield f"{path}.{key}", len(key) + 4
        case list() if levels:
            for each in value:
                yield from _json_sizes(each, f"{path}[]", levels)
        case _:
            yield path, len(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _texts(message: Message) -> Iterator[str]:
    for field, value in message.ListFields():
        values = [*value.values()] if hasattr(value, "values") else value if field.is_repeated else [value]
        for each in values:
            if isinstance(each, Payload):
                try:
                    yield from _strings(json.loads(each.data))
                except ValueError:
                    pass
            elif isinstance(each, Message):
                yield from _texts(each)
            elif isinstance(each, str) and len(each) >= _LONG:
                yield each


def _strings(value: JsonValue) -> Iterator[str]:
    match value:
        case dict():
            for each in value.values():
                yield from _strings(each)
        case list():
            for each in value:
                yield from _strings(each)
        case str() if len(value) >= _LONG:
            yield value
        case _:
            pass
