"""What a provider can cache: each request of a conversation begins with the previous one."""

import json
from typing import Any, Final

import pytest

from activities.contracts.rounds import Round, ToolCall, ToolResult
from activities.contracts.setting import ANYWHERE
from activities.crews.files import load_crews
from activities.documents.catalog import Catalog, DocumentEntry
from activities.documents.tool import ReadDocument, SearchDocuments
from activities.models import anthropic_messages, openai_responses
from activities.turn_kinds.work import WorkTask
from benchmarks.played.billing import Meter
from chargehand.contracts import Source
from tests.activities.models.calls import WIRES, Wire, a_call, a_provider, round_of
from tests.scripted_model import TODAY
from tests.scripted_provider import Tokens, ToolUse, answer, calling, saying
from tests.scripted_provider.wires import read
from tests.unit.activities.prompt_files import CREWS, WITHOUT_RIGHTS

_WIRES: Final[dict[Wire, Any]] = {
    "anthropic": anthropic_messages.request_body,
    "responses": openai_responses.request_body,
}
_CATALOG: Final = Catalog(
    documents=tuple(
        DocumentEntry(name=f"lease-{number}.md", kind="md", units=40, headings=("Notice", "Rent", "Repairs"))
        for number in range(20)
    )
)
_SYSTEM: Final = WorkTask.system_text(load_crews([CREWS], WITHOUT_RIGHTS)["research"], "reader", ANYWHERE)


def _billed(meter: Meter, wire: Wire, task: WorkTask) -> Tokens:
    """Send a turn of the reader, and return what its provider bills."""
    tools = (SearchDocuments.spec, ReadDocument.spec)
    call = a_call(wire, messages=task.messages(_CATALOG, TODAY), tools=tools, answer_type=task.answer_type)
    call = call.model_copy(update={"task": task, "catalog": _CATALOG, "system": _SYSTEM})
    reply = meter.bill(read(wire, _WIRES[wire](call), {}, 1, 0.0), saying("{}"))
    assert reply.on_first_token
    reply.on_first_token()
    return reply.tokens


@pytest.mark.parametrize("wire", _WIRES)
def test_a_turn_that_must_answer_reads_the_conversation_from_cache(wire: Wire) -> None:
    """Forbidding tools does not invalidate the cache: only the latest round is not read from it."""
    meter, rounds, first = Meter(), list[Round](), WorkTask(goal="G", instruction="Find the notice periods.")
    for number in range(3):
        _billed(meter, wire, first.model_copy(update={"rounds": tuple(rounds)}))
        source = Source(ref=f"lease-{number}.md#L1", quote=f"Clause {number}. " * 200)
        found = ToolResult(call_id=str(number), tool="search_documents", sources=(source,))
        call = ToolCall(id=str(number), tool="search_documents", arguments={"query": str(number)})
        rounds.append(Round(calls=(call,), results=(found,)))
    forced = _billed(meter, wire, first.model_copy(update={"rounds": tuple(rounds), "must_answer": True}))

    latest = len(rounds[-1].results[0].sources[0].quote) // 4
    assert forced.input + forced.cache_write <= latest + 200


@pytest.mark.parametrize("wire", WIRES)
async def test_each_request_starts_with_the_previous_request(wire: Wire) -> None:
    """Tools, system text, answer schema and earlier messages are identical to the byte."""
    replies = iter([calling(ToolUse("read_document", {"name": "a.pdf"})), answer()])
    async with a_provider(wire, lambda _: next(replies)) as (server, model):
        reply = await model.complete(a_call(wire))
        await model.complete(a_call(wire, messages=round_of(reply, "At eight.")))

    (fixed, first), (also_fixed, second) = (_parts(request.body) for request in server.requests)
    assert fixed == also_fixed
    assert first == second[: len(first)]
    assert len(first) < len(second)


def _parts(body: dict[str, Any]) -> tuple[str, list[str]]:
    """Separate the messages of a request from the rest; cache markers are not part of the prompt."""
    rest = dict(body)
    messages = rest.pop("input" if "input" in rest else "messages")
    written = [json.dumps(message).replace(', "cache_control": {"type": "ephemeral"}', "") for message in messages]
    return json.dumps(rest), written
