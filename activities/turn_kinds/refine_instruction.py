"""A turn that writes a better instruction for a subtask that ended badly."""

from typing import ClassVar, Final, Literal

from activities.documents.catalog import Catalog
from activities.turn_kinds.protocol import TurnAnswer, TurnTask
from activities.turn_kinds.rendering import document_sections, request_section
from activities.turn_kinds.short_refs import ShortRefs
from activities.turn_kinds.untrusted_text import data_block
from chargehand.contracts import Escalation, Failure, Outcome

_INSTRUCTIONS: Final = """You are the supervisor of a crew of agents. One of its subtasks ended badly. You decide
whether another instruction could help, and write it.

- worthwhile: false if no instruction could help: the documents do not hold the answer, the tool is broken, or the
  instruction was already as good as it can be.
- instruction: the new one, complete in itself: the agent sees nothing of the earlier attempt. Change what the error
  shows to be wrong: resolve what was ambiguous, name the document or the period, give other words to search for, ask
  for less. Never rephrase the earlier instruction. Ask for nothing that the request does not need. Empty if not
  worthwhile.
- reason: what you changed and why, in one sentence."""


class RefineAnswer(TurnAnswer):
    kind: Literal["refine"] = "refine"
    worthwhile: bool
    instruction: str = ""
    reason: str = ""


class RefineTask(TurnTask):
    instructions: ClassVar = _INSTRUCTIONS
    lists_agents: ClassVar = True
    answer_type: ClassVar = RefineAnswer
    temperature: ClassVar = 0.4

    kind: Literal["refine"] = "refine"
    goal: str
    """The session's goal, for context only."""
    agent: str
    instruction: str
    """The instruction of the attempt that ended badly."""
    problem: str
    outcome: Outcome
    attempts: int
    """Attempts that have ended, this one included."""

    @property
    def refs(self) -> ShortRefs:
        return ShortRefs(source.ref for source in self.outcome.sources)

    def shared_sections(self, catalog: Catalog | None) -> list[str]:
        return [request_section(self.goal, context_only=True), *document_sections(catalog)]

    def sections(self, catalog: Catalog | None) -> list[str]:
        outcome = self.outcome
        ending = f"{outcome.kind}: {outcome.reason}" if isinstance(outcome, Failure | Escalation) else outcome.kind
        parts = [
            f"Instruction for the agent {self.agent}:\n{data_block(self.instruction)}",
            f"It ended badly ({ending}) in attempt {self.attempts}:\n{data_block(self.problem)}",
        ]
        returned = [outcome.content, *(f"Gap: {gap}" for gap in outcome.gaps)]
        if any(returned):
            titles = {source.ref: source.title for source in outcome.sources}
            text = data_block(self.refs.explain("\n".join(returned), titles))
            parts.append(f"The agent returned, with confidence {outcome.confidence}:\n{text}")
        return parts
