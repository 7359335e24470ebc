"""The writer of a report: a model that reads outcomes in full, within its cap and the budget.

The writer of a section may reopen sources that agents have read, with the same tools.
"""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from pydantic import JsonValue
from temporalio import workflow

from activities.contracts.cards import AgentCard
from activities.contracts.quotations import PASSAGE_GAP
from activities.contracts.rounds import InputOutcome, ToolCall, ToolRequest
from activities.turn.tool_use import ToolActivities
from activities.turn_kinds.protocol import ContradictionDraft
from activities.turn_kinds.synthesis import (
    MOST_REOPENED,
    ReopenDraft,
    ReopenedSource,
    Section,
    SynthesisAnswer,
    SynthesisTask,
)
from chargehand.contracts import Artifact, Issue, Source, StopReason
from chargehand.contracts.waits import call_title
from workflows import options
from workflows.budget.estimates import REPORT
from workflows.rules.citation_checks import list_uncited
from workflows.rules.citations import CITES_NOTHING, name_refs, number_more_refs, without_citations
from workflows.rules.inputs import Numbering, fit_task
from workflows.rules.report_content import evidence_of, numbered_sources, quotations_of, read_again
from workflows.state.session import Session
from workflows.steps.effects import try_turn

_UNCITED: Final = (
    "It has no citation; cite what it rests on, leave it out if it rests on nothing, and keep it if it states nothing"
)
_PAGE: Final = "read_page"
_DOCUMENT: Final = "read_document"
_CHARACTERS: Final = 4_000
"""Maximum number of characters of each reopened source."""
_LONGEST_WORDS: Final = 200
_NUMBER: Final = re.compile(r"\d{1,4}")


@dataclass(frozen=True)
class Material:
    """The material of a report."""

    outcomes: Sequence[InputOutcome]
    """All outcomes in plan order."""
    stop_reason: StopReason
    numbering: Numbering
    earlier: Sequence[InputOutcome] = ()
    """The findings of the previous session."""

    @property
    def known(self) -> Sequence[InputOutcome]:
        """The evidence for statements."""
        return (*self.earlier, *self.outcomes)

    @property
    def sources(self) -> Sequence[Source]:
        """All sources in citation order."""
        return self.numbering.sources


@dataclass(frozen=True)
class Draft:
    """A report before its citations are checked."""

    text: SynthesisAnswer
    notice: str = ""
    """Why no model wrote it, if none did; no other model is asked then."""
    is_delivered: bool = False
    """Whether it is delivered as its agent wrote it."""
    is_computed: bool = False
    """Whether code wrote it from checked findings; no model may rewrite it."""

    @property
    def has_to_cite(self) -> bool:
        """Whether its statements need citations; a delivered letter may have none."""
        return not self.is_delivered or self.text.answer != without_citations(self.text.answer)

    async def rewrite(self, session: Session, material: Material, problems: Sequence[str]) -> "Draft | None":
        """Have it rewritten to fix problems; None if that is not possible."""
        if self.notice or self.is_computed:
            return None
        text = await write(session, material, material.outcomes, problems=problems, first_version=self.text.answer)
        return replace(self, text=text) if text else None


@dataclass(frozen=True)
class PluginReport:
    """A report written by a plug-in."""

    draft: Draft
    issues: tuple[Issue, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    """Files in addition to those of the outcomes."""


def material_of(outcomes: Sequence[InputOutcome], stop_reason: StopReason, earlier: Sequence[InputOutcome]) -> Material:
    earlier = [read_again(entry, outcomes) for entry in earlier]
    known = (*earlier, *outcomes)
    return Material(outcomes, stop_reason, Numbering(list(numbered_sources(known)), quotations_of(known)), earlier)


def final_instruction(session: Session) -> str:
    """Return the instruction for the report, with the user's messages to all agents since planning."""
    plan, messages = session.progress.plan, session.progress.steering.for_all
    planned = plan.final_instruction if plan else ""
    return f"{planned}\nThe user has written since, to all: {messages}".strip() if messages else planned


async def write(
    session: Session,
    material: Material,
    outcomes: Sequence[InputOutcome],
    *,
    problems: Sequence[str] = (),
    first_version: str = "",
    section: Section | None = None,
    words: int | None = None,
) -> SynthesisAnswer | None:
    """Have a model write the report or a section from outcomes; None if that fails or takes too long."""
    task = SynthesisTask(
        goal=session.request.goal,
        criteria=session.request.criteria,
        final_instruction=final_instruction(session),
        length_words=session.report_words if words is None else words,
        section=section,
        outcomes=(),
        stopped_because="" if material.stop_reason == "completed" else material.stop_reason.replace("_", " "),
        contradictions=tuple(session.progress.contradictions),
        problems=tuple(problems),
        first_version=first_version,
    )
    session.budget.report_reserve.release()
    until = max(session.clock.deadline_at, workflow.now() + options.LEAST_REPORT_TIME)
    read = (*material.earlier, *outcomes)
    task = fit_task(task, read, material.numbering, lambda task: session.budget.can_pay(task, REPORT.least_output))
    if section is not None and not problems and any(_reader(session, tool) for tool in (_PAGE, _DOCUMENT)):
        # Two turns for each concurrent section, less those already reserved by earlier sections.
        turns = 2 * len(section.outline) - section.outline.index(section.heading)
        task = task.replace(may_reopen=session.budget.can_pay(task, REPORT.least_output, turns))
    draft = await try_turn(session, task, SynthesisAnswer, until=until)
    if draft is not None and draft.reopen and task.may_reopen:
        reopened = await _reopen(session, material.numbering, draft.reopen)
        task = task.replace(may_reopen=False, reopened=reopened)
        draft = await try_turn(session, task, SynthesisAnswer, until=until) or (draft if draft.answer else None)
    if draft is None or not draft.answer.strip():
        return None
    answer = number_more_refs(draft.answer, material.numbering.numbers, CITES_NOTHING)
    return draft.replace(answer=answer, contradictions=name_sources(draft.contradictions, material))


def name_sources(contradictions: Sequence[ContradictionDraft], material: Material) -> list[ContradictionDraft]:
    """Name the sources of contradictions instead of citing them by number."""
    refs = [source.ref for source in material.sources]
    return [
        contradiction.replace(
            positions=[name_refs(position, refs) for position in contradiction.positions],
            resolution=name_refs(contradiction.resolution, refs),
        )
        for contradiction in contradictions
    ]


def uncited_problems(text: str, material: Material, gaps: Sequence[str]) -> list[str]:
    """Describe a text's uncited statements for its writer; empty if there is nothing to cite."""
    if not material.sources:
        return []
    return [f"{_UNCITED}: {part}" for part in list_uncited(text, evidence_of(material.known, material.sources, gaps))]


async def _reopen(session: Session, numbering: Numbering, wanted: Sequence[ReopenDraft]) -> tuple[ReopenedSource, ...]:
    """Reopen sources concurrently and number them; those that cannot be read are omitted."""
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
        # Its address was found before and is sent unchanged.
        public=(source.url or source.ref,),
        documents=session.request.documents,
    )
    session.budget.spending.count_tool_call(agent.name)
    using = workflow.execute_activity_method(
        ToolActivities.use_tool,
        request,
        task_queue=session.facts.tool_queues.of(tool),
        summary=call_title(tool, arguments),
        **options.tool(session.clock.deadline_at - workflow.now()),
    )
    result = await options.unless_failed(using)
    if result is None or not result.sources:
        return None
    first = result.sources[0]
    text = PASSAGE_GAP.join(each.quote for each in result.sources if each.ref == first.ref)
    return first.replace(quote=text[:_CHARACTERS])


def _reader(session: Session, tool: str) -> AgentCard | None:
    """Find an agent that may use a tool without approval."""
    for agent in session.facts.crew.agents:
        bound = {*agent.acting, *agent.approvals, *(each.tool for each in (*agent.policy, *agent.watched))}
        if tool in agent.tools and tool not in bound:
            return agent
    return None
