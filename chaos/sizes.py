"""The largest sessions that the ceilings allow, compared with the maximum size of a Temporal workflow."""

import re
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

from temporalio.api.workflowservice.v1 import ListWorkflowExecutionsRequest

from activities.contracts.rounds import MOST_CALLS
from activities.documents.artifacts import ArtifactStore
from activities.opening.activity import (
    _DOCUMENT_CHARACTERS,  # pyright: ignore[reportPrivateUsage]  # measured here
)
from activities.turn_kinds.work import FindingDraft
from chaos.harness import Harness, Outcome, open_harness
from chaos.result import Demand, Result, Scale
from chargehand.contracts import Report
from tests.scripted_provider import (
    ScriptedReply,
    ScriptedRequest,
    ToolUse,
    answer,
    calling,
    plan,
    report,
    subtask,
)
from worker.settings import Settings
from workflows.rules.evidence import CLAIM_CHARACTERS, FINDINGS, GAPS, MESSAGE_CHARACTERS, QUOTE_CHARACTERS

_MOST_EVENTS: Final = 51_200 // 4
_MOST_BYTES: Final = 50 * 1024 * 1024 // 4
"""A quarter of the size at which a workflow is terminated."""
_GOAL: Final = 20_000
_INSTRUCTION: Final = 4_000
_PLAN: Final = 180_000
"""Characters of all instructions of a plan: answers of more than 200,000 are not read."""
_DOCUMENTS: Final = 200
_CONTENT: Final = 8_000
_TITLE: Final = 200
_RESULTS: Final = 5
"""Results of one search: with this many sources of maximum length, its answer has its maximum length."""
_SOURCE: Final = re.compile(r"https://example\.org/[0-9a-z-]+")
_LEVEL: Final = re.compile(r"Level (\d) ")


@dataclass(frozen=True)
class _Shape:
    """A session of maximum size in one direction; every text has its maximum length."""

    name: str
    subtasks: int = 1
    rounds: int = 0
    """Number of rounds; in each, an agent uses the maximum number of tools at once."""
    below: int = 0
    """Depth of nested sessions, of which the last has the subtasks."""

    def __call__(self, request: ScriptedRequest) -> ScriptedReply:
        match request.answer:
            case "PlanAnswer":
                return self._plan(request)
            case "SynthesisAnswer":
                return report(_long("This is the answer.", _CONTENT))
            case _ if request.tools and request.rounds < self.rounds:
                asked = (f"{request.sequence}-{number}" for number in range(MOST_CALLS))
                return calling(*(ToolUse("search", {"query": query}) for query in asked))
            case _:
                return _longest_answer(request)

    def _plan(self, request: ScriptedRequest) -> ScriptedReply:
        level = max((int(each) + 1 for each in _LEVEL.findall(request.text)), default=0)
        if level < self.below:
            return plan(subtask("T1", "supervisor", _long(f"Level {level} of the matter.", _INSTRUCTION)))
        most = min(_INSTRUCTION, _PLAN // self.subtasks)
        agent = "researcher" if self.rounds else "writer"  # who has no tools, so one turn is enough
        parts = range(self.subtasks)
        return plan(*(subtask(f"T{part}", agent, _long(f"Part {part} of it.", most)) for part in parts))

    def is_whole(self, report: Report) -> bool:
        """Whether everything was done; every answer names gaps, so the report is partial."""
        states = [each.state for each in report.subtasks]
        done = states.count("success") + states.count("partial")
        return report.stop_reason == "partial" and done == (1 if self.below else self.subtasks)


def _longest_answer(request: ScriptedRequest) -> ScriptedReply:
    """Make the maximum number of claims, each with a different source, if there are any."""
    read = list(dict.fromkeys(_SOURCE.findall(request.text)))
    findings = [
        FindingDraft(
            claim=_long(f"Claim {number} is this.", CLAIM_CHARACTERS),
            source_refs=[read[number % len(read)]] if read else [],
            quote=_quote(read[number % len(read)]) if read else "",
            confidence=80,
        )
        for number in range(FINDINGS)
    ]
    gaps = [_long(f"Gap {number}.", MESSAGE_CHARACTERS) for number in range(GAPS)]
    return answer(_long("So it is.", _CONTENT), findings=findings, gaps=gaps)


def _long(text: str, characters: int) -> str:
    return (text + " And so on and so forth." * (characters // 20))[:characters].rstrip()


def _quote(source: str) -> str:
    return _long(f"It stands in {source} thus.", QUOTE_CHARACTERS)


def _results(query: str) -> list[dict[str, Any]]:
    places = (f"https://example.org/{query}-{number}" for number in range(_RESULTS))
    return [
        {"title": _long(f"Page {place}.", _TITLE), "url": place, "content": _quote(place), "score": 1}
        for place in places
    ]


_TURNS: Final[int] = Settings.model_fields["ceilings"].default.max_turns
"""The operator's ceiling if large payloads are not stored elsewhere; a plan and a report take two of them."""
_LIMITS: Final = {
    "max_turns": _TURNS,
    "max_rounds": 20,
    "max_parallel": 20,
    "budget_usd": 50,
    "deadline": 21_600,
    "subtask_deadline": 3_600,
}
_READERS: Final = (_TURNS - 2) // 3
"""A plan with more agents that have tools is rejected: each is planned with three turns."""
_SHAPES: Final = (
    _Shape(f"{_READERS} subtasks that read and answer", subtasks=_READERS, rounds=1),
    _Shape(f"{_TURNS - 2} subtasks that answer at once", subtasks=_TURNS - 2),
    _Shape("a subtask of 20 rounds", rounds=19),
    _Shape("5 sessions below one another", below=4, rounds=1),
)
_SHORT: Final = (_Shape("20 subtasks that read and answer", subtasks=20, rounds=1),)


async def largest(scale: Scale, random: Random, folder: Path) -> Result:  # noqa: ARG001  # nothing is random here
    """Run sessions that use up the ceilings, with texts of maximum length, and measure their histories."""
    shapes = _SHORT if scale == "short" else _SHAPES
    began = time.monotonic()
    outcomes: list[Outcome] = []
    figures: dict[str, str] = {}
    too_large: list[str] = []
    async with open_harness(folder) as harness:
        await harness.worker()
        harness.search.results_for = _results
        store = ArtifactStore(folder / "state" / "artifacts")
        name = "x" * (_DOCUMENT_CHARACTERS // _DOCUMENTS - 77)
        documents = [f"artifact:{store.put(f'Part {part}.'.encode())}/{name}.md" for part in range(_DOCUMENTS)]
        for number, shape in enumerate(shapes):
            harness.provider.respond = shape
            goal = _long("Look into all of it.", _GOAL)
            session = harness.session(
                f"largest-{number}", 900, goal=goal, documents=documents, limits=_LIMITS, review="never"
            )
            outcomes.append(await session)
            sizes = await _sizes(harness, f"largest-{number}")
            events, size = (max(each) for each in zip(*sizes, strict=True))
            figures[f"{shape.name} ({len(sizes)} workflows)"] = f"{events:,}, {size / 1e6:.2f}"
            if events > _MOST_EVENTS or size > _MOST_BYTES:
                too_large.append(f"{shape.name}: a workflow of {events:,} events and {size:,} bytes")
        result = harness.judge(
            "Largest sessions",
            f"no fault: up to {_TURNS} turns of the longest texts; most events and MB of a workflow "
            f"within a quarter of Temporal's limits ({_MOST_EVENTS:,} events, {_MOST_BYTES / 1e6:.1f} MB)",
            outcomes,
            began,
            Demand(faults=0, successes=len(shapes)),
            as_due=lambda report: shapes[int(report.session.rpartition("-")[2])].is_whole(report),
        )
    result.figures = figures
    result.problems += too_large
    return result


async def _sizes(harness: Harness, session: str) -> list[tuple[int, int]]:
    """Return the events and bytes of every workflow of a session."""
    request = ListWorkflowExecutionsRequest(namespace="default", query=f"WorkflowId STARTS_WITH '{session}'")
    listed = await harness.chargehand.client.workflow_service.list_workflow_executions(request)
    return [(each.history_length, each.history_size_bytes) for each in listed.executions]
