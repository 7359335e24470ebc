"""The labelled questions: which document answers each, and the words that do."""

import re
import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

_FILE: Final = Path(__file__).with_suffix(".toml")

Half = Literal["tuning", "held out"]


@dataclass(frozen=True)
class Question:
    """A question and what a right answer to it is."""

    text: str
    documents: frozenset[str]
    """Documents that answer it, any of which will do, without their endings; empty if none does."""
    answer: str
    """Regular expression of the words that answer."""
    half: Half

    @property
    def is_answerable(self) -> bool:
        return bool(self.documents)

    def is_askable(self, there: Collection[str]) -> bool:
        """Whether this machine has a document that answers, or none is needed."""
        return not self.documents or not self.documents.isdisjoint(there)

    def is_answered_by(self, words: str) -> bool:
        """Whether some words hold the answer, white space and case aside."""
        return re.search(self.answer, " ".join(words.split()), re.IGNORECASE) is not None


def read_questions() -> tuple[Question, ...]:
    """Read the questions."""
    return tuple(_question(entry) for entry in tomllib.loads(_FILE.read_text(encoding="utf-8"))["question"])


def _question(entry: dict[str, Any]) -> Question:
    return Question(
        text=entry["text"],
        documents=frozenset(entry.get("documents", ())),
        answer=entry.get("answer", ""),
        half="held out" if entry.get("held_out") else "tuning",
    )


def bare(name: str) -> str:
    """A document's name as the labels have it: without its ending."""
    return re.sub(r"\.(?:txt|md|csv)$", "", name)
