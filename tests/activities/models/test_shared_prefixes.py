"""How much of a prompt is read from the provider's cache: siblings begin alike, and a conversation only grows."""

from typing import Any, Final

import pytest

from activities.contracts.rounds import Round, ToolCall, ToolResult
from activities.contracts.setting import ANYWHERE
from activities.crews.files import load_crews
from activities.documents.catalog import Catalog, DocumentEntry
from activities.documents.tool import ReadDocument, SearchDocuments
from activities.models import anthropic_messages, openai_responses
from activities.models.protocol import ModelCall
from activities.turn_kinds.work import WorkTask
from chargehand.contracts import Source
from tests.acceptance.played.billing import Meter
from tests.activities.models.calls import Wire
from tests.scripted_model import TODAY
from tests.scripted_provider import Tokens, saying
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
    call = ModelCall(
        model="m",
        task=task,
        agent="reader",
        crew_agents=(),
        catalog=_CATALOG,
        system=_SYSTEM,
        messages=task.messages(_CATALOG, TODAY),
        tools=(SearchDocuments.spec, ReadDocument.spec),
        answer_type=task.answer_type,
        max_output_tokens=4_000,
        timeout_seconds=1,
        idempotency_key="k",
    )
    reply = meter.bill(read(wire, _WIRES[wire](call), {}, 1, 0.0), saying("{}"))
    assert reply.on_first_token
    reply.on_first_token()
    return reply.tokens


def _share(billed: list[Tokens]) -> float:
    whole = sum(each.input + each.cached + each.cache_write for each in billed)
    return sum(each.cached for each in billed) / whole


@pytest.mark.parametrize("wire", _WIRES)
def test_siblings_share_what_stands_before_their_instructions(wire: Wire) -> None:
    """Of the first turns of an agent's other subtasks, at least four fifths are read from the cache."""
    meter, goal = Meter(), "How long are the notice periods of our leases, and what did repairs cost in each year?"
    instructions = [f"Find the notice period in lease-{number}.md, and quote its clause." for number in range(5)]
    _, *siblings = [_billed(meter, wire, WorkTask(goal=goal, instruction=each)) for each in instructions]

    assert _share(siblings) >= 0.8


@pytest.mark.parametrize("wire", _WIRES)
def test_the_turn_that_must_answer_reads_the_conversation_from_the_cache(wire: Wire) -> None:
    """Forbidding tools costs no cache: all but the latest round is read from it."""
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
