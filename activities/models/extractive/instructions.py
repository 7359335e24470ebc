"""Instructions as the rules write them, and how they read them back: lead, place, question."""

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from activities.models.extractive.wording import one_line


class Lead(Enum):
    """What is to be done with the question."""

    COMPUTE = "Compute from the table"
    QUOTE = "Find and quote what the documents say"
    GATHER = "Quote what a text could be written from"
    SEARCH = "Search and quote what is found"
    SUMMARISE = "Quote the key sentences of"
    PROFILE = "Give the size, period and totals of the table"


@dataclass(frozen=True)
class Assignment:
    """An instruction, read."""

    lead: Lead | None
    """None for an instruction that was not written here."""
    question: str
    place: str = ""
    """The table or documents that the plan chose; empty for all."""


_LONGEST_QUESTION: Final = 3_000
_READ: Final = re.compile(
    rf"^(?P<lead>{'|'.join(re.escape(lead.value) for lead in Lead)})(?: \((?P<place>[^\n]*?)\))?: (?P<question>[^\n]+)"
)


def instruction(lead: Lead, question: str, place: str = "") -> str:
    """Write an instruction in the user's own words."""
    return f"{lead.value}{f' ({place})' if place else ''}: {one_line(question)[:_LONGEST_QUESTION]}"


def read_instruction(text: str) -> Assignment:
    """Read an instruction; what a supervisor added below the first line is not part of the question."""
    match = _READ.match(text.strip())
    if match is None:
        return Assignment(None, one_line(text.strip().split("\n\n")[0]))
    return Assignment(Lead(match["lead"]), match["question"].strip(), match["place"] or "")
