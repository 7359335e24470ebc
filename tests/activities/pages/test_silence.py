"""A tool is given up after a silence that any progress ends, apart from the limit of its whole time."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
from page_server import answer, serve_pages
from temporalio.testing import ActivityEnvironment

from activities.contracts.calls import ToolRequest
from activities.contracts.crew import Agent, Crew
from activities.contracts.rounds import ToolCall
from activities.crews.versions import CrewVersions
from activities.http.page import FetchLimits
from activities.tools.pages.tool import ReadPage
from activities.turn.apply_once import ActingCalls
from activities.turn.tool_use import ToolActivities
from chargehand.record import Record

SILENCE = 0.5
CREW = Crew(
    name="readers",
    description="A crew for this test.",
    guidance="Let the reader read.",
    agents=(Agent(name="reader", description="Reads web pages.", prompt="Read web pages.", tools=("read_page",)),),
)


async def _read(pauses: list[float]) -> bool:
    """Read a page that is sent word by word, with these pauses before them; return whether it could be read."""

    async def drip(writer: asyncio.StreamWriter) -> None:
        await answer(b"word ", Content_Length=str(5 * (1 + len(pauses))))(writer)
        for pause in pauses:
            await asyncio.sleep(pause)
            writer.write(b"word ")
            await writer.drain()

    async with serve_pages() as server:
        server.pages["/"] = drip
        tool = ReadPage(frozenset({server.host}), FetchLimits())
        activities = ToolActivities(
            CrewVersions({"readers": CREW}, {"read_page": tool}),
            {"read_page": tool},
            ActingCalls(Record(Path())),
            silence=timedelta(seconds=SILENCE),
        )
        call = ToolCall(id="1", tool="read_page", arguments={"url": f"http://{server.host}/"})
        request = ToolRequest(session="s", step="1", crew="readers", agent="reader", call=call)
        try:
            return (await ActivityEnvironment().run(activities.use_tool, request)).ok
        finally:
            await tool.close()


async def test_progress_resets_the_limit_of_silence() -> None:
    """A page that arrives for longer than a silence may last is read to its end."""
    assert await _read([SILENCE / 4] * 8)


async def test_a_silent_tool_is_given_up_and_tried_again() -> None:
    """A page that stops arriving raises an error that Temporal retries, long before the tool's own time is up."""
    with pytest.raises(TimeoutError, match="it sent nothing"):
        await _read([0.0, 60.0])
