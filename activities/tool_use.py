"""The activity that uses a tool for an agent."""

import asyncio
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from temporalio import activity

from activities.contracts import ToolRequest, ToolResult
from activities.crews import Crew
from activities.documents.catalog import Catalog
from activities.documents.library import DocumentLibrary
from activities.heartbeats import heartbeats
from activities.pages.leak_check import carries
from activities.tools import Tool, ToolAnswer, ToolContext, failed
from chargehand.wire import ActivityType

_IS_ADDRESS: Final = re.compile(r"://|^\s*\S+\.\S+\s*$")
_NAMES_AN_ADDRESS: Final = re.compile(r"url|uri|href|link|address", re.IGNORECASE)


@dataclass(frozen=True)
class ToolActivities:
    """Uses tools."""

    crews: Mapping[str, Crew]
    tools: Mapping[str, Tool]
    library: DocumentLibrary | None = None

    @activity.defn(name=ActivityType.USE_TOOL)
    async def use_tool(self, request: ToolRequest) -> ToolResult:
        """Use one tool once. A mistake of the agent is an answer, not an error."""
        answer = self._refusal(request) or await self._leak(request)
        if answer is None:
            info = activity.info()
            context = ToolContext(
                session=request.session,
                agent=request.agent,
                idempotency_key=f"{info.workflow_id}:{info.workflow_run_id}:{request.step}",
                documents=request.documents,
            )
            async with heartbeats():
                answer = await self.tools[request.call.tool].use(request.call.arguments, context)
        return ToolResult(
            call_id=request.call.id,
            tool=request.call.tool,
            ok=answer.ok,
            output=answer.output,
            sources=answer.sources,
            artifacts=answer.artifacts,
        )

    def _refusal(self, request: ToolRequest) -> ToolAnswer | None:
        crew = self.crews.get(request.crew)
        agent = crew.agent(request.agent) if crew else None
        if agent is None:
            return failed(f"This worker has no agent '{request.agent}' in a crew '{request.crew}'.")
        if request.call.tool not in agent.tools:
            return failed(f"You have no tool '{request.call.tool}'. Yours are: {', '.join(agent.tools) or 'none'}.")
        if request.call.malformed:
            return failed(f"The arguments could not be read: {request.call.malformed}")
        return None

    async def _leak(self, request: ToolRequest) -> ToolAnswer | None:
        """Refuse an address that carries private text: the agent's inputs, or descriptions of the documents.

        The planner knows the documents' names, headings and examples, and an attacker may trick it into writing them
        into an instruction.
        """
        if "reaches_out" not in self.tools[request.call.tool].capabilities:
            return None
        addresses = [
            value
            for name, value in request.call.arguments.items()
            if isinstance(value, str)
            and (_NAMES_AN_ADDRESS.search(name) or _IS_ADDRESS.search(value))
            and value.strip() not in request.public
        ]
        if not addresses:
            return None
        private = list(request.private)
        if self.library is not None and request.documents:
            private += _descriptions((await self.library.open(request.documents)).catalog)
        words = [text for text in request.public if " " in text]
        if await asyncio.to_thread(lambda: any(carries(address, private, words) for address in addresses)):
            return failed(
                "This address carries text from the user's own documents, which must not leave. Open only addresses "
                "that were found, exactly as they were found."
            )
        return None


def _descriptions(catalog: Catalog) -> Iterator[str]:
    """List the user's own words in the catalog."""
    for entry in catalog.documents:
        yield from (entry.name, entry.opening, *entry.headings)
    for table in catalog.tables:
        yield from (table.document, table.sheet)
        for column in table.columns:
            yield from (column.title, *column.examples)
