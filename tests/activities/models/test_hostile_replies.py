"""Whatever a provider writes in a reply that it bills, it is charged, can be recorded, and blocks nothing."""

import gc
import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from activities.contracts.rounds import ToolCall
from activities.http.response_limits import BodyRefused
from activities.models.protocol import ModelReply
from activities.models.replies import LONGEST_ARGUMENTS, MOST_CALLS, MOST_DEPTH, depth, parse, tool_call
from activities.turn.activity import interpret
from activities.turn.journal import Entry
from activities.turn_kinds.work import WorkAnswer
from chargehand.converter import data_converter
from tests.activities.models.calls import WIRES, Wire, a_call, a_provider, round_of, usual_usage
from tests.activities.models.test_jobs import WIRE, Keeper, Way, a_job, open_provider
from tests.scripted_provider import ScriptedReply, ScriptedRequest, ToolUse, answer, calling, raw, saying, truncated
from tests.scripted_provider.streams import events
from tests.scripted_provider.wires import Body, write
from tests.unit.strategies import json_values

FRAGMENTS = {
    "nothing": "null",
    "true": "true",
    "negative": "-1",
    "no object": "[]",
    "empty": "{}",
    "NaN": "NaN",
    "infinite": "-Infinity",
    "endless fraction": "1e999",
    "endless number": "7" * 5_000,
    "as deep as the arguments may be": '{"a":' * MOST_DEPTH + "1" + "}" * MOST_DEPTH,
    "deeper than the arguments may be": '{"a":' * 33 + "1" + "}" * 33,
    "as deep as a parser reads": '{"a":' * 190 + "1" + "}" * 190,
    "deeper than a parser reads": "[" * 300 + "]" * 300,
    "deeper than a stack": "[" * 100_000 + "]" * 100_000,
    "never closed inside a text": '"' + "[" * 300 + '"',
    "half a character": r'"a\ud800b"',
    "NUL": r'"\u0000"',
    "raw control characters": '"a\n\t\x01b"',
    "not UTF-8": '"\udcff"',
    "repeated keys": '{"a":1,"a":{"a":2}}',
    "long text": '"' + "word " * 50_000 + '"',
    "2.1 MB": '"' + "x" * 2_100_000 + '"',
    "10,000 items": "[" + ",".join(['{"type":"text","text":"a"}'] * 10_000) + "]",
}
"""JSON and near-JSON, by what is unusual about it."""
_USES = tuple(ToolUse("read_document", {"name": f"{n}.pdf"}, id=identity) for n, identity in enumerate(("a", "a", "b")))
_REPLIES = [answer("At eight."), calling(*_USES, text="I look."), truncated(), saying("{}")]
_KEPT = frozenset({"usage", "finish_reason"})
_KEPT_EVENTS = frozenset(
    {"message_start", "message_delta", "message_stop", "response.completed", "response.incomplete"}
)


class Change(NamedTuple):
    """A value of a reply, by its position in the JSON, and its replacement."""

    place: int
    fragment: str


class Hostile(NamedTuple):
    """A reply, sent whole or as a stream, with some of its values replaced."""

    reply: ScriptedReply
    changes: tuple[Change, ...]
    is_streamed: bool

    def write(self, request: ScriptedRequest) -> ScriptedReply:
        """Write the reply, which bills the usual tokens."""
        if not self.is_streamed:
            body = write(request, self.reply)
            return raw(_changed([body], self.changes)[0])
        lines = _changed(
            [json.loads(line) for event in events(request, self.reply) for line in _data(event)], self.changes
        )
        content = b"".join(b"data: " + line.replace(b"\n", b"\ndata: ") + b"\n\n" for line in lines)
        return raw(content, {"content-type": "text/event-stream"})


def _data(event: bytes) -> Iterator[bytes]:
    for line in event.split(b"\n"):
        if line.startswith(b"data: {"):
            yield line.removeprefix(b"data: ")


def _changed(bodies: list[Body], changes: tuple[Change, ...]) -> list[bytes]:
    places = [place for body in bodies for place in _places(body)]
    for change in changes:
        parent, key = places[change.place % len(places)]
        parent[key] = f"@{change.fragment}@"
    texts = [json.dumps(body) for body in bodies]
    for change in changes:
        texts = [text.replace(f'"@{change.fragment}@"', FRAGMENTS[change.fragment]) for text in texts]
    return [text.encode("utf-8", "surrogateescape") for text in texts]


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """List the values within a reply, except those that state its cost or begin and end it."""
    held: Any = value  # a dictionary or a list
    for key in held if isinstance(value, dict) else range(len(held)) if isinstance(value, list) else ():
        inner = held[key]
        is_needed = key in _KEPT or (key == "type" and inner in _KEPT_EVENTS)
        if not is_needed and not (isinstance(inner, dict) and "usage" in inner):
            yield held, key
        if key != "usage":
            yield from _places(inner)


def hostile_replies() -> st.SearchStrategy[Hostile]:
    changes = st.builds(Change, st.integers(0, 200), st.sampled_from(sorted(FRAGMENTS)))
    several = st.lists(changes, max_size=3, unique_by=lambda change: change.fragment)  # two of 2.1 MB would be refused
    return st.builds(Hostile, st.sampled_from(_REPLIES), several.map(tuple), st.booleans())


def can_be_recorded(reply: ModelReply) -> None:
    entry = Entry(result=interpret(reply, WorkAnswer))
    converter = data_converter().payload_converter
    assert converter.from_payloads(converter.to_payloads([entry]), [Entry]) == [entry]


async def charged_and_recorded(wire: Wire, hostile: Hostile) -> ModelReply:
    """Take a turn with this reply and the next one; check what is charged, recorded and sent back."""
    async with a_provider(wire, lambda asked: hostile.write(asked) if asked.sequence == 1 else answer()) as (
        server,
        model,
    ):
        reply = await model.complete(a_call(wire))
        assert reply.usage == usual_usage(wire)
        can_be_recorded(reply)
        assert all(depth(call.arguments) <= MOST_DEPTH for call in reply.tool_calls)
        assert len({call.id for call in reply.tool_calls}) == len(reply.tool_calls)
        if reply.tool_calls:
            await model.complete(a_call(wire, messages=round_of(reply, *("Read." for _ in reply.tool_calls))))
            json.dumps(server.requests[1].body, allow_nan=False).encode()
        return reply


@pytest.mark.parametrize("way", [*WIRES, *WIRE])
@settings(max_examples=settings().max_examples // 12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(hostile=hostile_replies())
@example(hostile=Hostile(_REPLIES[1], (Change(195, "as deep as the arguments may be"),), is_streamed=False))  # content
@example(hostile=Hostile(truncated(), (Change(60, "10,000 items"),), is_streamed=True))  # chat: the stop reason is lost
async def test_hostile_replies_are_charged_as_billed_and_stay_storable(way: Wire | Way, hostile: Hostile) -> None:
    """Malformed values in a reply that states its usage change neither the charge nor what can be stored."""
    if way == "batch" or way == "background":  # noqa: PLR1714  # narrows the type
        async with open_provider(way, hostile._replace(is_streamed=False).write) as (_, model):
            reply = await model.complete(a_job(way, Keeper()))
        usual = usual_usage(WIRE[way])
        assert reply.usage == usual.model_copy(update={"cost_usd": usual.cost_usd / (2 if way == "batch" else 1)})
        can_be_recorded(reply)
    else:
        await charged_and_recorded(way, hostile)


_BYTES = 4_000_000
"""Size of the longest event that is read."""


@pytest.mark.parametrize("value", ["[],", "{},", '{"a":[1]},'])
async def test_a_dense_reply_is_refused_before_parsing(value: str) -> None:
    """Creating its many values would trigger the garbage collector again and again."""
    content = f'{{"output":[{value * (_BYTES // len(value))}0]}}'.encode()

    before = _collections()
    with pytest.raises(BodyRefused):
        await parse(content)

    assert _collections() - before < 10


def _collections() -> int:
    """Return the number of garbage collections; one takes at most some 2,000 new lists and objects."""
    return gc.get_stats()[0]["collections"]


async def test_brackets_inside_text_do_not_count_as_values() -> None:
    """An answer with a long table is still read."""
    table = "1,[2],{3}\n" * 200_000

    assert await parse(json.dumps({"text": table}).encode()) == {"text": table}


OFFERED = frozenset({"read_document"})


@given(
    position=st.integers(0, 2 * MOST_CALLS),
    tool=st.just("read_document") | st.text(),
    arguments=json_values() | json_values().map(json.dumps) | st.text(),
)
def test_any_tool_call_can_be_stored_and_sent_back(position: int, tool: str, arguments: object) -> None:
    """A call has either arguments or a problem, and a malformed one has a tool name that providers accept."""
    call = tool_call(position, "id", tool, arguments, OFFERED)

    assert not (call.arguments and call.malformed)
    assert len(call.malformed) < 300
    if call.malformed:
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", call.tool)
        assert ToolCall.model_validate_json(call.model_dump_json()) == call
    else:
        assert call.tool == "read_document"


def test_arguments_that_would_exhaust_or_break_a_store_are_refused() -> None:
    """Excessive length or depth and lone surrogates make the call malformed and never crash."""
    cases = [
        (json.dumps({"name": "a" * LONGEST_ARGUMENTS}), "are longer than"),  # too long to parse
        ('{"a":' * 5_000 + "1" + "}" * 5_000, "are not valid JSON"),  # too deep for a parser
        (r'{"name": "\ud800"}', "are not valid JSON"),  # half a character, which is invalid UTF-8
    ]
    for text, problem in cases:
        assert tool_call(0, "id", "read_document", text, OFFERED).malformed.startswith(f"the arguments {problem}")
