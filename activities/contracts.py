"""What workflows and activities exchange. Pure values; imported by both sides."""

from typing import Annotated, Final, Literal, get_args

from pydantic import Field, JsonValue

from chargehand.contracts import (
    Artifact,
    Capability,
    Contract,
    Contradiction,
    Dollars,
    Limits,
    Outcome,
    SessionRequest,
    Severity,
    Source,
    Strategy,
    Tier,
    Usage,
    left_out,
)

# --- opening a session -------------------------------------------------------------------------------------------


class PriceStep(Contract):
    """What tokens cost once a prompt is longer than `above_input_tokens`."""

    above_input_tokens: int = 0
    input_usd_per_million: Dollars
    """The dearest way in which an input token can be charged, cache writes included."""
    output_usd_per_million: Dollars


class ModelCard(Contract):
    """A model as the ledger sees it."""

    provider: str
    name: str
    prices: tuple[PriceStep, ...]
    """Ascending by `above_input_tokens`, the first at 0."""


class AgentCard(Contract):
    """An agent as the supervisor sees it."""

    name: str
    description: str
    tools: tuple[str, ...] = ()
    tier: Tier
    fallback: str | None = None
    capabilities: tuple[Capability, ...] = left_out(())
    """What its tools, as they are set up here, let it do."""
    prompt_bytes: int
    """UTF-8 bytes of everything in the agent's prompt that does not depend on the session."""


class CrewCard(Contract):
    """A crew as the supervisor sees it."""

    name: str
    tier: Tier
    agents: tuple[AgentCard, ...]
    prompt_bytes: int
    """UTF-8 bytes of the supervisor's own fixed prompts, the longest of them."""


class SessionFacts(Contract):
    """What the world says about a request, read once at its start."""

    crew: CrewCard
    models: dict[Tier, ModelCard]
    ceilings: Limits
    """The most that the operator allows any session."""
    turns_queue: str | None = left_out(None)
    """Task queue of model turns, if they have one of their own, whose rate is limited; None for the session's."""


class OpenSessionRequest(Contract):
    session: str
    request: SessionRequest


# --- what was read ---------------------------------------------------------------------------------------------------

PASSAGE_GAP: Final = "\n[…]\n"
"""Stands between passages of one source that do not follow each other."""


# --- a model turn ------------------------------------------------------------------------------------------------


class ToolCall(Contract):
    """A tool that the model wants used."""

    id: str
    tool: str
    arguments: dict[str, JsonValue] = {}
    malformed: str = ""
    """Why the model's arguments could not be read; the tool is then not used and the model is told."""


class ToolResult(Contract):
    """What a tool gave back. It is data, never instruction."""

    call_id: str
    tool: str
    ok: bool = True
    output: dict[str, JsonValue] = {}
    """The tool's answer without the texts of `sources`; `error` in it says what went wrong if `ok` is false."""
    sources: tuple[Source, ...] = ()
    """What was read, with its words in `quote`."""
    artifacts: tuple[Artifact, ...] = left_out(())
    """Files that the tool made; the model is told their names, the user gets them with the report."""


class Round(Contract):
    """One exchange within a subtask: what the model asked for and what the tools answered."""

    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    provider_items: tuple[JsonValue, ...] = ()
    """The provider's own form of the model's reply, given back to it verbatim in the next turn."""
    correction: str = ""
    """What was wrong with a reply that could not be used; shown to the model instead of tool results."""


class InputOutcome(Contract):
    """The outcome of a subtask, as others are given it."""

    id: str
    agent: str
    instruction: str
    outcome: Outcome


class RejectedPlan(Contract):
    """A plan that did not pass its check."""

    plan: str
    """The plan as JSON, as the model wrote it."""
    errors: tuple[str, ...]


class PlanTask(Contract):
    """Write a plan."""

    kind: Literal["plan"] = "plan"
    goal: str
    max_subtasks: int
    may_nest: bool
    """Whether a subtask may be a session of its own."""
    rejected: tuple[RejectedPlan, ...] = ()
    """Earlier attempts and what was wrong with them."""


class WorkTask(Contract):
    """Carry out one subtask, a round at a time."""

    kind: Literal["work"] = "work"
    goal: str
    """The session's goal, for context only."""
    instruction: str
    inputs: tuple[InputOutcome, ...] = ()
    """Outcomes of the subtasks this one depends on; failures among them are gaps to be stated."""
    rounds: tuple[Round, ...] = ()
    """The conversation so far, or what is new in it since `earlier`."""
    earlier: str = left_out("")
    """Digest of the conversation before, as an earlier turn kept it; the other fields but `must_answer` are then there.
    """
    must_answer: bool = False
    """No tools any more: answer from what is there."""


class SynthesisTask(Contract):
    """Write the report."""

    kind: Literal["synthesise"] = "synthesise"
    goal: str
    final_instruction: str = ""
    strategy: Strategy = "merge"
    outcomes: tuple[InputOutcome, ...]
    """Every subtask of the plan, whatever became of it."""
    sources: tuple[str, ...] = ()
    """`ref`s of all sources in citation order: the first is `[S1]`."""
    stopped_because: str = ""
    """Why the plan was not carried out to its end, if it was not."""
    contradictions: tuple[Contradiction, ...] = left_out(())
    """Where outcomes are known to disagree, and what was decided."""
    is_part: bool = left_out(False)
    """Whether these are only some of the outcomes, to be summarised for whoever writes the report."""
    problems: tuple[str, ...] = ()
    """What a critic found wrong with the first version; the report is then written anew."""


class SubtaskDraft(Contract):
    """A subtask as the model writes it."""

    id: str
    agent: str
    instruction: str
    depends_on: list[str]
    required: list[str]


class PlanDraft(Contract):
    """A plan as the model writes it, not yet checked."""

    subtasks: list[SubtaskDraft]
    strategy: Annotated[str, Field(json_schema_extra={"enum": list(get_args(Strategy))})]
    final_instruction: str


class FindingDraft(Contract):
    """A claim as the model writes it, not yet checked."""

    claim: str
    source_refs: list[str]
    quote: str
    """Words copied from the first source; empty if there are none."""
    confidence: int


class AgentAnswer(Contract):
    """An agent's own account of its subtask, not yet checked."""

    status: Literal[
        "success", "partial", "no_answer", "ambiguous_input", "out_of_scope", "confidence_too_low", "too_big"
    ]
    content: str
    findings: list[FindingDraft]
    confidence: int
    gaps: list[str]
    message: str
    """Why, for anything but success."""


class IssueDraft(Contract):
    """Something wrong, as a reviewer writes it, not yet checked."""

    severity: Severity
    location: str
    message: str
    suggestion: str
    confidence: int


class ReviewerAnswer(AgentAnswer):
    """A reviewer's account of its subtask: an agent's, and what it found wrong."""

    issues: list[IssueDraft]


class ContradictionDraft(Contract):
    about: str
    positions: list[str]
    resolution: str


class ReportDraft(Contract):
    """A report as the model writes it, not yet checked."""

    answer: str
    gaps: list[str]
    contradictions: list[ContradictionDraft]
    confidence: int


class RefineTask(Contract):
    """Write a better instruction for a subtask that ended badly."""

    kind: Literal["refine"] = "refine"
    goal: str
    """The session's goal, for context only."""
    agent: str
    instruction: str
    """The instruction of the attempt that ended badly."""
    problem: str
    """How it ended badly, in words."""
    outcome: Outcome
    attempts: int
    """Attempts that have ended, this one included."""


class RefineDraft(Contract):
    """A better instruction as the model writes it, not yet checked."""

    worthwhile: bool
    """Whether any other instruction could help."""
    instruction: str
    """The new instruction; empty if none could help."""
    reason: str


class ReviewTask(Contract):
    """Judge whether the outcomes meet the goal, and what is missing."""

    kind: Literal["review"] = "review"
    goal: str
    outcomes: tuple[InputOutcome, ...]
    """Every subtask of the plan, whatever became of it."""
    max_subtasks: int
    """How many subtasks may be added."""
    may_nest: bool
    """Whether an added subtask may be a session of its own."""


class ReviewDraft(Contract):
    """A judgement on all outcomes together as the model writes it, not yet checked."""

    enough: bool
    missing: list[str]
    contradictions: list[ContradictionDraft]
    subtasks: list[SubtaskDraft]
    """What to add to the plan. Ids are new; `depends_on` may name subtasks that have ended."""


class JudgeTask(Contract):
    """Decide which of several answers to one question is right."""

    kind: Literal["judge"] = "judge"
    question: str
    candidates: tuple[InputOutcome, ...]
    """Each with an `id` of its own."""


class JudgeDraft(Contract):
    """A decision between candidates as the model writes it, not yet checked."""

    chosen: str
    """Id of the candidate that is right; empty if the evidence does not decide."""
    reason: str
    confidence: int


class CritiqueTask(Contract):
    """Read a report before the user does."""

    kind: Literal["critique"] = "critique"
    goal: str
    draft: ReportDraft
    outcomes: tuple[InputOutcome, ...]
    """What the report was written from."""
    sources: tuple[str, ...] = ()
    """`ref`s of all sources in citation order: the first is `[S1]`."""


class CritiqueDraft(Contract):
    """An opinion on a report as the model writes it, not yet checked."""

    acceptable: bool
    problems: list[str]
    """Each complete in itself: the words in question, and what is wrong with them."""


class CompressTask(Contract):
    """Shorten the prose of an outcome; its findings and sources stay as they are, which code sees to."""

    kind: Literal["compress"] = "compress"
    instruction: str
    """What the text answers."""
    content: str
    most_words: int


class CompressDraft(Contract):
    """A shortened text as the model writes it, not yet checked."""

    content: str


Task = Annotated[
    PlanTask | WorkTask | SynthesisTask | RefineTask | ReviewTask | JudgeTask | CritiqueTask | CompressTask,
    Field(discriminator="kind"),
]
"""What one turn is for; told apart by `kind`."""


class TurnRequest(Contract):
    """One LLM call."""

    session: str
    step: str
    """Names the call within its workflow; unique there."""
    crew: str
    agent: str
    """Agent of the crew, or `supervisor`."""
    tier: Tier
    documents: tuple[str, ...] = left_out(())
    task: Task
    max_input_tokens: int
    """The call is refused before it is paid if its input could be longer."""
    max_output_tokens: int
    after_reset: bool = left_out(False)
    """Whether this run goes on from the middle of another, so that the turn may have been taken already."""
    urgency: Literal["now", "batch"] = left_out("now")
    """Whether the provider may take its time for a lower price."""
    provider_failures: int = left_out(0)
    """Attempts at this turn that the provider failed and that were handed back to be charged."""


TurnStop = Literal["answer", "tools", "truncated", "refused", "empty", "malformed"]


class TurnResult(Contract):
    """What one LLM call came to."""

    stop: TurnStop
    plan: PlanDraft | None = left_out(None)
    work: AgentAnswer | None = left_out(None)
    issues: tuple[IssueDraft, ...] = left_out(())
    """Beside `work`, for an agent that reviews."""
    report: ReportDraft | None = left_out(None)
    refine: RefineDraft | None = left_out(None)
    review: ReviewDraft | None = left_out(None)
    judge: JudgeDraft | None = left_out(None)
    critique: CritiqueDraft | None = left_out(None)
    compress: CompressDraft | None = left_out(None)
    tool_calls: tuple[ToolCall, ...] = left_out(())
    provider_items: tuple[JsonValue, ...] = left_out(())
    text: str = left_out("")
    """What the model said, for stops other than `answer` and `tools`; capped."""
    problem: str = left_out("")
    """Why a reply is malformed, for the model to mend."""
    model: str
    provider: str
    usage: Usage = Usage()
    usage_known: bool = left_out(True)
    """Whether the provider said what it used; if not, the call is charged at its reserve."""
    conversation: str = left_out("")
    """Digest of what was said before this reply, if it is kept for the next turn."""
    discarded: Usage | None = left_out(None)
    """What a turn at this step has cost in a run that a reset has ended, if it was asked something else."""


# --- after a reset ----------------------------------------------------------------------------------------------------


class RunningDuplicateRequest(Contract):
    """Wait for a child that an earlier run has started."""

    workflow_id: str


class RunningDuplicate(Contract):
    """How a child of an earlier run ended; `duplicate` if it is no such child."""

    ended: Literal["completed", "failed", "cancelled", "terminated", "duplicate"]
    result: JsonValue = None
    """The child's own result, for `completed`."""
    message: str = ""


# --- a tool call -------------------------------------------------------------------------------------------------


class ToolRequest(Contract):
    """One use of one tool."""

    session: str
    step: str
    crew: str
    agent: str
    call: ToolCall
    private: tuple[str, ...] = left_out(())
    """Private text that the agent was given, for an agent that reaches out: no address may carry any of it."""
    public: tuple[str, ...] = left_out(())
    """Text that may go out although it stands in `private` too."""
    documents: tuple[str, ...] = ()
