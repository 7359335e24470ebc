"""The answers that Chargehand asks models for, as replies."""

from collections.abc import Sequence

from activities.contracts import SubtaskDraft
from activities.turn_kinds.compress import CompressAnswer
from activities.turn_kinds.critique import CritiqueAnswer
from activities.turn_kinds.judge import JudgeAnswer
from activities.turn_kinds.plan import PlanAnswer
from activities.turn_kinds.refine import RefineAnswer
from activities.turn_kinds.review import ReviewAnswer
from activities.turn_kinds.synthesis import SynthesisAnswer
from activities.turn_kinds.work import FindingDraft, WorkAnswer
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
    draft = PlanAnswer(subtasks=list(subtasks), strategy=strategy, final_instruction=final_instruction)
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
    draft = WorkAnswer.model_validate(
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
    draft = SynthesisAnswer(answer=text, gaps=list(gaps), contradictions=[], confidence=confidence)
    return saying(draft.model_dump_json())


def refined(instruction: str = "") -> ScriptedReply:
    """Answer with a better instruction; without one, that none could help."""
    draft = RefineAnswer(worthwhile=bool(instruction), instruction=instruction, reason="The error says so.")
    return saying(draft.model_dump_json())


def reviewed(*subtasks: SubtaskDraft, missing: Sequence[str] = ()) -> ScriptedReply:
    """Answer that it is enough, or what to add and what is missing."""
    draft = ReviewAnswer(
        enough=not subtasks and not missing, missing=list(missing), contradictions=[], subtasks=list(subtasks)
    )
    return saying(draft.model_dump_json())


def judged(chosen: str = "", *, reason: str = "The evidence says so.", confidence: int = 80) -> ScriptedReply:
    """Answer with the candidate that is right; without one, that the evidence does not decide."""
    return saying(JudgeAnswer(chosen=chosen, reason=reason, confidence=confidence).model_dump_json())


def criticised(*problems: str) -> ScriptedReply:
    """Answer with what is wrong with a report; without problems, that it is acceptable."""
    return saying(CritiqueAnswer(acceptable=not problems, problems=list(problems)).model_dump_json())


def compressed(content: str = "In short: it is so.") -> ScriptedReply:
    """Answer with a shorter text."""
    return saying(CompressAnswer(content=content).model_dump_json())
