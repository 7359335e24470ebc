"""The turn kind `synthesis`. Write the report."""

from typing import Literal

from activities.contracts import ContradictionDraft, InputOutcome
from activities.turn_kinds.protocol import TurnAnswer
from chargehand.contracts import Contract, Contradiction, Strategy, left_out


class SynthesisTask(Contract):
    """Write the report."""

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
    contradictions: tuple[Contradiction, ...] = left_out(())
    """Where outcomes are known to disagree, and what was decided."""
    is_part: bool = left_out(False)
    """Whether these are only some of the outcomes, to be summarised for whoever writes the report."""
    problems: tuple[str, ...] = ()
    """What a critic found wrong with the first version; the report is then written anew."""


class SynthesisAnswer(TurnAnswer):
    """A report as the model writes it, not yet checked."""

    kind: Literal["synthesis"] = "synthesis"
    answer: str
    gaps: list[str]
    contradictions: list[ContradictionDraft]
    confidence: int
