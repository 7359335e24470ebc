"""The activity that runs a tool for an agent, and quick tools, which run within the turn that requests them.

Quick tools need no separate activity or workflow task. The turn's reply is recorded first, so that nothing that happens
here loses what was paid. The workflow determines which tools may be quick; a call that is not made within the turn,
fails or takes long gets a separate activity with its own retries.
"""

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from pydantic import JsonValue
from temporalio import activity

from activities.contracts.rounds import MOST_CALLS, CallCheck, CallProblems, ToolCall, ToolRequest, ToolResult
from activities.contracts.tool import Tool, ToolAnswer
from activities.credentials import CredentialMissing, HidesCredentials, open_for
from activities.crews.versions import CrewVersions
from activities.documents.library import DocumentLibrary
from activities.json_schema import value_problems
from activities.metrics import REFUSALS, count_in_activity, time_tool
from activities.processes.stall_timeout import tool_stall_limit
from activities.quarantine import quarantine
from activities.queues import COMPUTING
from activities.tools.pages.leak_check import carries, hides, repeats
from activities.tools.recall import NOTE, RecallContext
from activities.turn.apply_once import ActingCalls, apply_once, certain_failures, idempotency_key
from activities.turn.contracts import TurnRequest, TurnResult, UsedTool
from activities.turn_kinds.registry import Task
from activities.turn_kinds.work import WorkTask
from chargehand.contracts import JsonSchema
from chargehand.payloads.encryption import Encryption
from chargehand.payloads.errors import ProtectionError
from chargehand.tools import failed
from chargehand.wire import ActivityType

_IS_ADDRESS: Final = re.compile(r"://|^\s*\S+\.\S+\s*$")
_QUICK_SECONDS: Final = 1.0
"""Time limit of quick tools. The turn's cost enters the history afterwards, and views may lag two seconds."""
MOST_COMPUTING: Final = 50
"""Maximum concurrent calls of computing tools."""
_QUICK_BYTES: Final = 256 * 1024
"""Maximum total size of quick results, since an oversized turn result would be lost with its reply."""
UNKNOWN_OUTCOME: Final = (
    "Whether this call was applied is unknown, and it is not repeated. Do not make it again. Say in your answer that "
    "a person has to check it."
)
_NAMES_AN_ADDRESS: Final = re.compile(r"url|uri|href|link|address", re.IGNORECASE)


@dataclass(frozen=True)
class ToolActivities:
    crews: CrewVersions
    tools: Mapping[str, Tool]
    acting: ActingCalls
    library: DocumentLibrary | None = None
    keys: Encryption | None = None
    """Keys that open the credentials of calling users."""
    silence: timedelta = timedelta(seconds=90)
    """Maximum time for a tool without progress; a tool's own limit also bounds its total time."""
    _computing: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MOST_COMPUTING), init=False)

    @activity.defn(name=ActivityType.USE_TOOL)
    async def use_tool(self, request: ToolRequest) -> ToolResult:
        """Run a tool once. A mistake of the agent is an answer, not an error."""
        tool = self.tools.get(request.call.tool)
        if tool is not None and tool.spec.acts:  # it is applied once, whatever happens to its workers
            with certain_failures():
                return await self.use(request)
        async with quarantine(f"a call of {request.call.tool}", request.lost_workers):
            return await self.use(request)

    async def use(self, request: ToolRequest) -> ToolResult:
        """Run a tool as part of another activity."""
        answer = await self._refusal(request) or await self._leak(request)
        if answer is None:
            answer = await self._use(request)
        is_unknown = answer is None
        answer = answer or failed(UNKNOWN_OUTCOME)
        return ToolResult(call_id=request.call.id, tool=request.call.tool, is_unknown=is_unknown, **dict(answer))

    @activity.defn(name=ActivityType.CHECK_CALL)
    async def check_call(self, request: CallCheck) -> CallProblems:
        """Check arguments that a person has written against the tool's schema."""
        tool = self.tools.get(request.tool)
        if tool is None:
            return CallProblems(problems=(f"tool: this worker has no '{request.tool}'",))
        errors = await asyncio.to_thread(_problems, tool.spec.parameters, request.arguments)
        return CallProblems(problems=tuple(errors))

    async def _use(self, request: ToolRequest) -> ToolAnswer | None:
        """Run the tool within its time limit; None if it acts and its outcome is unknown."""
        tool, arguments, info = self.tools[request.call.tool], request.call.arguments, activity.info()
        step = f"{info.workflow_id}:{info.workflow_run_id}:{request.step}"
        try:
            credentials = open_for(tool, request, self.keys)
        except (CredentialMissing, ProtectionError) as error:
            return failed(str(error))
        tool = HidesCredentials(tool) if credentials else tool
        key = idempotency_key(request) if tool.spec.acts else step
        context = request.make(RecallContext, idempotency_key=key, credentials=credentials)

        async def use() -> ToolAnswer:
            limit = tool.spec.time_limit_seconds
            place = self._computing if request.call.tool in COMPUTING else nullcontext()
            async with place, tool_stall_limit(max(self.silence.total_seconds(), limit or 0.0)):
                time = asyncio.timeout(limit)
                try:
                    async with time:
                        with time_tool(request.call.tool):
                            return await tool.use(arguments, context)
                except TimeoutError as error:
                    if not time.expired():
                        raise
                    raise TimeoutError(f"it took more than {limit:g} seconds") from error

        if not tool.spec.acts:
            return await use()
        return await apply_once(self.acting, tool, request, context, use)

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
        """Refuse arguments that would send out private text: the agent's inputs, or descriptions of the documents.

        The planner knows the documents' names, headings and examples, and an attacker could trick it into putting them
        into an instruction. Text that a person has read and approved is sent unchanged.
        """
        if "reaches_out" not in self.tools[request.call.tool].capabilities or request.decision:
            return None
        described: list[str] = []
        if self.library is not None and request.documents and not request.documents_may_leave:
            described = list((await self.library.open(request.documents)).catalog.own_words())
        local_names = self.tools[request.call.tool].spec.stays_here
        sent = {name: value for name, value in request.call.arguments.items() if name not in local_names}
        if not await asyncio.to_thread(_takes_out, request, sent, described):
            return None
        count_in_activity(REFUSALS, kind="leak_check")
        return failed(
            "This carries text from the user's own documents, which must not leave. Leave out their names, headings "
            "and contents. Open only addresses that were found, exactly as they were found."
        )


def _problems(parameters: JsonSchema, arguments: Mapping[str, JsonValue]) -> list[str]:
    """List the problems of arguments; nullable ones may be absent, as in a model's call."""
    known = parameters.get("properties")
    named = known.items() if isinstance(known, Mapping) else ()
    absent = {name: None for name, schema in named if isinstance(schema, dict) and not value_problems(schema, None)}
    return value_problems(parameters, {**absent, **arguments}, "arguments")


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
    match value:
        case Mapping():
            for key, each in value.items():
                yield "", key
                yield from _leaves(key, each)
        case list():
            for each in value:
                yield from _leaves(name, each)
        case None:
            pass
        case _:
            yield name if isinstance(value, str) else "", str(value)


async def use_at_once(
    uses: ToolActivities, request: TurnRequest, result: TurnResult, chosen: Sequence[int], patience_seconds: float
) -> tuple[UsedTool, ...]:
    """Make the chosen calls of a reply; return the successful ones."""
    if not chosen:
        return ()
    using = [
        asyncio.create_task(_use_quickly(uses, request, position, result.tool_calls[position])) for position in chosen
    ]
    try:
        done, _ = await asyncio.wait(using, timeout=min(_QUICK_SECONDS, patience_seconds))
    finally:
        for each in using:
            each.cancel()
    used = tuple(each.result() for each in using if each in done and not each.cancelled() and each.exception() is None)
    is_large = sum(len(each.model_dump_json().encode()) for each in used) > _QUICK_BYTES
    return () if is_large else used


async def _use_quickly(uses: ToolActivities, request: TurnRequest, position: int, call: ToolCall) -> UsedTool:
    began_at = datetime.now(UTC)
    step = f"{request.step}/{position + 1}.{call.tool}"
    used = await uses.use(request.make(ToolRequest, step=step, call=call))
    return UsedTool(position=position, result=used, began_at=began_at, ended_at=datetime.now(UTC))


def choose_at_once(request: TurnRequest, task: Task, result: TurnResult) -> Sequence[int]:
    """Choose the positions of the calls to make; none if one is left to the workflow, which waits for it anyway."""
    if result.stop != "tools" or not isinstance(task, WorkTask) or task.must_answer:
        return ()
    calls = {position: call for position, call in enumerate(result.tool_calls) if call.tool != NOTE.name}
    earlier_calls = [(call.tool, call.arguments) for past in task.rounds for call in past.calls]
    may_be_used = all(
        call.tool in request.at_once and not call.malformed and (call.tool, call.arguments) not in earlier_calls
        for call in calls.values()
    )
    return tuple(calls) if may_be_used and len(calls) <= MOST_CALLS else ()
