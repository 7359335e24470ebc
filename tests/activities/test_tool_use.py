"""The activity that uses a tool: which calls it makes, and how many at once."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import JsonValue
from temporalio.testing import ActivityEnvironment

from activities.contracts.crew import Agent, Crew
from activities.contracts.rounds import CallCheck, ToolCall, ToolRequest
from activities.contracts.tool import READS_DOCUMENTS, ToolAnswer, ToolContext, ToolSpec
from activities.crews.versions import CrewVersions
from activities.turn.apply_once import ActingCalls
from activities.turn.tool_use import MOST_COMPUTING, ToolActivities
from chargehand.contracts import JsonSchema
from chargehand.record import Record


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


def _readers(tool: str) -> Crew:
    agent = Agent(name="reader", description="Reads documents.", prompt="Read documents.", tools=(tool,))
    return Crew(name="readers", description="A crew for this test.", guidance="Let the reader read.", agents=(agent,))


@pytest.mark.parametrize(("name", "most"), [("query_data", MOST_COMPUTING), ("lookup", MOST_COMPUTING + 10)])
async def test_concurrent_calls_of_computing_tools_are_limited(name: str, most: int) -> None:
    """Further calls wait and run later; calls of other tools all start at once."""
    tool = Slow(name)
    crew = _readers(name)
    uses = ToolActivities(CrewVersions({"readers": crew}, {name: tool}), {name: tool}, ActingCalls(Record(Path())))
    request = ToolRequest(
        session="s", step="1", crew="readers", agent="reader", call=ToolCall(id="1", tool=name, arguments={})
    )
    calls = [asyncio.create_task(ActivityEnvironment().run(uses.use_tool, request)) for _ in range(MOST_COMPUTING + 10)]
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
    tools = {name: Slow(name) for name in ("lookup", "order")}
    crew = _readers("lookup")
    uses = ToolActivities(CrewVersions({"readers": crew}, tools), tools, ActingCalls(Record(Path())))
    asked = ToolCall(id="1", tool="lookup", arguments={}).model_copy(update=call)
    request = ToolRequest(session="s", step="1", crew="readers", agent=agent, call=asked)

    result = await ActivityEnvironment().run(uses.use_tool, request)

    assert (result.ok, result.output) == (False, {"error": told})
    assert [each.begun for each in tools.values()] == [0, 0]


_STRICT: JsonSchema = {
    "type": "object",
    "properties": {"order": {"type": "string"}, "to": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
    "required": ["order", "to"],
    "additionalProperties": False,
}


class _Refund:
    spec = ToolSpec(name="refund", description="Refunds.", parameters=_STRICT)


@pytest.mark.parametrize(
    ("arguments", "is_accepted"),
    [
        ({"order": "A1"}, True),
        ({"order": "A1", "to": None}, True),
        ({"to": "till"}, False),
        ({"order": None}, False),
        ({"order": "A1", "to": 4}, False),
        ({"order": "A1", "cc": "x"}, False),
    ],
)
async def test_an_argument_with_a_default_may_be_left_out(
    arguments: dict[str, JsonValue], *, is_accepted: bool
) -> None:
    """As in a model's call; anything else that the schema does not allow is refused."""
    uses = ToolActivities(cast("Any", None), {"refund": cast("Any", _Refund())}, cast("Any", None))
    request = CallCheck(session="s", tool="refund", arguments=arguments)
    found = await ActivityEnvironment().run(uses.check_call, request)

    assert (not found.problems) == is_accepted
