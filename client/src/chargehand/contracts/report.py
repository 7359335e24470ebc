"""The report of a session, its status while it runs, and the verification of a report."""

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from html import escape
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from chargehand.contracts.authority import Capability
from chargehand.contracts.base import Contract, Dollars, Form, TypedByPeople, left_out
from chargehand.contracts.durations import Duration
from chargehand.contracts.limits import Tier
from chargehand.contracts.outcome import (
    Artifact,
    Confidence,
    FailureReason,
    Issue,
    Source,
    SpendLine,
    Usage,
    Verification,
)
from chargehand.contracts.plan import Plan
from chargehand.contracts.request import SessionIdentifier
from chargehand.contracts.waits import DecisionRecord, PendingCall, Question, Wait
from chargehand.state_words import EndReason, SessionState, Standing, StopReason, SubtaskState, standing

__all__ = [
    "AgentsAtWork",
    "Claim",
    "ClaimCheck",
    "Contradiction",
    "EarlierSession",
    "EditRecord",
    "FailureCause",
    "Grade",
    "LimitUse",
    "QuoteCheck",
    "Report",
    "Route",
    "Status",
    "SubtaskRecord",
    "Timing",
    "VerificationReport",
    "VerificationRequest",
]


class Contradiction(Contract):
    """Two outcomes that cannot both be right."""

    about: str
    """The fact in question."""
    positions: tuple[str, ...]
    """Each statement with its source."""
    resolution: str = ""
    """Which one the report follows and why; empty if it is unresolved."""
    confidence: Confidence = 0
    """How sure a judge is of the resolution: 0 (no judge was asked, or it could not decide) to 100 (certain)."""


class Route(Contract):
    """Why an agent got a request or subtask without the plan."""

    by: Literal["rule", "model", "fallback", "load"]
    """A rule of the crew, a model, the crew's fallback route, or a task queue's load."""
    agent: str
    """The agent that was chosen."""
    reason: str
    """Why it was chosen, or why the route was not used."""
    used: bool = True
    """False if the route was dropped."""
    subtask: str = ""
    """The subtask concerned, for `load`; empty if it is the request."""


class SubtaskRecord(Contract):
    """The state of one subtask."""

    id: str
    """The subtask's id in the plan."""
    agent: str
    """The agent that does it, or `supervisor` for a nested session."""
    instruction: str
    """The instruction of the plan."""
    depends_on: tuple[str, ...] = ()
    """Subtasks whose outcomes are its inputs."""
    for_each: str | None = left_out(None)
    """For a template not yet replaced with one subtask per item: the subtask whose outcome lists the items."""
    state: SubtaskState = "waiting"
    """`waiting`, `running`, the kind of its outcome, or `skipped`."""
    reason: FailureReason | str = ""
    """Why it did not succeed, or what a person has to do before it continues."""
    attempts: int = 0
    """How many times it was started."""
    workflow_id: str | None = None
    """Id of the child workflow of the latest attempt."""
    started_at: datetime | None = None
    """When it was first started, by the session's clock."""
    ended_at: datetime | None = None
    """When its outcome arrived."""
    confidence: Confidence = 0
    """The outcome's confidence: 0 (a guess) to 100 (certain)."""
    usage: Usage = Usage()
    """The cost of all attempts."""
    wasted: Usage = left_out(Usage())
    """Part of `usage` for attempts whose outcome was not used; absent if none."""


def ended_records(records: Iterable[SubtaskRecord]) -> tuple[SubtaskRecord, ...]:
    """Mark the waiting subtasks of an ended session as not started."""
    over = {"state": "skipped", "reason": "not started"}
    return tuple(each.replace(**over) if each.state == "waiting" else each for each in records)


def awaiting_records(
    records: Iterable[SubtaskRecord], waits: Iterable[PendingCall | Question], above: str = ""
) -> tuple[SubtaskRecord, ...]:
    """Set the reason of running subtasks in which a person must decide something; `above` is their plan's path."""
    awaited = {
        each.subtask.removeprefix(above).partition("/")[0]: each for each in waits if each.subtask.startswith(above)
    }
    return tuple(
        each.replace(
            reason=standing(f"awaiting_{'call_approval' if isinstance(wait, PendingCall) else 'answer'}").words
        )
        if (wait := awaited.get(each.id)) and each.state == "running"
        else each
        for each in records
    )


class EditRecord(Contract):
    """A change by a person to the plan while it was being carried out."""

    edit: Literal["add", "drop", "reword", "reroute", "reorder"]
    """What was changed."""
    subtask: str
    """The subtask's id."""
    at: datetime
    """When, by the session's clock."""
    before: str = ""
    """The previous state, up to 200 characters: agent and instruction of a dropped subtask, or the earlier instruction,
    agent or inputs."""


class AgentsAtWork(Contract):
    """A change in the number of working agents."""

    at: datetime
    """By the session's clock."""
    change: int
    """1 if an agent began, -1 if one ended."""


class Timing(Contract):
    """The duration of a session, in workflow time."""

    started_at: datetime
    """When the session's first step began."""
    ended_at: datetime
    """When the report was written."""
    wall: Duration
    """From start to report."""
    subtasks_one_after_another: Duration
    """The sum of the subtasks' durations."""
    critical_path: Duration
    """The duration of the longest chain of dependent subtasks; no schedule is faster."""
    speed_up: Annotated[float, Field(ge=0)]
    """Duration of the same steps in sequence, divided by the duration of the session."""
    at_work: tuple[AgentsAtWork, ...] = left_out(())
    """When agents of a nested session started and stopped working, for the session above it; otherwise empty."""


class LimitUse(Contract):
    """How much of one limit the session used."""

    limit: str
    """Name of the limit, with its unit where needed."""
    used: float
    """The amount used, in the unit of the limit."""
    allowed: float
    """The amount allowed, in the same unit."""


class Claim(Contract):
    """One statement of a report, and how well it is verified."""

    text: str
    """The statement, without its citations."""
    verification: Verification = "unsupported"
    """How well it is verified."""
    sources: tuple[str, ...] = ()
    """`ref`s of the sources cited for it, each returned by a tool of this session or of one it follows."""
    quote: str = ""
    """The words of these sources that support it, as quoted by an agent or the report and found by code."""
    problem: str = ""
    """What contradicts it or is missing from its source, for the reader; empty if nothing was found."""


class Grade(Contract):
    """How the report meets one criterion of the request, as judged by a separate model."""

    criterion: str
    """The criterion, as the request states it."""
    met: bool
    """Whether the report meets all of it."""
    reason: str = ""
    """The reason for the grade, or why it was not graded."""


class CrewVersion(Contract):
    """The crew that a session started with and kept to its end, and its models."""

    name: str
    """The crew's name."""
    version: str | None = None
    """The version given by the crew's author."""
    digest: str
    """The beginning of a digest of its prompts, tool descriptions and models."""
    models: dict[Tier, str] = {}
    """The model name of each tier."""


class EarlierSession(Contract):
    """A summary of an earlier session of the same thread."""

    session: str
    """Its id."""
    goal: str
    """Its goal, 300 characters at most."""
    answer: str
    """The beginning of its answer, 500 characters at most."""


class Report(Contract):
    """The result of a session."""

    session: str
    """The session's id."""
    follows: str = ""
    """Id of the session that it follows; empty if it follows none."""
    thread: tuple[EarlierSession, ...] = ()
    """The sessions that it follows, oldest first: the first one and the latest 19."""
    goal: str
    """The goal of the request."""
    answer: str
    """Markdown. `[S1]` refers to the first of `sources`."""
    language: Annotated[str, Form(r"^([a-z]{2,3})?$", "must be the code of a language, such as en")] = left_out("")
    """The code of the answer's language, such as `en`; empty if it was not detected."""
    output: JsonValue = None
    """Data valid against the request's `output_schema`; null if none was requested or none is valid."""
    output_problems: tuple[str, ...] = ()
    """Why there is no valid `output`; empty if there is one or none was requested."""
    notice: str = ""
    """A warning to show above the answer, such as that no model could write the report; empty if none."""
    disclaimer: str = ""
    """The crew's statement of the limits of such work, to show below the answer; empty if none."""
    verification: Verification | None = None
    """The weakest verification among `claims`. Null if the answer states nothing that could
    be verified, such as a refusal, or if its writer has checked it already, as in a code review."""
    claims: tuple[Claim, ...] = ()
    """The statements of the answer with their evidence, and the values of `output` with a figure that is neither in
    the report nor in a source, such as `output.cost: 900`."""
    reads: tuple[Capability, ...] = ()
    """Kinds of text that it is based on: `reads_private`, the user's own; `reads_untrusted`, written by strangers."""
    sources: tuple[Source, ...] = ()
    """Sources read by agents of this session or of those that it follows, in the order of their numbers."""
    gaps: tuple[str, ...] = ()
    """What was asked but not answered, including subtasks without a result."""
    contradictions: tuple[Contradiction, ...] = ()
    """Where agents disagree on a fact."""
    grades: tuple[Grade, ...] = ()
    """A grade for each of the request's `criteria`; empty if there are none or they were not graded, which `gaps`
    then says."""
    confidence: Confidence = 0
    """The supervisor's confidence in the answer, limited by its `claims`: 0 (a guess) to 100 (certain)."""
    stop_reason: StopReason
    """Why the session stopped: `completed` means that the report answers everything, without `gaps`."""
    crew: CrewVersion | None = None
    """The crew as of the start of the session."""
    brain: str = ""
    """The models used; states if no language model was used."""
    usage: Usage = Usage()
    """The cost of the session, including nested sessions."""
    spend: tuple[SpendLine, ...] = ()
    """Usage by agent, model and purpose. The lines add up to `usage`."""
    reserved_usd: Dollars = Decimal(0)
    """US dollars still reserved when the report was written: 0 unless something is wrong."""
    wasted: Usage = Usage()
    """Part of `usage` without a result: unused attempts, rejected plans and lost calls."""
    limits: tuple[LimitUse, ...] = ()
    """How much of each limit was used."""
    timing: Timing
    """How long the session took, and the time gained by parallel work."""
    subtasks: tuple[SubtaskRecord, ...] = ()
    """How each subtask ended, in plan order."""
    routes: tuple[Route, ...] = left_out(())
    """How the request was routed to agents without a plan, dropped routes included."""
    edits: tuple[EditRecord, ...] = left_out(())
    """Changes by people to the running plan; what they dropped does not count as a gap."""
    decisions: tuple[DecisionRecord, ...] = left_out(())
    """How each wait for a person ended: who decided, when and how."""
    issues: tuple[Issue, ...] = ()
    """Defects that reviewing agents found, the most severe first."""
    artifacts: tuple[Artifact, ...] = ()
    """Files created by the agents' tools, such as charts."""

    @property
    def ending(self) -> Standing:
        """How the session ended, with the wording and tone used on every screen."""
        return standing("finished", self.stop_reason, self.verification)

    def _repr_html_(self) -> str:
        """Show in a notebook how it ended, the answer as text, and the sources."""
        ending = f"{self.ending.words} · confidence {self.confidence} of 100 · ${self.usage.cost_usd:.4f}"
        sources = "".join(f"<li>{escape(each.about or each.ref)}</li>" for each in self.sources)
        answer = f'<div style="white-space: pre-wrap">{escape(self.answer)}</div>'
        return f"<p><strong>{escape(self.goal[:200])}</strong><br>{ending}</p>{answer}<ol>{sources}</ol>"


class FailureCause(Contract):
    """Why a session failed, and what to do."""

    error_type: str
    """The error type, from a fixed vocabulary."""
    http_status: int | None = left_out(None)
    """HTTP status of the model provider, if it was the cause."""
    provider: str = left_out("")
    """The model provider, if one was called."""
    model: str = left_out("")
    """The model that was called."""
    cause: str
    """The cause in words, without user text."""
    remedy: str
    """What to do about it."""


class Status(Contract):
    """The state of a session."""

    session: str
    """The session's id."""
    goal: str
    """The goal of the request."""
    state: SessionState
    """The current step."""
    stop_reason: StopReason | EndReason | None = left_out(None)
    """Why it stopped, if it has a report or is a conversation."""
    verification: Verification | None = left_out(None)
    """How well the weakest claim of its report is verified, if it has one."""
    plan: Plan | None = None
    """The plan; absent until there is one."""
    subtasks: tuple[SubtaskRecord, ...] = ()
    """The state of each subtask, in the plan's order."""
    routes: tuple[Route, ...] = left_out(())
    """How the request got to its agents without a plan."""
    edits: tuple[EditRecord, ...] = left_out(())
    """What people changed in the plan while it was being carried out."""
    waits: tuple[Wait, ...] = left_out(())
    """Open waits for a person's decision."""
    decisions: tuple[DecisionRecord, ...] = left_out(())
    """How earlier waits ended."""
    questions: tuple[Question, ...] = ()
    """Open questions."""
    calls: tuple[PendingCall, ...] = ()
    """Tool calls awaiting a person's approval, including those of nested sessions."""
    failure: FailureCause | None = left_out(None)
    """Why it failed, if it has."""
    ignored_messages: int = 0
    """Number of ignored signals, which no workflow of this session can have sent."""
    unknown_signals: tuple[str, ...] = left_out(())
    """Names of ignored unknown signals; sessions are steered by updates."""
    turns: int = 0
    """LLM calls so far, including those of running subtasks except in the raw result of the query."""
    max_turns: int = 0
    """LLM calls allowed."""
    spent_usd: Dollars = Decimal(0)
    """US dollars spent so far, including running subtasks as for `turns`."""
    reserved_usd: Dollars = Decimal(0)
    """US dollars reserved for running calls and for the report."""
    budget_usd: Dollars = Decimal(0)
    """US dollars allowed."""
    started_at: datetime | None = None
    """When the session's first step began."""
    ended_at: datetime | None = left_out(None)
    """When it ended, if it has."""
    deadline_at: datetime | None = None
    """The latest time for the report to be written."""

    @property
    def standing(self) -> Standing:
        """The wording and tone of its state or its end."""
        return standing(self.state, self.stop_reason or "", self.verification)


class VerificationRequest(TypedByPeople):
    """Selects the report of a finished session, to be verified against the documents that it could read."""

    session: SessionIdentifier
    """Id of the session."""


class QuoteCheck(Contract):
    """The check of one quotation."""

    ref: str
    """The location that the report states, such as `handbook.md#L10-L14`."""
    stands: bool
    """Whether the words were found there."""
    problem: str = ""
    """Why the quotation is not correct, for the user; empty if it is."""


class ClaimCheck(Contract):
    """The check of one claim against the documents, read again."""

    claim: str
    """The claim."""
    verification: Verification
    """As in the report, but `unsupported` if the claim's quotation was not found again."""
    was_found: bool = False
    """Whether its quotation was found again; also false if it has none, or none from a document."""
    stands: bool = True
    """Whether it is still supported as stated."""
    problem: str = ""
    """Why its quotation does not support the claim, for the user."""


class VerificationReport(Contract):
    """The check of each quotation and claim of a report."""

    session: str
    """Id of the session."""
    quotations: tuple[QuoteCheck, ...] = ()
    """Quotations of documents, in the order of the report's sources, without web pages, queries and computations."""
    claims: tuple[ClaimCheck, ...] = ()
    """Claims in the order of the report."""

    @property
    def stands(self) -> bool:
        """Whether all quotations and claims were confirmed."""
        return all(each.stands for each in (*self.quotations, *self.claims))
