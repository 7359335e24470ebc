"""What a question asks for, and whether a sentence has the like: a time, a number, a person, a reason, a meaning."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

from activities.models.extractive.terms import are_kin
from activities.models.extractive.wording import read_words

_NUMBER_ASKED: Final = (
    r"\bhow (?:many|much|long|often|far|old|high|fast|heavy|big|large|soon|deep|tall|wide)\b|\bat what\b"
    r"|\bwhat (?:does|do|did|would) .*\bcost\b"
    r"|\b(?:what|which) (?:\w+ )?(?:percentage|number|amount|price|cost|limit|version|size|rate|share)\b"
)
_NUMBER_GIVEN: Final = (
    r"\d|(?i:\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|hundred|thousand|million|once|twice"
    r"|half|both|single|none|no|un\w+ed|each|every|daily|weekly|monthly|yearly|annually|indefinitely)\b)"
)
_TIME_ASKED: Final = r"\bwhen\b|\b(?:what|which) (?:date|day|time|year|month|week)\b|\bdeadline\b"
_TIME_GIVEN: Final = (
    r"\b(?:19|20)\d\d\b|\d[:.]\d\d\b|\b\d+ ?(?:[ap]\.?m\b|seconds|minutes|hours|days|weeks|months|years)"
    r"|(?i:\b(?:january|february|march|april|may|june|july|august|september|october|november|december"
    r"|monday|tuesday|wednesday|thursday|friday|saturday|sunday|daily|spring|summer|autumn|winter|season|noon|midnight)\b)"
)
_DATE_GIVEN: Final = (
    r"\b(?:19|20)\d\d\b|(?i:\b(?:january|february|march|april|may \d|june|july|august|september|october|november"
    r"|december)\b)"
)
_DATE_ASKED: Final = (
    r"\bwhen (?:was|were|did)\b|\b(?:what|which) (?:date|year)\b|\b(?:since|until|by) (?:when|what date|which date)\b"
)
_OCCASION_GIVEN: Final = r"(?i:\b(?:when|whenever|if|unless|once|while|before|after|until|as soon as|upon)\b)"
_PERSON_GIVEN: Final = (
    r"(?<!^)\b[A-Z][\w.]+\s+[A-Z]\w+|^(?!(?:An?|I[fnt]|On|The|This|To)\b)[A-Z]\w+\s+[A-Z][a-z]+|\S@\S"
    r"|\b(?:by|to|from|of) (?:the )?[A-Z]\w+"
    r"|\b(?:master|manager|superintendent|officer|director|engineer|team|staff|people|users?|anybody|anyone)\b"
)
_REASON_GIVEN: Final = (
    r"(?i:\b(?:because|since|due to|so that|so|reasons?|caused?|why|therefore|thus|unfortunately|in order to|otherwise"
    r"|as a result|can then|so they can|too \w+)\b)"
)
_PLACE_GIVEN: Final = r"\b(?:[Ii]n|[Aa]t|[Oo]n|[Nn]ear|[Tt]o|[Uu]nder|[Ii]nside|[Bb]elow)\b"

_COUNTED: Final = re.compile(r"\bhow many\b", re.IGNORECASE)


@dataclass(frozen=True)
class Cue:
    """A kind of answer."""

    asked: re.Pattern[str]
    given: re.Pattern[str]
    is_needed: bool = False
    """Whether a sentence without it can hardly be the answer."""


_CUES: Final = tuple(
    Cue(re.compile(asked, re.IGNORECASE), re.compile(given), is_needed)
    for asked, given, is_needed in (
        (_NUMBER_ASKED, _NUMBER_GIVEN, True),
        (_TIME_ASKED, f"{_TIME_GIVEN}|{_OCCASION_GIVEN}", True),
        (r"\bwhen\b(?! (?:was|were|did)\b)", _OCCASION_GIVEN, False),
        (_DATE_ASKED, _DATE_GIVEN, True),
        (r"\bwho\b|\bwhom\b|\bwhose\b", _PERSON_GIVEN, True),
        (r"\bwhy\b", _REASON_GIVEN, False),
        (r"^\W*where\b", _PLACE_GIVEN, False),
    )
)


def cues_of(question: str) -> tuple[Cue, ...]:
    """Find what kinds of answer a question asks for."""
    found = [cue for cue in _CUES if cue.asked.search(question)]
    if counted := _COUNTED.search(question):
        things = takewhile(lambda word: word.is_content, read_words(question[counted.end() :]))
        thing = "|".join(re.escape(word.stem) for word in things)
        few_between = r"\w*(?:\W+\w+){0,4}?\W+"
        near = rf"\b(?:{_NUMBER_GIVEN}){few_between}(?:{thing})|\b(?:{thing}){few_between}(?:{_NUMBER_GIVEN})"
        found.append(Cue(_COUNTED, re.compile(f"(?i){near}"), is_needed=True))
    return tuple(found)


_FIELD: Final = re.compile(r"^[\s:*_|>-]*(?P<label>[^\W\d_][\w /-]{1,40}?)[*_`]{0,2}\s*(?::[*_`]{0,2}(?=\s)|\|)\s*\S")
_LONGEST_LABEL: Final = 4


def labels(question: str) -> Callable[[str], bool]:
    """Tell lines that are a field which the question asks for: `Owner: Petra Lund` for `who owns`."""
    wanted = frozenset(word.stem for word in read_words(question) if word.is_content)

    def is_labelled(text: str) -> bool:
        match = _FIELD.match(text)
        label = [word.stem for word in read_words(match["label"])] if match else []
        return len(label) <= _LONGEST_LABEL and any(are_kin(word, other) for word in wanted for other in label)

    return is_labelled
