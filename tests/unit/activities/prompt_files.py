"""Writes every prompt as a model reads it: `python -m tests.unit.activities.prompt_files docs/prompts`."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from activities.contracts.cards import OfferedTool
from activities.contracts.rounds import InputOutcome, Round, ToolCall, ToolResult
from activities.crews.files import load_crews
from activities.documents.catalog import Catalog, Column, DocumentEntry, Table
from activities.turn_kinds.judgements import (
    ClaimToJudge,
    CritiqueTask,
    GradeTask,
    JudgeCallTask,
    JudgeClaimsTask,
    JudgeTask,
)
from activities.turn_kinds.plan import DesignTask, ExpandTask, PlanTask, RefineTask, RejectedPlan, ReviewTask, RouteTask
from activities.turn_kinds.protocol import ContradictionDraft, Message
from activities.turn_kinds.registry import Task
from activities.turn_kinds.synthesis import (
    CompressTask,
    OutlineTask,
    OutputTask,
    RejectedOutput,
    Section,
    SynthesisAnswer,
    SynthesisTask,
)
from activities.turn_kinds.work import CompactTask, ConverseTask, WorkTask
from chargehand.contracts import Capability, Contradiction, Escalation, Finding, Partial, Source
from tests.environment import TOOLS
from tests.scripted_model import ALLOWANCE, TODAY
from workflows.rules.inputs import Numbering, cited_sources, numbered_outcomes

CREWS: Final = Path(__file__).resolve().parents[3] / "crews"
WITHOUT_RIGHTS: Final[Mapping[str, frozenset[Capability]]] = dict.fromkeys(TOOLS, frozenset())
"""Tools that give an agent no rights."""
_GOAL: Final = "How long is the notice period of our lease, and what did the repairs cost?"
_CATALOG: Final = Catalog(
    documents=(DocumentEntry(name="lease.md", kind="md", units=40, headings=("Notice", "Rent")),),
    tables=(
        Table(
            name="repairs",
            document="repairs.xlsx",
            rows=12,
            columns=(Column(name="cost", type="DOUBLE", examples=("120.50",)),),
        ),
    ),
)
_QUOTE: Final = "Either party may give three months' notice in writing."
_LEASE: Final = Source(ref="lease.md#L12-L14", title="Lease, Notice", quote=_QUOTE)
_FOUND: Final = InputOutcome(
    id="T1",
    agent="reader",
    instruction="Find the notice period in lease.md and quote the clause.",
    outcome=Partial(
        content="The notice period is three months [lease.md#L12-L14].",
        findings=(Finding(claim="Notice is three months.", sources=(_LEASE.ref,), confidence=90),),
        sources=(_LEASE,),
        confidence=80,
        gaps=("from which date it runs",),
    ),
)
_LOST: Final = InputOutcome(
    id="T2",
    agent="analyst",
    instruction="Sum the costs of the table repairs in 2025.",
    outcome=Escalation(reason="confidence_too_low", content="Perhaps 900.", confidence=20, message="No column fits."),
)
_NUMBERING: Final = Numbering([_LEASE], {_LEASE.ref: [_QUOTE]})
_WRITTEN: Final[dict[str, Any]] = {
    "outcomes": numbered_outcomes((_FOUND, _LOST), _NUMBERING),
    "sources": cited_sources((_FOUND, _LOST), _NUMBERING),
}
"""The material of a report, with its citations numbered."""
_CALL: Final = ToolCall(id="1", tool="search_documents", arguments={"query": "notice period"})
_ROUND: Final = Round(
    turns_left=7,
    calls=(_CALL,),
    results=(ToolResult(call_id="1", tool="search_documents", output={"found": 1}, sources=(_LEASE,)),),
)
_REPORT: Final = SynthesisAnswer(
    answer="Notice is three months [S1].",
    gaps=["the cost of the repairs"],
    contradictions=[ContradictionDraft(about="notice", positions=["T1: three months", "T3: six"], resolution="")],
    confidence=70,
)

_OF_SUPERVISORS: Final[dict[str, Task]] = {
    "plan": PlanTask(
        goal=_GOAL,
        max_subtasks=5,
        allowance=ALLOWANCE,
        may_nest=True,
        rejected=(RejectedPlan(plan='{"subtasks": []}', errors=("subtasks: there are none",)),),
    ),
    "expand": ExpandTask(
        goal=_GOAL, agent="reader", template="Find the notice period of the lease.", items=_FOUND, max_subtasks=5
    ),
    "refine": RefineTask(
        goal=_GOAL,
        agent="analyst",
        instruction=_LOST.instruction,
        problem="No column fits.",
        outcome=_LOST.outcome,
        attempts=2,
    ),
    "compress": CompressTask(instruction=_FOUND.instruction, content="A long answer.", most_words=600),
    "review": ReviewTask(goal=_GOAL, outcomes=(_FOUND, _LOST), max_subtasks=2, may_nest=False),
    "judge_claims": JudgeClaimsTask(
        claims=(
            ClaimToJudge(text="Notice is three months.", evidence="Notice is given three months before the end."),
            ClaimToJudge(text="The port lost 12 hours.", evidence="SELECT hours\nport | hours\nBremen | 12"),
        )
    ),
    "judge_call": JudgeCallTask(
        goal=_GOAL,
        said=("I paid 40 twice, for order 7.", "Pay it back to me, please."),
        tool="refund",
        arguments={"order": 7, "amount": 40, "to": "ann@example.com"},
    ),
    "judge": JudgeTask(question="How long is the notice period?", candidates=(_FOUND, _LOST)),
    "synthesis": SynthesisTask(
        goal=_GOAL,
        final_instruction="One page, for the tenant.",
        **_WRITTEN,
        stopped_because="deadline",
        contradictions=(Contradiction(about="notice", positions=("three months", "six months")),),
        problems=("T2 is not named",),
        first_version="Notice is three months [S1].",
    ),
    "section": SynthesisTask(
        goal=_GOAL,
        length_words=900,
        **_WRITTEN,
        section=Section(heading="Notice", brief="Its length, and from when on it runs.", outline=("Notice", "Repairs")),
        may_reopen=True,
    ),
    "grade": GradeTask(
        goal=_GOAL,
        criteria=("Names the clause that the period stands in.", "Says what the repairs cost in 2025."),
        answer=_REPORT.answer,
        gaps=tuple(_REPORT.gaps),
        sources=(_LEASE,),
    ),
    "design": DesignTask(
        goal=_GOAL,
        tools=(OfferedTool(name="query_data", description="Ask the user's tables."),),
        most=3,
        problems=("agents.0.tools: teleport cannot be given; choose from query_data",),
    ),
    "route": RouteTask(goal=_GOAL),
    "critique": CritiqueTask(goal=_GOAL, draft=_REPORT, **_WRITTEN),
    "outline": OutlineTask(goal=_GOAL, length_words=3_000, most_sections=3, **_WRITTEN),
    "output": OutputTask(
        goal=_GOAL,
        data_schema={
            "type": "object",
            "properties": {"months": {"type": "integer", "minimum": 0}, "party": {"type": "string"}},
            "required": ["months"],
        },
        answer=_REPORT.answer,
        gaps=tuple(_REPORT.gaps),
        outcomes=(_FOUND, _LOST),
        rejected=(RejectedOutput(output='{"months": "3"}', errors="data.months: '3' is not of type 'integer'"),),
    ),
}
TASKS: Final[Mapping[str, tuple[str, Task]]] = {
    **{name: ("supervisor", task) for name, task in _OF_SUPERVISORS.items()},
    "work": (
        "reader",
        WorkTask(
            goal=_GOAL,
            instruction="Find from which date the notice period runs.",
            inputs=(_FOUND, _LOST),
            rounds=(_ROUND, Round(correction="the reply was empty")),
            must_answer=True,
        ),
    ),
    "review work": ("reviewer", WorkTask(goal=_GOAL, instruction="Check what was found.", inputs=(_FOUND,))),
    "compact": (
        "reader",
        CompactTask(goal=_GOAL, instruction="Find the notice period.", rounds=(_ROUND,), must_answer=True),
    ),
    "converse": (
        "reader",
        ConverseTask(
            goal="Help the tenant of 4 Quay Street.",
            instruction="How long is our notice period?",
            summary="user: Hello.\n\nanalyst: Hello. What do you want to know?",
            rounds=(_ROUND, Round(answer='{"content": "Three months."}', said="And from which date does it run?")),
        ),
    ),
}
"""A task of each kind, with every part that it can have, and the agent that gets it."""


def prompt_files() -> dict[str, str]:
    crew = load_crews([CREWS], WITHOUT_RIGHTS)["research"]
    return {
        f"{name.replace(' ', '-')}.md": "\n".join(
            [f"# {name.capitalize()}: what the {agent} is sent", "", "## System", "", task.system_text(crew, agent), ""]
            + [line for message in task.messages(_CATALOG, TODAY) for line in _message_lines(message)]
        )
        for name, (agent, task) in TASKS.items()
    }


def _message_lines(message: Message) -> Iterator[str]:
    yield from (f"## {message.role.capitalize()}", "")
    yield from (f"Calls `{call.tool}` with `{call.model_dump_json(include={'arguments'})}`\n" for call in message.calls)
    yield from (f"{result.text}\n" for result in message.results)
    if message.text:
        yield from (message.text, "")


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in prompt_files().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
