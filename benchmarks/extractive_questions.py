"""The labelled questions: what each is about, and what a right answer contains."""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

_FILE: Final = Path(__file__).with_suffix(".toml")
_ROOT: Final = _FILE.parent.parent

Kind = Literal["figure", "passage", "declined", "unanswerable"]


@dataclass(frozen=True)
class Question:
    """A question over a folder of documents."""

    folder: Path
    kind: Kind
    """`figure` and `passage` have a right answer; `declined` only looks like a figure."""
    text: str
    answer: str = ""
    """Regular expression of the words in a right answer."""

    def is_answered_by(self, text: str) -> bool:
        """Return whether a text contains the answer, ignoring white space, emphasis and case."""
        return re.search(self.answer, " ".join(text.replace("*", "").split()), re.IGNORECASE) is not None


def read_questions(file: Path = _FILE, root: Path = _ROOT) -> tuple[Question, ...]:
    """Read the questions; the documents are in folders below `root`."""
    questions: list[Question] = []
    for group in tomllib.loads(file.read_text(encoding="utf-8"))["group"]:
        folder = root / group["folder"]
        for kind in ("figure", "passage"):
            questions += [Question(folder, kind, text, answer) for text, answer in group.get(kind, ())]
        for kind in ("declined", "unanswerable"):
            questions += [Question(folder, kind, text) for text in group.get(kind, ())]
    return tuple(questions)
