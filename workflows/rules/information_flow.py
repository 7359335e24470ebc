"""Who may be handed what: text of strangers, private text and a way out never come together unwatched.

An agent that reads what strangers write can be talked into things; with private text at hand and a way out it could
carry it there. Any two of the three are harmless.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from activities.contracts import CrewCard, SubtaskDraft
from chargehand.contracts import Capability, Subtask

SESSION_BELOW: Final[frozenset[Capability]] = frozenset({"reads_private", "reads_untrusted"})
"""What the report of a session of its own may rest on. What goes out of it is that session's own plan's matter."""
_READS: Final[frozenset[Capability]] = frozenset({"reads_private", "reads_untrusted"})


def capabilities_of(agent: str, crew: CrewCard) -> frozenset[Capability]:
    """Look up what an agent can do; a session below counts as reading anything."""
    known: dict[str, frozenset[Capability]] = {card.name: frozenset(card.capabilities) for card in crew.agents}
    return known.get(agent, SESSION_BELOW)


def carried(inputs: Collection[frozenset[Capability]], own: frozenset[Capability]) -> frozenset[Capability]:
    """Name the reading that an outcome rests on: the agent's own, and what its inputs rest on."""
    return own.union(*inputs) & _READS


def is_leak(own: frozenset[Capability], given: frozenset[Capability]) -> bool:
    """Whether an agent would have all three: its own capabilities and what it is given, taken together."""
    return "reaches_out" in own and own | given >= _READS


def leaks(
    subtasks: Sequence[Subtask | SubtaskDraft], crew: CrewCard, inherited: frozenset[Capability]
) -> Mapping[str, frozenset[str]]:
    """Find the subtasks that reach out with private text at hand, each with the inputs that bring it.

    Args:
        subtasks: without cycles. Inputs that are not among them rest on what was inherited.
        crew: the agents and their capabilities.
        inherited: what the session itself was given by the one above.
    """
    by_id = {subtask.id: subtask for subtask in subtasks}
    reads: dict[str, frozenset[Capability]] = {}

    def resting_on(id_: str) -> frozenset[Capability]:
        if id_ not in reads:
            subtask = by_id[id_]
            own = capabilities_of(subtask.agent, crew)
            known = [needed for needed in subtask.depends_on if needed in by_id]
            reads[id_] = carried([resting_on(needed) for needed in known], own | inherited)
        return reads[id_]

    found: dict[str, frozenset[str]] = {}
    for subtask in subtasks:
        known = [needed for needed in subtask.depends_on if needed in by_id]
        given = inherited.union(*(resting_on(needed) for needed in known))
        if is_leak(capabilities_of(subtask.agent, crew), given):
            found[subtask.id] = frozenset(needed for needed in known if "reads_private" in reads[needed])
    return found
