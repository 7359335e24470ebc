"""The activity that uses a tool for an agent."""

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from pydantic import JsonValue
from temporalio import activity

from activities.contracts.calls import CallCheck, CallProblems, ToolRequest
from activities.contracts.rounds import ToolResult
from activities.contracts.tool import Tool, ToolAnswer, failed
from activities.crews.versions import CrewVersions
from activities.documents.library import DocumentLibrary
from activities.json_schema import value_problems
from activities.metrics import REFUSALS, count_in_activity, time_tool
from activities.processes.stalls import tool_stall_limit
from activities.tools.pages.leak_check import carries, hides, repeats
from activities.tools.recall import RecallContext
from activities.turn.apply_once import apply_once, idempotency_key
from chargehand.wire import ActivityType

_IS_ADDRESS: Final = re.compile(r"://|^\s*\S+\.\S+\s*$")
UNKNOWN_OUTCOME: Final = (
    "Whether this call was applied is unknown, and it is not repeated. Do not make it again. Say in your answer that "
    "a person has to check it."
)
_NAMES_AN_ADDRESS: Final = re.compile(r"url|uri|href|link|address", re.IGNORECASE)


@dataclass(frozen=True)
class ToolActivities:
    """Uses tools."""

    crews: CrewVersions
    tools: Mapping[str, Tool]
    library: DocumentLibrary | None = None
    silence: timedelta = timedelta(seconds=90)
    """How long a tool may make no progress; each of them limits its whole time by itself, too."""

    @activity.defn(name=ActivityType.USE_TOOL)
    async def use_tool(self, request: ToolRequest) -> ToolResult:
        """Use one tool once. A mistake of the agent is an answer, not an error."""
        answer = await self._refusal(request) or await self._leak(request)
        if answer is None:
            answer = await self._use(request)
        is_unknown = answer is None
        answer = answer or failed(UNKNOWN_OUTCOME)
        return ToolResult(
            call_id=request.call.id,
            tool=request.call.tool,
            ok=answer.ok,
            output=answer.output,
            sources=answer.sources,
            artifacts=answer.artifacts,
            is_unknown=is_unknown,
        )

    @activity.defn(name=ActivityType.CHECK_CALL)
    async def check_call(self, request: CallCheck) -> CallProblems:
        """Check arguments that a person has written against the tool's schema."""
        tool = self.tools.get(request.tool)
        if tool is None:
            return CallProblems(problems=(f"tool: this worker has no '{request.tool}'",))
        found = await asyncio.to_thread(value_problems, tool.spec.parameters, request.arguments, "arguments")
        return CallProblems(problems=tuple(found))

    async def _use(self, request: ToolRequest) -> ToolAnswer | None:
        """Use the tool within its time; None if it acts and may or may not have been applied."""
        tool, arguments, info = self.tools[request.call.tool], request.call.arguments, activity.info()
        step = f"{info.workflow_id}:{info.workflow_run_id}:{request.step}"
        context = RecallContext(
            session=request.session,
            agent=request.agent,
            idempotency_key=idempotency_key(request) if tool.spec.acts else step,
            documents=request.documents,
            outcome=request.outcome,
            known=request.known,
        )

        async def use() -> ToolAnswer:
            limit = tool.spec.time_limit_seconds
            async with tool_stall_limit(max(self.silence.total_seconds(), limit or 0.0)):
                time = asyncio.timeout(limit)
                try:
                    async with time:
                        with time_tool(request.call.tool):
                            return await tool.use(arguments, context)
                except TimeoutError as error:
                    if not time.expired():
                        raise
                    raise TimeoutError(f"it took more than {limit:g} seconds") from error

        return await (apply_once(tool, arguments, context, use) if tool.spec.acts else use())

    async def _refusal(self, request: ToolRequest) -> ToolAnswer | None:
        crew = (await self.crews.find(request.crew)).crew
        agent = crew.agent(request.agent)
        if agent is None:
            return failed(f"There is no agent '{request.agent}' in the crew '{crew.name}'.")
        if request.call.tool not in agent.tools:
            return failed(f"You have no tool '{request.call.tool}'. Yours are: {', '.join(agent.tools) or 'none'}.")
        if request.call.malformed:
            return failed(f"The arguments could not be read: {request.call.malformed}. Send them again.")
        return None

    async def _leak(self, request: ToolRequest) -> ToolAnswer | None:
        """Refuse arguments that would take private text out: the agent's inputs, or descriptions of the documents.

        The planner knows the documents' names, headings and examples, and an attacker may trick it into writing them
        into an instruction. Inputs that a person let an agent have may be sent out in words, but not in an address or
        an encoding.
        """
        if "reaches_out" not in self.tools[request.call.tool].capabilities:
            return None
        described: list[str] = []
        if self.library is not None and request.documents:
            described = list((await self.library.open(request.documents)).catalog.own_words())
        kept = self.tools[request.call.tool].spec.stays_here
        sent = {name: value for name, value in request.call.arguments.items() if name not in kept}
        if not await asyncio.to_thread(_takes_out, request, sent, described):
            return None
        count_in_activity(REFUSALS, kind="leak_check")
        return failed(
            "This carries text from the user's own documents, which must not leave. Leave out their names, headings "
            "and contents. Open only addresses that were found, exactly as they were found."
        )


def _takes_out(request: ToolRequest, sent: Mapping[str, JsonValue], described: Sequence[str]) -> bool:
    private = [*request.private, *described]
    public = [text for text in request.public if " " in text]
    words: list[str] = []
    for name, text in _leaves("", sent):
        if not (_NAMES_AN_ADDRESS.search(name) or _IS_ADDRESS.search(text)):
            words.append(text)
        elif text.strip() not in request.public and carries(text, private, public):
            return True
    together = " ".join(words)
    return bool(repeats(together, described, public) or hides(together, request.private, public))


def _leaves(name: str, value: JsonValue | Mapping[str, JsonValue]) -> Iterator[tuple[str, str]]:
    """List all texts and numbers of a tool's arguments, with the name that each stands under."""
    match value:
        case str():
            yield name, value
        case Mapping():
            for key, each in value.items():
                yield "", key
                yield from _leaves(key, each)
        case list():
            for each in value:
                yield from _leaves(name, each)
        case int() | float():
            yield "", str(value)
        case None:
            pass
