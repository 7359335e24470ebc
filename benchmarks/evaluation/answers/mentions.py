"""What a text asserts: where it mentions a value without denying it or leaving it open."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import pairwise
from typing import Final

from benchmarks.evaluation.answers.tokens import (
    STOP_WORDS,
    Quantity,
    Token,
    names_unit,
    scale_named,
    tokenise,
    unit_named,
)

_NEGATIONS: Final = frozenset(
    [
        "not",
        "never",
        "neither",
        "nor",
        "without",
        "unlike",
        "except",
        "isnt",
        "wasnt",
        "nicht",
        "kein",
        "keine",
        "nie",
        "weder",
        "denied",
        "denies",
    ]
)
_ADJACENT: Final = frozenset({"no"})
_VERBS: Final = frozenset(["is", "are", "was", "were", "doe", "do", "did", "has", "have", "had", "can"])
_POLAR: Final = frozenset({"yes", "no"})
"""Words that are an answer only on their own: `no`, but not `no records`."""
_BOUNDS: Final = frozenset({".", ";", ":", "\n", "|", "!", "?", ",", "(", ")", "–"})
_SENTENCE_ENDS: Final = frozenset({".", ";", "\n", "!", "?"})
_MISJUDGED: Final = frozenset(["wrong", "incorrect", "false", "untrue", "mistaken", "falsch", "inaccurate"])
_DENIALS: Final = re.compile(
    r"\b(?:not (?:true|the case|correct|right|accurate|that)|untrue|actually|on second thought|first thought"
    r"|deny|denies|opposite|(?:is|are|was|were|be) (?:all )?(?:false|wrong|incorrect|untrue)"
    r"|(?:false|wrong|incorrect|untrue|mistaken) (?:that|to say|to claim|answers?))\b"
)
_COMPARED: Final = re.compile(
    r"\b(?:(?:more|less|fewer|greater|higher|lower|other) than|under|over|below|above|almost|nearly|at least|at most)\b"
)
_CONTRASTED: Final = re.compile(r"\b(?:rather than|instead of|no longer)\b")
_LOOKED_AT: Final = frozenset(
    ["source", "page", "document", "result", "search", "website", "article", "step", "subtask", "agent"]
)
_CLOSE: Final = Decimal("0.005")
"""Maximum relative difference of a converted figure."""
_NEAR: Final = Decimal("0.05")
_NO_ITEM: Final = frozenset(
    ["every", "each", "when", "if", "any", "more", "less", "fewer", "after", "until", "by", "in"]
)
"""Words after an `or` that do not start the second of two answers."""
_RANGE: Final = frozenset({"–", "or", "to", "through"})


@dataclass(frozen=True)
class Span:
    start: int
    end: int
    """Position after its last token."""


@dataclass(frozen=True)
class Value:
    """A value that must be mentioned, in one of its forms."""

    written: str
    tolerance: str = ""

    @property
    def forms(self) -> tuple[tuple[Token, ...], ...]:
        return tuple(content(tokenise(form)) for form in self.written.split(" | "))

    @property
    def quantity(self) -> Quantity | None:
        """The number, if the value is nothing else."""
        form = self.forms[0]
        return form[0].quantity if len(form) == 1 else None


class Text:
    """An answer, and what it says."""

    def __init__(self, tokens: Sequence[Token], written: str, question: str) -> None:
        self.tokens = tokens
        self.asked = question
        self.context = f"{question}\n{written}"
        self.question = content(tokenise(question))
        self.pairs = set(pairwise(each.text for each in self.question))
        self._found: dict[tuple[Value, bool], list[Span]] = {}

    def mentions(self, value: Value, *, denied: bool = False) -> list[Span]:
        """Find where a value is mentioned; with `denied`, also where it is denied."""
        key = value, denied
        if key not in self._found:
            self._found[key] = [
                span
                for form in value.forms
                if form
                for start in range(len(self.tokens))
                if (span := self._match(form, start, value.tolerance)) and (denied or self._is_said(span))
            ]
        return self._found[key]

    def says(self, value: Value) -> bool:
        return all(self.mentions(each) for each in self.said_as(value))

    def said_as(self, value: Value) -> list[Value]:
        """Return the value, or its parts if it is nowhere mentioned in one piece."""
        return [value] if self.mentions(value, denied=True) else parts_of(value)

    def within(self, value: Value, start: int, end: int) -> list[Span]:
        """Find a value, or all of its parts, between two places; empty if it is not mentioned there."""
        found = [
            next((each for each in self.mentions(piece) if start <= each.start and each.end <= end), None)
            for piece in self.said_as(value)
        ]
        return [each for each in found if each] if all(found) else []

    def contradicts(self, parts: Sequence[tuple[Value, list[Value]]]) -> bool:
        """Return whether a figure differs only slightly from the golden one and is at least as precise."""
        for _, values in parts:
            for value in values:
                golden = value.quantity
                if golden is not None and not self.mentions(value) and self._has_near(golden):
                    return True
        return False

    def _has_near(self, golden: Quantity) -> bool:
        return any(
            abs(each.value - golden.value) <= max(abs(golden.value) * _NEAR, 1) and each.digits >= golden.digits
            for token in self.tokens
            if (each := token.quantity) and (not golden.unit or each.unit in {"", golden.unit})
        )

    def _match(self, form: Sequence[Token], start: int, tolerance: str) -> Span | None:
        """Match the tokens of a form from here on, skipping punctuation within a line."""
        place = start
        for number, wanted in enumerate(form):
            while number and place < len(self.tokens) and self._is_between(self.tokens[place]):
                place += 1
            if place >= len(self.tokens) or not self._is_same(wanted, self.tokens[place], tolerance):
                return None
            place += 1
        return Span(start, place)

    def _is_between(self, token: Token) -> bool:
        return (token.kind == "mark" and token.text not in {"\n", "|"}) or token.text in STOP_WORDS

    def _is_same(self, golden: Token, token: Token, tolerance: str) -> bool:
        if golden.quantity is None:
            return golden.kind == token.kind and golden.text == token.text
        if token.kind == "date":
            return token.text.endswith(f"-{golden.quantity.value}")
        return token.quantity is not None and self._is_same_quantity(golden.quantity, token.quantity, tolerance)

    def _is_same_quantity(self, golden: Quantity, said: Quantity, tolerance: str) -> bool:
        if said.unit and not golden.unit:
            golden = replace(golden, unit=unit_named(self.asked, said))
        if golden.unit and said.unit and golden.dimension != said.dimension:
            return False
        if golden.unit and not said.unit and not names_unit(self.context, golden.unit):
            return False
        allowed = _allowed(golden, tolerance)
        if golden.unit and said.unit and golden.unit != said.unit:
            return abs(golden.base - said.base) <= abs(golden.base) * max(_CLOSE, allowed or 0)
        if allowed is not None:
            return abs(golden.value - said.value) <= allowed * abs(golden.value)
        return golden.value in {said.value, said.grouped} or self._is_scaled(golden, said) or _is_rounded(golden, said)

    def _is_scaled(self, golden: Quantity, said: Quantity) -> bool:
        """Return whether only a scale is left out that the table's head or the question states."""
        scales = {int(golden.scale), int(said.scale)} - {1}
        return golden.scale != said.scale and golden.number == said.number and scales <= scale_named(self.context)

    def _is_said(self, span: Span) -> bool:
        """Return whether a mention is not denied, one of two options, or part of a range or comparison."""
        before, after = self._clause_before(span.start), self.tokens[span.end : span.end + 4]
        words = " ".join(each.text for each in before)
        is_determiner = (
            self.tokens[span.start].text in _POLAR and span.end - span.start == 1 and after and after[0].kind != "mark"
        )
        is_denied = any(
            each.text in _NEGATIONS and not self._was_asked(before, number) for number, each in enumerate(before)
        )
        return not (
            is_determiner
            or is_denied
            or any(each.text in _ADJACENT for each in before[-1:])
            or _COMPARED.search(" ".join(each.text for each in before[-2:]))
            or _CONTRASTED.search(words)
            or self._is_taken_back(after)
            or self._is_one_of_two(span)
        )

    def _is_taken_back(self, after: Sequence[Token]) -> bool:
        words = [each.text for each in after]
        end = next((number for number, word in enumerate(words) if word in {".", ";", "\n", "|", ","}), len(words))
        said = words[:end]
        if any(word in _MISJUDGED for word in said):
            return True
        is_denied = bool(said[:1]) and said[0] in _VERBS and said[1:2] == ["not"]
        following = next((word for word in said[2:] if word not in STOP_WORDS), "")
        return is_denied and ("not", following) not in self.pairs

    def _is_one_of_two(self, span: Span) -> bool:
        own = {each.text for each in self.tokens[span.start : span.end]}
        before, after = self.tokens[max(0, span.start - 2) : span.start], self.tokens[span.end : span.end + 2]
        is_number = self.tokens[span.end - 1].kind == "number" or self.tokens[span.start].kind == "number"
        first, second = [each.text for each in before], [each.text for each in after]
        if "or" in own:
            return False
        if (
            "or" in first[-1:]
            or second[:1] == ["or"]
            or second in ([",", "or"], [".", "or"])
            or first[-2:] == ["or", "the"]
        ):
            words = [*first, *(each.text for each in self.tokens[span.start : span.end]), *second]
            is_asked = any("or" in pair and pair in self.pairs for pair in pairwise(words))
            follows = second[:1] == ["or"] and second[1:] and second[1] in _NO_ITEM
            return not is_asked and not follows
        if not is_number:
            return False
        has_next = len(after) == 2 and after[1].kind == "number" and after[0].text in _RANGE
        has_last = len(before) == 2 and before[0].kind == "number" and before[1].text in _RANGE
        is_counted = bool(after) and after[0].text in _LOOKED_AT
        return is_counted or has_next or has_last

    def _clause_before(self, place: int) -> Sequence[Token]:
        start = place
        while start and self.tokens[start - 1].text not in _BOUNDS and self.tokens[start - 1].text != "but":
            start -= 1
        return self.tokens[start:place]

    def _was_asked(self, clause: Sequence[Token], number: int) -> bool:
        """Return whether a negation comes from the question."""
        following = content(clause[number : number + 4])[1:2] or ()
        return any((clause[number].text, each.text) in self.pairs for each in following)

    def _is_asked(self, words: str) -> bool:
        asked = " ".join(each.text for each in self.question)
        return f" {words} " in f" {asked} "

    def is_denied(self, spans: Sequence[Span]) -> bool:
        """Return whether the answer's sentences, the one that introduces them, or the next one retract it."""
        first, last = min(each.start for each in spans), max(each.end for each in spans)
        opening = self.sentence(first, back=True)
        before = self._line_above(opening)
        end = self.sentence(last, back=False)
        while end < len(self.tokens) and self.tokens[end].text in _SENTENCE_ENDS:
            end += 1
        after = self.sentence(end, back=False)
        said = " ".join(each.text for each in self.tokens[before:end])
        then = " ".join(each.text for each in self.tokens[end:after])
        is_about = re.match(r"(?:this|that|these|those|none|all|it|which)\b", then)
        return any(
            not self._is_asked(match[0])
            for match in (*_DENIALS.finditer(said), *(_DENIALS.finditer(then) if is_about else ()))
        )

    def sentence(self, place: int, *, back: bool) -> int:
        """Return the start or the end of the sentence at a place."""
        if back:
            while place and self.tokens[place - 1].text not in _SENTENCE_ENDS:
                place -= 1
            return place
        while place < len(self.tokens) and self.tokens[place].text not in _SENTENCE_ENDS:
            place += 1
        return place

    def _line_above(self, place: int) -> int:
        """Return the start of the sentence that introduces the list at a place."""
        end = place
        while end and self.tokens[end - 1].text in {"\n", "|"}:
            end -= 1
        return self.sentence(end - 1, back=True) if end and self.tokens[end - 1].text in {":", "."} else place


def read_value(written: str) -> Value:
    words, _, tolerance = written.partition("±")
    return Value(words.strip(), tolerance.strip())


def content(tokens: Sequence[Token]) -> tuple[Token, ...]:
    """Drop the tokens that an answer need not repeat."""
    return tuple(each for each in tokens if each.kind != "mark" and each.text not in STOP_WORDS) or tuple(tokens)


def parts_of(value: Value) -> list[Value]:
    """Split a value that is itself a list: `A and B`, `A, B (C)`."""
    pieces = re.split(r",\s|;|/(?=\s)| & | and |[()]", value.written)
    parts = [Value(piece.strip(), value.tolerance) for piece in pieces if content(tokenise(piece.strip()))]
    return parts if len(parts) > 1 and "|" not in value.written else [value]


def _is_rounded(golden: Quantity, said: Quantity) -> bool:
    """Return whether a figure such as `8.01 million` is the golden one, rounded to three or more digits."""
    last = said.scale / Decimal(10) ** said.decimals
    return said.scale > 1 and said.digits >= 3 and abs(golden.value - said.value) <= last / 2


def _allowed(golden: Quantity, tolerance: str) -> Decimal | None:
    """Return the allowed relative difference."""
    if not tolerance:
        return None
    if tolerance.endswith("%"):
        return Decimal(tolerance.rstrip("% ")) / 100
    return Decimal(tolerance) * golden.scale / abs(golden.value)
