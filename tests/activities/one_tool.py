"""The activity that uses tools, for a crew whose only agent has one tool."""

from pathlib import Path
from typing import Any

from pydantic import JsonValue

from activities.contracts.crew import Agent, Crew
from activities.contracts.rounds import ToolCall, ToolRequest
from activities.contracts.tool import Tool
from activities.crews.versions import CrewVersions
from activities.turn.apply_once import ActingCalls
from activities.turn.tool_use import ToolActivities
from chargehand.record import Record


def uses_of(tool: Tool, *others: Tool, **options: Any) -> ToolActivities:
    """Let the agent `reader` use the first of these tools, which this worker has."""
    agent = Agent(name="reader", description="Reads pages.", prompt="Read the pages.", tools=(tool.spec.name,))
    crew = Crew(name="readers", description="A crew for this test.", guidance="Let the reader read.", agents=(agent,))
    tools = {each.spec.name: each for each in (tool, *others)}
    return ToolActivities(CrewVersions({"readers": crew}, tools), tools, ActingCalls(Record(Path())), **options)


def a_request(tool: str, agent: str = "reader", **arguments: JsonValue) -> ToolRequest:
    call = ToolCall(id="1", tool=tool, arguments=arguments)
    return ToolRequest(session="s", step="1", crew="readers", agent=agent, call=call)
