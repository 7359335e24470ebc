"""The answers that Chargehand asks models for, as replies."""

from collections.abc import Sequence

from activities.contracts import AgentAnswer, FindingDraft, PlanDraft, ReportDraft, SubtaskDraft
from tests.scripted_provider.exchange import ScriptedReply, saying


def subtask(
    id: str,  # noqa: A002  # the field's own name
    agent: str,
    instruction: str,
    depends_on: Sequence[str] = (),
    required: Sequence[str] = (),
) -> SubtaskDraft:
    """Draft a subtask."""
    return SubtaskDraft(
        id=id, agent=agent, instruction=instruction, depends_on=list(depends_on), required=list(required)
    )


def plan(*subtasks: SubtaskDraft, strategy: str = "merge", final_instruction: str = "") -> ScriptedReply:
    """Answer with a plan."""
    draft = PlanDraft(subtasks=list(subtasks), strategy=strategy, final_instruction=final_instruction)
    return saying(draft.model_dump_json())


def answer(
    content: str = "It is so.",
    *,
    status: str = "success",
    findings: Sequence[FindingDraft] = (),
    confidence: int = 80,
    gaps: Sequence[str] = (),
    message: str = "",
) -> ScriptedReply:
    """Answer a subtask."""
    draft = AgentAnswer.model_validate(
        {
            "status": status,
            "content": content,
            "findings": list(findings),
            "confidence": confidence,
            "gaps": list(gaps),
            "message": message,
        }
    )
    return saying(draft.model_dump_json())


def report(text: str = "So it is.", *, gaps: Sequence[str] = (), confidence: int = 80) -> ScriptedReply:
    """Answer with a report."""
    draft = ReportDraft(answer=text, gaps=list(gaps), contradictions=[], confidence=confidence)
    return saying(draft.model_dump_json())
