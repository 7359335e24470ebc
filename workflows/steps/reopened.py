"""Sources that the writer of a section has read again: only what agents have read, by the tools that read it."""

import asyncio
import re
from collections.abc import Sequence
from typing import Final

from pydantic import JsonValue
from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

from activities.contracts.calls import ToolRequest
from activities.contracts.cards import AgentCard
from activities.contracts.rounds import PASSAGE_GAP, ToolCall
from activities.turn.tool_use import ToolActivities
from activities.turn_kinds.synthesis import MOST_REOPENED, ReopenDraft, ReopenedSource
from chargehand.contracts import Source
from chargehand.contracts.waits import call_title
from workflows import options
from workflows.rules.inputs import Numbering
from workflows.state.session import Session

_PAGE: Final = "read_page"
_DOCUMENT: Final = "read_document"
_CHARACTERS: Final = 4_000
"""Of each source that is read again."""
_LONGEST_WORDS: Final = 200
_NUMBER: Final = re.compile(r"\d{1,4}")


def can_reopen(session: Session) -> bool:
    """Whether the crew has a tool to read with."""
    return any(_reader(session, tool) for tool in (_PAGE, _DOCUMENT))


async def reopen(session: Session, numbering: Numbering, wanted: Sequence[ReopenDraft]) -> tuple[ReopenedSource, ...]:
    """Read sources again, side by side, and number what is read; what cannot be read is left out."""
    named = ((_NUMBER.search(each.source), each.words) for each in wanted)
    words = {int(number[0]): words for number, words in named if number}
    known = [number for number in words if 0 < number <= len(numbering.sources)][:MOST_REOPENED]
    read = await asyncio.gather(*(_read(session, numbering.sources[number - 1], words[number]) for number in known))
    return tuple(
        ReopenedSource(number=numbering.add(source), ref=source.ref, text=source.quote) for source in read if source
    )


async def _read(session: Session, source: Source, words: str) -> Source | None:
    tool = _PAGE if source.url else _DOCUMENT
    agent = _reader(session, tool)
    if agent is None:
        return None
    arguments: dict[str, JsonValue] = {"document": source.ref, "first": 0, "last": 0}
    if source.url:
        arguments = {"url": source.url, "from": 0, "find": words[:_LONGEST_WORDS]}
    request = ToolRequest(
        session=session.id,
        step=f"reopen.{tool}",
        crew=session.facts.crew.reference,
        agent=agent.name,
        call=ToolCall(id="reopen", tool=tool, arguments=arguments),
        # Its address was found before, and goes out unchanged.
        public=(source.url or source.ref,),
        documents=session.request.documents,
    )
    session.spending.count_tool_call(agent.name)
    try:
        result = await workflow.execute_activity_method(
            ToolActivities.use_tool,
            request,
            task_queue=session.facts.tool_queues.of(tool),
            summary=call_title(tool, arguments),
            **options.tool(session.clock.deadline_at - workflow.now()),
        )
    except ActivityError as error:
        if is_cancelled_exception(error):
            raise
        return None
    if not result.sources:
        return None
    first = result.sources[0]
    text = PASSAGE_GAP.join(each.quote for each in result.sources if each.ref == first.ref)
    return first.model_copy(update={"quote": text[:_CHARACTERS]})


def _reader(session: Session, tool: str) -> AgentCard | None:
    """Find an agent that may use a tool without anyone's leave."""
    for agent in session.facts.crew.agents:
        bound = {*agent.acting, *agent.approvals, *(each.tool for each in (*agent.policy, *agent.watched))}
        if tool in agent.tools and tool not in bound:
            return agent
    return None
