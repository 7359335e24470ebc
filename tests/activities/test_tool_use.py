"""The activity that uses a tool: which calls it makes, and how many at once."""

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest
from pydantic import JsonValue
from temporalio.testing import ActivityEnvironment

from activities.contracts.rounds import CallCheck
from activities.contracts.tool import READS_DOCUMENTS, ToolAnswer, ToolContext, ToolSpec
from activities.turn.tool_use import MOST_COMPUTING, ToolActivities
from chargehand.contracts import JsonSchema
from tests.activities.one_tool import a_request, uses_of


class Slow:
    """Records how many of its calls are in progress, and ends none until told to."""

    capabilities = READS_DOCUMENTS

    def __init__(self, name: str) -> None:
        self.spec = ToolSpec(name=name, description="Slow.", parameters={"type": "object"})
        self.begun, self.end = 0, asyncio.Event()

    async def use(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> ToolAnswer:  # noqa: ARG002
        self.begun += 1
        await self.end.wait()
        return ToolAnswer(output={})


@pytest.mark.parametrize(("name", "most"), [("query_data", MOST_COMPUTING), ("lookup", MOST_COMPUTING + 10)])
async def test_concurrent_calls_of_computing_tools_are_limited(name: str, most: int) -> None:
    """Further calls wait and run later; calls of other tools all start at once."""
    tool = Slow(name)
    use = uses_of(tool).use_tool
    calls = [asyncio.create_task(ActivityEnvironment().run(use, a_request(name))) for _ in range(MOST_COMPUTING + 10)]
    async with asyncio.timeout(20):
        while tool.begun < most:  # noqa: ASYNC110  # the tool is called by others
            await asyncio.sleep(0)
        for _ in range(100):
            await asyncio.sleep(0)
        begun = tool.begun
        tool.end.set()
        ended = await asyncio.gather(*calls)

    assert (begun, [each.ok for each in ended]) == (most, [True] * len(calls))


@pytest.mark.parametrize(
    ("agent", "call", "told"),
    [
        ("writer", {}, "There is no agent 'writer' in the crew 'readers'."),
        ("reader", {"tool": "order"}, "You have no tool 'order'. Yours are: lookup."),
        ("reader", {"tool": "nothing"}, "You have no tool 'nothing'. Yours are: lookup."),
        ("reader", {"malformed": "it is cut off"}, "The arguments could not be read: it is cut off. Send them again."),
    ],
)
async def test_a_call_outside_the_agents_tools_is_refused(agent: str, call: dict[str, str], told: str) -> None:
    """The activity itself checks which agent has which tool, whatever the workflow requests."""
    lookup, order = Slow("lookup"), Slow("order")
    request = a_request("lookup", agent)
    request = request.model_copy(update={"call": request.call.model_copy(update=call)})

    result = await ActivityEnvironment().run(uses_of(lookup, order).use_tool, request)

    assert (result.ok, result.output) == (False, {"error": told})
    assert (lookup.begun, order.begun) == (0, 0)


_STRICT: JsonSchema = {
    "type": "object",
    "properties": {"order": {"type": "string"}, "to": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
    "required": ["order", "to"],
    "additionalProperties": False,
}


class _Refund:
    spec = ToolSpec(name="refund", description="Refunds.", parameters=_STRICT)


async def test_an_argument_with_a_default_may_be_left_out() -> None:
    """As in a model's call; anything else that the schema does not allow is refused."""
    uses = ToolActivities(cast("Any", None), {"refund": cast("Any", _Refund())}, cast("Any", None))
    good: tuple[dict[str, JsonValue], ...] = ({"order": "A1"}, {"order": "A1", "to": None})
    incomplete: tuple[dict[str, JsonValue], ...] = ({"to": "till"}, {"order": None})
    wrong: tuple[dict[str, JsonValue], ...] = ({"order": "A1", "to": 4}, {"order": "A1", "cc": "x"})
    checks = [CallCheck(session="s", tool="refund", arguments=each) for each in (*good, *incomplete, *wrong)]
    refused = [bool((await ActivityEnvironment().run(uses.check_call, each)).problems) for each in checks]

    assert refused == [False] * 2 + [True] * 4
