"""Deduplication: whether two tasks of an agent are the same.

A child's workflow id is built from the run of the session, the agent and the fingerprint of its instruction, so that
Temporal itself refuses the same task twice anywhere in the tree, across crashes, resets and deploys, and so that a
session id can be used again.
"""

import hashlib
import unicodedata
from functools import cache
from typing import Final

from activities.json_schema import canonical
from activities.turn_kinds.protocol import SubtaskDraft
from chargehand.contracts import Subtask

# fmt: off
_TRIVIAL: Final = frozenset((
    "an", "and", "are", "as", "at", "be", "do", "does", "for", "in", "is", "its",
    "of", "on", "our", "please", "that", "the", "their", "then", "these", "this", "to", "was",
    "were", "will", "with", "you", "your",
))
# fmt: on
"""Words without content. `A`, `IT` and `US` can be names, and `or` differs in meaning from `and`."""
_COUNTED_MARKS: Final = "#%"
"""Punctuation that distinguishes: C and C#, 5 and 5 %."""


@cache
def _separate(character: str) -> str:
    category = unicodedata.category(character)
    if character.isalnum() or category.startswith("M"):
        return character
    is_counted = category in {"Sm", "Sc", "So"} or character in _COUNTED_MARKS
    return f" {character} " if is_counted else " "


def normalise(instruction: str) -> str:
    """Reduce an instruction to what distinguishes it from others.

    Case, white space, punctuation, compatibility forms and trivial words (articles, pronouns, most prepositions,
    `please`) do not count. The order of the other words does, and so do `from` and `by`, which indicate a direction,
    and symbols such as `+`, `<` and `€`.
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", instruction).casefold())
    words = "".join(map(_separate, folded)).split()
    return " ".join(word for word in words if word not in _TRIVIAL) or " ".join(words)


def task_text(subtask: Subtask | SubtaskDraft) -> str:
    """Return what identifies a subtask among those of its agent: the instruction and a hash of the data."""
    if not subtask.input:
        return subtask.instruction
    return f"{subtask.instruction} {hashlib.sha256(canonical(subtask.input).encode()).hexdigest()}"


def fingerprint(agent: str, instruction: str) -> str:
    """Hash an agent and its normalised instruction to 16 hex digits."""
    return hashlib.sha256(f"{agent}\n{normalise(instruction)}".encode()).hexdigest()[:16]


def child_workflow_id(session: str, run: str, agent: str, instruction: str, tier: str = "") -> str:
    """Build the id of a child workflow: `<session>/<run>/<agent>/<fingerprint>`.

    The same task on a tier other than the agent's own gets the suffix `-<tier>`.
    """
    return f"{session}/{run}/{agent}/{fingerprint(agent, instruction)}{f'-{tier}' if tier else ''}"
