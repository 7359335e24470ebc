"""Information flow: untrusted text, private text and a way out never come together without a person's approval.

Untrusted text can manipulate the agent that reads it; with private text in its context and a tool that reaches
out, it could leak that text. Any two of the three are harmless.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from activities.contracts.cards import CrewCard
from activities.turn_kinds.protocol import SubtaskDraft
from chargehand.contracts import Capability, Subtask, left_out
from workflows.carried import Carried

Reads = frozenset[Capability]
"""Kinds of text that something is based on."""

_READS: Final[Reads] = frozenset({"reads_private", "reads_untrusted"})
_NOTHING: Final[Reads] = frozenset()


class Provenance(Carried):
    """The kinds of text behind the instructions and outcomes of one session."""

    inherited: Reads = left_out(_NOTHING)
    """Kinds of text in the goal, if the parent session put text into it."""
    outcomes: dict[str, Reads] = left_out({})
    instructions: dict[str, Reads] = left_out({})

    @property
    def everything(self) -> Reads:
        """Kinds of text behind all outcomes together."""
        return self.inherited.union(*self.outcomes.values())

    def of_inputs(self, subtask: Subtask, planned: Subtask) -> Reads:
        """Return the kinds of text behind a subtask's inputs, and behind its instruction if a model rewrote it."""
        rewritten = self.of_attempts(subtask.id) if planned.instruction != subtask.instruction else _NOTHING
        return self.inherited.union(
            self.instructions.get(subtask.id, _NOTHING), rewritten, *map(self.of_attempts, subtask.depends_on)
        )

    def of_attempts(self, subtask_id: str) -> Reads:
        """Return the kinds of text behind the attempts at a subtask and their notes."""
        return self.outcomes.get(subtask_id, _NOTHING)

    def is_as_planned(self, subtask: Subtask, planned: Subtask) -> bool:
        """Return whether an instruction is unchanged from the first plan."""
        return planned.instruction == subtask.instruction and subtask.id not in self.instructions

    def record_attempt(self, subtask_id: str, inputs: Reads, own: Reads) -> None:
        """Record the kinds of text behind an attempt's outcome, in addition to earlier attempts'."""
        self.outcomes[subtask_id] = reads_of([inputs, self.of_attempts(subtask_id)], own)

    def record_instructions(self, subtask_ids: Iterable[str], reads: Reads) -> None:
        """Record the kinds of text behind instructions that were written after other subtasks had ended."""
        self.instructions.update(dict.fromkeys(subtask_ids, reads))


def capabilities_of(agent: str, crew: CrewCard) -> Reads:
    """Return an agent's capabilities; a nested session reads what any agent can, and sends out what its plan can."""
    known: dict[str, Reads] = {card.name: frozenset(card.capabilities) for card in crew.agents}
    return known.get(agent, _READS & _NOTHING.union(*known.values()))


def reads_of(inputs: Collection[Reads], own: Reads) -> Reads:
    """Return the kinds of text behind an outcome: what the agent reads, and what is behind its inputs."""
    return own.union(*inputs) & _READS


def is_leak(own: Reads, inputs: Reads) -> bool:
    """Return whether an agent's capabilities and inputs combine all three."""
    return "reaches_out" in own and own | inputs >= _READS


def leaks(subtasks: Sequence[Subtask | SubtaskDraft], crew: CrewCard, inherited: Reads) -> Mapping[str, frozenset[str]]:
    """Find the subtasks that reach out with private text in their context, each with the inputs that contain it.

    Args:
        subtasks: without cycles. Inputs that are not among them count as `inherited`.
        crew: the agents and their capabilities.
        inherited: the kinds of text in the session's goal.
    """
    by_id = {subtask.id: subtask for subtask in subtasks}
    reads: dict[str, Reads] = {}

    def known_inputs(subtask: Subtask | SubtaskDraft) -> list[str]:
        return [needed for needed in subtask.depends_on if needed in by_id]

    def outcome_reads(id_: str) -> Reads:
        if id_ not in reads:
            own = capabilities_of(by_id[id_].agent, crew)
            reads[id_] = reads_of([outcome_reads(needed) for needed in known_inputs(by_id[id_])], own | inherited)
        return reads[id_]

    private_inputs: dict[str, frozenset[str]] = {}
    for subtask in subtasks:
        needed = known_inputs(subtask)
        inputs = inherited.union(*(outcome_reads(id_) for id_ in needed))
        if is_leak(capabilities_of(subtask.agent, crew), inputs):
            private_inputs[subtask.id] = frozenset(id_ for id_ in needed if "reads_private" in reads[id_])
    return private_inputs
