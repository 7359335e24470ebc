"""A subtask carried out by rules: what the agent's tools allow decides how."""

import re

from activities.contracts import InputOutcome, ToolCall
from activities.documents.catalog import Catalog
from activities.models.extractive.analyst import compute
from activities.models.extractive.answers import no_answer
from activities.models.extractive.instructions import Assignment, Lead, read_instruction
from activities.models.extractive.questions import pointed, points_back
from activities.models.extractive.reader import quote_passages
from activities.models.extractive.summary import summarise
from activities.models.extractive.wording import listed, shortened
from activities.turn_kinds.work import FindingDraft, IssueDraft, WorkAnswer, WorkTask, WorkWithIssuesAnswer

NO_MODEL = "*No language model was used: this is an evidence sheet of quoted passages and computed figures.*"
_BOLD = re.compile(r"\*\*([^*\n]{1,120})\*\*")


def work(task: WorkTask, catalog: Catalog, tools: frozenset[str]) -> tuple[ToolCall, ...] | WorkAnswer:
    """Take one turn at a subtask: tool calls, or the answer."""
    reply = _turn(task, catalog, tools)
    if isinstance(reply, WorkAnswer):
        return reply.model_copy(update={"content": f"{reply.content}\n\n{NO_MODEL}"})
    return reply


def _turn(task: WorkTask, catalog: Catalog, tools: frozenset[str]) -> tuple[ToolCall, ...] | WorkAnswer:
    assignment = read_instruction(task.instruction)
    usable = tools | {call.tool for past in task.rounds for call in past.calls}
    question = assignment.question
    if task.inputs and usable and points_back(question):
        name = _leading_name(task.inputs)
        if name is None:
            return _unresolved(question, task.inputs)
        question = pointed(question, name)
    if "query_data" in usable and (
        assignment.lead in {Lead.COMPUTE, Lead.PROFILE, None} or not usable & {"search_documents", "search"}
    ):
        return compute(task, assignment, question, catalog, tools)
    if usable & {"read_document", "search_documents"} and assignment.lead is Lead.SUMMARISE:
        return summarise(task, assignment, catalog, tools)
    if usable & {"search_documents", "search"}:
        return quote_passages(task, assignment, question, catalog, tools)
    return _compile(task, assignment)


def _leading_name(inputs: tuple[InputOutcome, ...]) -> str | None:
    """The name that an earlier answer came to: what it set in bold first."""
    for given in inputs:
        if given.outcome.kind in {"success", "partial"}:
            match = _BOLD.search(given.outcome.content)
            if match:
                return match[1]
    return None


def _unresolved(question: str, inputs: tuple[InputOutcome, ...]) -> WorkAnswer:
    earlier = listed(given.id for given in inputs)
    return no_answer(f"“{shortened(question, 160)}” points back to {earlier}, which came to no single name.")


def _compile(task: WorkTask, assignment: Assignment) -> WorkAnswer:
    """Set out what the inputs say, for an agent that has nothing but them."""
    parts: list[str] = []
    findings: list[FindingDraft] = []
    gaps: list[str] = []
    for given in task.inputs:
        gaps += given.outcome.gaps
        quotes = {source.ref: source.quote for source in given.outcome.sources}
        for finding in given.outcome.findings:
            refs = list(finding.sources)
            parts.append(f"- {finding.claim} {' '.join(f'[{ref}]' for ref in refs)}".rstrip())
            findings.append(
                FindingDraft(
                    claim=finding.claim,
                    source_refs=refs,
                    quote=quotes.get(refs[0], "") if refs else "",
                    confidence=finding.confidence,
                )
            )
        if given.outcome.kind in {"failure", "escalation"}:
            gaps.append(f"{given.id} produced no result: {shortened(given.instruction, 160)}")
    gaps = list(dict.fromkeys(gaps))
    if not findings:
        return no_answer(f"There is nothing to write from for “{shortened(assignment.question, 160)}”.", gaps=gaps)
    lead = "Without a language model no new text is written or judged; this is what the agents before found."
    return WorkAnswer(
        status="partial" if gaps else "success",
        content="\n".join([lead, "", *parts]),
        findings=findings,
        confidence=min(finding.confidence for finding in findings),
        gaps=gaps,
        message=gaps[0] if gaps else "",
    )


def checked(answer: WorkAnswer, task: WorkTask) -> WorkWithIssuesAnswer:
    """Add what rules can find wrong with what an agent was given: claims that no source bears out."""
    issues = [
        IssueDraft(
            severity="major",
            location=f"{given.id}: {shortened(finding.claim, 160)}",
            message="No source is named for this.",
            suggestion="Name the document, the page or the table that says so, or leave it out.",
            confidence=100,
        )
        for given in task.inputs
        for finding in given.outcome.findings
        if not finding.sources
    ]
    return WorkWithIssuesAnswer.model_validate(answer.model_dump(exclude={"kind"}) | {"issues": issues})
