"""The crew `my-crew` with a scripted model: the real workflows, checks and tools, without a server or a key."""

import asyncio
from pathlib import Path

import my_crew_tools
from my_crew_tools import stock_level

from chargehand import SessionRequest
from chargehand.tools import Tool
from chargehand_plugins.testing import Script, ToolUse, answer, run_session, run_tool, subtask, use

CREWS = Path(__file__).with_name("crews")
TOOLS = [each for each in vars(my_crew_tools).values() if isinstance(each, Tool)]


def test_an_unknown_item_is_answered_with_the_known_ones() -> None:
    """The model can correct its mistake."""
    answered = asyncio.run(run_tool(stock_level, {"item": "Z-99"}))

    assert not answered.ok
    assert "A-17" in str(answered.output)


def test_the_clerk_looks_up_what_is_asked() -> None:
    """One subtask of the clerk with one tool call, whose answer is the report."""
    script = (
        Script()
        .plan(subtask("T1", "clerk", "Look up how many of A-17 are in stock."))
        .work("A-17", use("stock_level", item="A-17"), answer("40 pieces of A-17 are in stock."))
    )

    request = SessionRequest(goal="How many of A-17 are in stock?", crew="my-crew")
    run = asyncio.run(run_session(request, script, crews=CREWS, tools=TOOLS))

    assert run.tool_calls == (ToolUse("stock_level", {"item": "A-17"}),)
    assert "40 pieces" in run.report.answer
