"""The answers that Chargehand asks models for, as replies of the provider."""

from collections.abc import Sequence

from activities.turn_kinds.protocol import SubtaskDraft
from activities.turn_kinds.work import FindingDraft
from tests import scripted_model
from tests.scripted_provider.exchange import ScriptedReply, saying


def subtask(id: str, agent: str, instruction: str) -> SubtaskDraft:  # noqa: A002  # the field's own name
    return scripted_model.subtask(id, agent, instruction=instruction)


def plan(*subtasks: SubtaskDraft) -> ScriptedReply:
    return saying(scripted_model.plan(*subtasks))


def answer(
    content: str = "It is so.", *, findings: Sequence[FindingDraft] = (), gaps: Sequence[str] = ()
) -> ScriptedReply:
    """Answer a subtask."""
    draft = scripted_model.answer(content, gaps=gaps)
    return saying(draft.model_copy(update={"findings": list(findings)}))


def report(text: str = "So it is.") -> ScriptedReply:
    return saying(scripted_model.report(text))
