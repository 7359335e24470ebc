"""A turn that writes the report."""

from typing import ClassVar, Final, Literal

from activities.contracts import ContradictionDraft, InputOutcome
from activities.documents.catalog import Catalog
from activities.turn_kinds.protocol import TurnAnswer, TurnTask
from activities.turn_kinds.rendering import (
    bullet_list,
    contradiction_lines,
    outcome_section,
    request_section,
    sources_section,
)
from activities.untrusted_text import data_block, escape_marks
from chargehand.contracts import Contradiction, Strategy

_INSTRUCTIONS: Final = """You are the supervisor of a crew of agents. You now write the report for the user from the
outcomes of its subtasks.

- answer: Markdown. Answer the request first, in a sentence or two; then give what supports it. Write one coherent text;
  do not list outcomes one after another. Put [S1], [S2], … after every statement that rests on a source, exactly as the
  sources are numbered in the task; cite nothing else. Add no facts of your own.
- gaps: every part of the request that the outcomes do not answer, lost subtasks included.
- contradictions: where outcomes disagree on a fact: about; positions, each with its source; resolution: which one you
  follow and why (empty if it cannot be decided).
- confidence: 0-100 that the answer is right and complete."""


class SynthesisAnswer(TurnAnswer):
    """A report as the model writes it, not yet checked."""

    kind: Literal["synthesis"] = "synthesis"
    answer: str
    gaps: list[str]
    contradictions: list[ContradictionDraft]
    confidence: int


class SynthesisTask(TurnTask):
    """Write the report."""

    instructions: ClassVar = _INSTRUCTIONS
    answer_type: ClassVar = SynthesisAnswer

    kind: Literal["synthesis"] = "synthesis"
    goal: str
    final_instruction: str = ""
    strategy: Strategy = "merge"
    outcomes: tuple[InputOutcome, ...]
    """Every subtask of the plan, whatever became of it."""
    sources: tuple[str, ...] = ()
    """`ref`s of all sources in citation order: the first is `[S1]`."""
    stopped_because: str = ""
    """Why the plan was not carried out to its end, if it was not."""
    contradictions: tuple[Contradiction, ...] = ()
    """Where outcomes are known to disagree, and what was decided."""
    is_part: bool = False
    """Whether these are only some of the outcomes, to be summarised as input to the report."""
    problems: tuple[str, ...] = ()
    """What a critic found wrong with the first version; the report is then rewritten."""

    def sections(self, catalog: Catalog | None) -> list[str]:
        """Render everything that the report is written from; the writer knows the documents by its outcomes only."""
        del catalog
        how = escape_marks(self.final_instruction) or "clearly and briefly"
        parts = [request_section(self.goal), f"How to write: {how}"]
        if self.is_part:
            parts.append(
                "These are only some of the outcomes. The others are summarised separately, as input to the report."
            )
        elif self.strategy == "select":
            parts.append("The outcomes are candidates for the same answer: choose the best and say why.")
        if self.stopped_because:
            parts.append(f"The work was stopped early: {self.stopped_because}. Say what is missing.")
        parts += [outcome_section(result) for result in self.outcomes]
        if self.contradictions:
            known = "\n".join(
                contradiction_lines(found, "left open: state both sides") for found in self.contradictions
            )
            parts.append(
                f"Known contradictions; follow the decisions, and do not list them again:\n{data_block(known)}"
            )
        parts.append(sources_section(self.sources))
        if self.problems:
            problems = data_block(bullet_list(self.problems))
            parts.append(f"A critic found these problems in your first version:\n{problems}\nDo not repeat them.")
        return parts
