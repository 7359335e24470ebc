"""Prompts: a typed task as words for a language model.

The system text holds what never changes for an agent, so that providers can cache it; everything of the session is in
the messages. What tools and documents say is framed as data.
"""

import re
from collections.abc import Sequence
from typing import Final

from pydantic_core import to_json

from activities.contracts import InputOutcome, Round, ToolResult
from activities.crews import Agent, Crew
from activities.documents.catalog import Catalog
from activities.models.protocol import Message, ToolText
from activities.prompt_texts import (
    CHECKER,
    COMPRESSOR,
    CRITIC,
    DATA_RULE,
    JUDGE,
    PLANNER,
    REFINER,
    REVIEWER,
    WORKER,
    WRITER,
)
from activities.turn_kinds.compress import CompressAnswer, CompressTask
from activities.turn_kinds.critique import CritiqueAnswer, CritiqueTask
from activities.turn_kinds.judge import JudgeAnswer, JudgeTask
from activities.turn_kinds.plan import PlanAnswer, PlanTask
from activities.turn_kinds.protocol import TurnAnswer
from activities.turn_kinds.refine import RefineAnswer, RefineTask
from activities.turn_kinds.registry import Task
from activities.turn_kinds.review import ReviewAnswer, ReviewTask
from activities.turn_kinds.synthesis import SynthesisAnswer, SynthesisTask
from activities.turn_kinds.work import WorkAnswer, WorkTask, WorkWithIssuesAnswer
from activities.untrusted_text import data, defused
from chargehand.contracts import Escalation, Failure, Outcome

CATALOG_CHARACTERS: Final = 9_000
"""The most that a prompt says about the session's documents."""

SCHEMA_BYTES: Final = 6_000
"""Upper bound of an answer shape as JSON Schema, in whatever form a provider is sent it."""

ANSWER_TYPES: Final[dict[str, type[TurnAnswer]]] = {
    "plan": PlanAnswer,
    "work": WorkAnswer,
    "synthesis": SynthesisAnswer,
    "refine": RefineAnswer,
    "review": ReviewAnswer,
    "judge": JudgeAnswer,
    "critique": CritiqueAnswer,
    "compress": CompressAnswer,
}
"""The shape of the final reply, by the task's kind."""


def answer_type(kind: str, agent: Agent | None) -> type[TurnAnswer]:
    """Choose the shape of the final reply to a task."""
    return WorkWithIssuesAnswer if kind == "work" and agent is not None and agent.reviews else ANSWER_TYPES[kind]


SUPERVISOR_KINDS: Final = tuple(kind for kind in ANSWER_TYPES if kind != "work")
"""Kinds of tasks that are the supervisor's own."""

_TOOL_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_SYSTEM_TEXTS: Final = {"synthesis": WRITER, "judge": JUDGE, "critique": CRITIC, "compress": COMPRESSOR}
_SYSTEM_TEXTS_WITH_AGENTS: Final = {"plan": PLANNER, "refine": REFINER, "review": REVIEWER}


def system_text(kind: str, crew: Crew, agent_name: str) -> str:
    """Write the stable part of the prompt."""
    if kind in _SYSTEM_TEXTS_WITH_AGENTS:
        agents = "\n".join(
            f"- {agent.name}: {agent.description} Tools: {', '.join(agent.tools) or 'none'}." for agent in crew.agents
        )
        text = f"{_SYSTEM_TEXTS_WITH_AGENTS[kind]}\n\n{crew.guidance}\n\nAgents:\n{agents}"
    elif kind in _SYSTEM_TEXTS:
        text = _SYSTEM_TEXTS[kind]
    else:
        agent = crew.agent(agent_name)
        if agent is None:
            raise ValueError(f"crew '{crew.name}' has no agent '{agent_name}'")
        text = WORKER.format(name=agent.name, description=agent.description, prompt=agent.prompt)
        text += CHECKER if agent.reviews else ""
    return f"{text}\n\n{DATA_RULE}"


def messages(task: Task, catalog: Catalog | None) -> tuple[Message, ...]:
    """Write the part of the prompt that belongs to the session.

    Args:
        task: what is to be done.
        catalog: the user's documents; None for an agent that reaches out, which is to know nothing of them.
    """
    match task:
        case WorkTask():
            return _work_messages(task, catalog)
        case PlanTask():
            text = _plan_text(task, catalog)
        case SynthesisTask():
            text = _synthesis_text(task)
        case RefineTask():
            text = _refine_text(task, catalog)
        case ReviewTask():
            text = _review_text(task, catalog)
        case JudgeTask():
            text = _judge_text(task)
        case CritiqueTask():
            text = _critique_text(task)
        case CompressTask():
            text = _compress_text(task)
    return (Message(role="user", text=text),)


def _plan_text(task: PlanTask, catalog: Catalog | None) -> str:
    parts = [
        f"Request:\n{data(task.goal)}",
        *_documents(catalog),
        f"Write at most {task.max_subtasks} subtasks. {_nesting(may_nest=task.may_nest)}",
    ]
    for rejected in task.rejected:
        problems = "\n".join(f"- {error}" for error in rejected.errors)
        parts.append(
            f"This plan of yours was refused:\n{data(rejected.plan)}\nbecause of:\n{data(problems)}\nMend all of it."
        )
    return "\n\n".join(parts)


def _nesting(*, may_nest: bool) -> str:
    if may_nest:
        return "- supervisor: a session of its own for a part that itself needs several agents; use it rarely."
    return "Nested sessions are not available."


def _work_messages(task: WorkTask, catalog: Catalog | None) -> tuple[Message, ...]:
    parts = [
        f"Instruction:\n{defused(task.instruction)}",
        f"It is part of this request, for context only:\n{data(task.goal)}",
        *_documents(catalog),
    ]
    parts += [_input_text(given) for given in task.inputs]
    written = [Message(role="user", text="\n\n".join(parts))]
    for past in task.rounds:
        written += _round_messages(past)
    if task.must_answer and task.rounds:
        written.append(Message(role="user", text="No tool can be used any more. Answer now from what you have."))
    return tuple(written)


def _round_messages(past: Round) -> list[Message]:
    if past.correction:
        return [
            Message(role="assistant", text="(a reply that could not be used)"),
            Message(
                role="user",
                text=f"Your reply could not be used:\n{data(past.correction)}\nAnswer again, mending that.",
            ),
        ]
    results = tuple(ToolText(call_id=result.call_id, text=tool_text(result), ok=result.ok) for result in past.results)
    return [
        Message(role="assistant", calls=past.calls, provider_items=past.provider_items),
        Message(role="tools", results=results),
    ]


def _synthesis_text(task: SynthesisTask) -> str:
    parts = [
        f"Request:\n{data(task.goal)}",
        f"How to write: {defused(task.final_instruction) or 'clearly and briefly'}",
    ]
    if task.is_part:
        parts.append("These are only some of the outcomes. Others summarise the rest; someone else writes the report.")
    elif task.strategy == "select":
        parts.append("The outcomes are candidates for the same answer: choose the best and say why.")
    if task.stopped_because:
        parts.append(f"The work was stopped before its end: {task.stopped_because}. Say what is missing.")
    parts += [_input_text(given) for given in task.outcomes]
    if task.contradictions:
        known = "\n".join(
            f"- {found.about}\n{_listed(found.positions)}\n= {found.resolution or 'left open: state both sides'}"
            for found in task.contradictions
        )
        parts.append(f"Known contradictions; follow what was decided, and do not list them again:\n{data(known)}")
    parts.append(_sources_text(task.sources))
    if task.problems:
        parts.append(f"A critic found in your first version:\n{data(_listed(task.problems))}\nMake none of it again.")
    return "\n\n".join(parts)


def _refine_text(task: RefineTask, catalog: Catalog | None) -> str:
    outcome = task.outcome
    said = [outcome.content, *(f"Gap: {gap}" for gap in outcome.gaps)]
    parts = [
        f"Request, for context only:\n{data(task.goal)}",
        *_documents(catalog),
        f"Instruction for the agent {task.agent}:\n{data(task.instruction)}",
        f"It ended badly ({_ending(outcome)}) in attempt {task.attempts}:\n{data(task.problem)}",
    ]
    if any(said):
        parts.append(f"The agent handed back, with confidence {outcome.confidence}:\n" + data("\n".join(said)))
    return "\n\n".join(parts)


def _review_text(task: ReviewTask, catalog: Catalog | None) -> str:
    parts = [
        f"Request:\n{data(task.goal)}",
        *_documents(catalog),
        *(_ended_text(given) for given in task.outcomes),
        f"Add at most {task.max_subtasks} subtasks. {_nesting(may_nest=task.may_nest)}"
        if task.max_subtasks
        else "No subtask can be added any more.",
    ]
    return "\n\n".join(parts)


def _judge_text(task: JudgeTask) -> str:
    candidates = [
        f"Candidate {given.id} ({given.agent}), confidence {given.outcome.confidence}:\n"
        f"{data(_evidence(given.outcome))}"
        for given in task.candidates
    ]
    return "\n\n".join([f"Question:\n{data(task.question)}", *candidates])


def _critique_text(task: CritiqueTask) -> str:
    draft = task.draft
    report = [draft.answer, f"Gaps:\n{_listed(draft.gaps)}", "Contradictions:"]
    report += [f"- {found.about}\n{_listed(found.positions)}\n= {found.resolution}" for found in draft.contradictions]
    parts = [
        f"Request:\n{data(task.goal)}",
        f"Report, confidence {draft.confidence}:\n" + data("\n".join(report)),
    ]
    for given in task.outcomes:
        lost = isinstance(given.outcome, Failure | Escalation)
        parts.append(
            _ended_text(given) if lost else f"{_heading(given)}:\n{data(f'{_asked(given)}{_evidence(given.outcome)}')}"
        )
    parts.append(_sources_text(task.sources))
    return "\n\n".join(parts)


def _compress_text(task: CompressTask) -> str:
    return "\n\n".join(
        [
            f"Instruction that the text answers:\n{data(task.instruction)}",
            f"Text:\n{data(task.content)}",
            f"Shorten it to at most {task.most_words} words.",
        ]
    )


def _ended_text(given: InputOutcome) -> str:
    """Write an outcome for someone who decides what is still to be done."""
    outcome = given.outcome
    if isinstance(outcome, Failure | Escalation):
        return f"{_heading(given)}, which came to nothing ({outcome.reason}):\n{data(_asked(given) + outcome.message)}"
    return _input_text(given)


def _ending(outcome: Outcome) -> str:
    """Name how an attempt ended, from the fixed vocabulary."""
    return f"{outcome.kind}: {outcome.reason}" if isinstance(outcome, Failure | Escalation) else outcome.kind


def _evidence(outcome: Outcome) -> str:
    """Write all that an outcome says and rests on, the words of its sources included."""
    parts = [outcome.content, _findings(outcome)]
    parts += [f"[{source.ref}] {source.title}\n{source.quote}" for source in outcome.sources]
    return "\n\n".join(parts)


def _findings(outcome: Outcome) -> str:
    findings = "\n".join(
        f"- {finding.claim} [{', '.join(finding.sources) or 'no source'}] (confidence {finding.confidence})"
        for finding in outcome.findings
    )
    gaps = "".join(f"\nGap: {gap}" for gap in outcome.gaps)
    issues = "".join(
        f"\nIssue ({issue.severity}, confidence {issue.confidence}) at {issue.location}: {issue.message}"
        + (f" Suggestion: {issue.suggestion}" if issue.suggestion else "")
        for issue in outcome.issues
    )
    return f"Findings:\n{findings}{gaps}{issues}"


def _sources_text(refs: Sequence[str]) -> str:
    numbered = "\n".join(f"[S{number}] {ref}" for number, ref in enumerate(refs, start=1))
    return f"Sources:\n{data(numbered or '(none)')}"


def _listed(items: Sequence[str]) -> str:
    return "\n".join(f"- {item}" for item in items) or "(none)"


def _input_text(given: InputOutcome) -> str:
    outcome = given.outcome
    if isinstance(outcome, Failure | Escalation):
        lost = f"It came to nothing ({outcome.reason}): work without it and name the gap."
        return f"{_heading(given)}:\n{data(_asked(given).rstrip())}\n{lost}"
    return f"{_heading(given)}, confidence {outcome.confidence}:\n" + data(
        f"{_asked(given)}{outcome.content}\n\n{_findings(outcome)}"
    )


def _heading(given: InputOutcome) -> str:
    return f"Outcome of {given.id} ({given.agent})"


def _asked(given: InputOutcome) -> str:
    """Say what an outcome answers. It was written by a model, and is an instruction to nobody but that agent."""
    return f"Asked: {given.instruction}\n\n"


def tool_text(result: ToolResult) -> str:
    """Write a tool's result as text: whose it is, its output as JSON, then each source with its words."""
    parts = [to_json(result.output, inf_nan_mode="null").decode()]
    parts += [f"[{source.ref}] {source.title}\n{source.quote}" for source in result.sources]
    # A tool that there is not is named as the model named it.
    named = result.tool if _TOOL_NAME.fullmatch(result.tool) else "that tool"
    return f"From {named}:\n" + data("\n\n".join(parts))


def _documents(catalog: Catalog | None) -> tuple[str, ...]:
    return () if catalog is None else (f"Documents of the user:\n{data(catalog_text(catalog))}",)


def catalog_text(catalog: Catalog) -> str:
    """Write what the documents are, as much as fits."""
    if not catalog.documents:
        return "(none)"
    lines = [
        f"- {entry.name} ({entry.kind}, {entry.units} {_UNITS.get(entry.kind, 'lines')})"
        + (f" — cannot be read: {entry.problem}" if entry.problem else "")
        + (f" — {' / '.join(entry.headings[:8])}" if entry.headings else "")
        for entry in catalog.documents
    ]
    lines += [
        f'- table "{table.name}" ({table.document}, {table.rows} rows): '
        + ", ".join(
            f"{column.name} {column.type}" + (f" e.g. {', '.join(column.examples[:4])}" if column.examples else "")
            for column in table.columns
        )
        for table in catalog.tables
    ]
    return _fitting(lines)


_UNITS: Final = {"pdf": "pages", "xlsx": "rows", "ods": "rows", "csv": "rows"}


def _fitting(lines: Sequence[str]) -> str:
    kept: list[str] = []
    length = 0
    for line in lines:
        length += len(line.encode()) + 1
        if length > CATALOG_CHARACTERS:
            kept.append(f"(and {len(lines) - len(kept)} more; search finds them too)")
            break
        kept.append(line)
    return "\n".join(kept)
