"""How an answer lists related items: values after or before their keys, and items that were not asked for."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from benchmarks.evaluation.answers.mentions import Span, Text, Value, parts_of
from benchmarks.evaluation.answers.tokens import STOP_WORDS, Quantity

_BEFORE_VALUES: Final = frozenset({":", "-", "–", "—", "|", "("})
_BEGIN: Final = frozenset({":", ",", "is", "are", "were", "include", "namely"})
_NO_ITEM: Final = frozenset(["in", "of", "by", "as", "for", "on", "from", "at", "so", "thus", "overall", "here"])
_LONGEST_KEY: Final = 8
_LONGEST_ITEM: Final = 4
"""In words."""
Part = tuple[Value, list[Value]]
"""A key with its values."""


class Lists:
    """The lists of a text."""

    def __init__(self, text: Text) -> None:
        self.text = text
        self.tokens = text.tokens

    def paired(self, parts: Sequence[Part]) -> list[Span] | str:
        """Find each key with its values, all in the same layout; or return which key has other values."""
        keys = self._keys(parts)
        found = [self._behind(key, values, keys) for key, values in parts]
        if all(found):
            return [span for spans in found for span in spans]
        for layout in (self._before, self._respectively):
            if spans := layout(parts, keys):
                return spans
        key = next(key.written for (key, _), spans in zip(parts, found, strict=True) if not spans)
        return f"It does not say this of {key}."

    def _keys(self, parts: Sequence[Part]) -> dict[Value, list[Span]]:
        """Find every mention of each key that is not part of a longer mention."""
        spans = [
            span for key, values in parts for value in (key, *values) for span in self.text.mentions(value, denied=True)
        ]
        return {
            key: [
                mine
                for mine in self.text.mentions(key, denied=True)
                if not any(
                    each.start <= mine.start and mine.end <= each.end and each.end - each.start > mine.end - mine.start
                    for each in spans
                )
            ]
            for key, _ in parts
        }

    def _behind(self, key: Value, values: Sequence[Value], keys: Mapping[Value, Sequence[Span]]) -> list[Span]:
        """Find the values of a key between it and the next key."""
        own = [span for value in values for part in (value, *parts_of(value)) for span in self.text.mentions(part)]
        others = sorted(
            span.start
            for other, spans in keys.items()
            if other != key
            for span in spans
            if not any(span.start < each.end and each.start < span.end for each in own)
        )
        for mention in keys[key]:
            end = next((place for place in others if place >= mention.end), len(self.tokens))
            found = [self._value_behind(value, mention.end, end) for value in values]
            if all(found):
                return [mention, *(span for spans in found for span in spans)]
        return []

    def _value_behind(self, value: Value, start: int, end: int) -> list[Span]:
        """Find a value; among several numbers, only the first that is not in the question counts."""
        found = self.text.within(value, start, end)
        if not found or value.quantity is None:
            return found
        asked = {each.quantity.value for each in self.text.question if each.quantity}
        depth = 0
        for place in range(start, found[0].start):
            token = self.tokens[place]
            depth += (token.text == "(") - (token.text == ")")
            if (
                token.quantity
                and not depth
                and token.quantity.value not in asked
                and self._is_rival(value.quantity, token.quantity)
            ):
                return []
        return found

    def _is_rival(self, golden: Quantity, other: Quantity) -> bool:
        return not golden.unit or not other.unit or golden.dimension == other.dimension

    def _before(self, parts: Sequence[Part], keys: Mapping[Value, Sequence[Span]]) -> list[Span]:
        """Find each key after its value, as in `Left: A, B`: its value is the last one named before it."""
        values = {span: value for _, each in parts for value in each for span in self.text.mentions(value)}
        found: list[Span] = []
        for key, each in parts:
            if not each:
                continue
            for mention in keys[key]:
                line = self.tokens[mention.start].line
                before = [span for span in values if span.end <= mention.start and self.tokens[span.start].line == line]
                last = max(before, key=lambda span: (span.end, span.end - span.start), default=None)
                if (
                    last
                    and len(each) == 1
                    and last in self.text.mentions(each[0])
                    and not any(token.text == ";" for token in self.tokens[last.end : mention.start])
                ):
                    found += [last, mention]
                    break
            else:
                return []
        ends = {self.tokens[span.start].line: span.end for span in found}
        followed = any(
            span.start >= end and self.tokens[span.start].line == line for line, end in ends.items() for span in values
        )
        return [] if followed else found

    def _respectively(self, parts: Sequence[Part], keys: Mapping[Value, Sequence[Span]]) -> list[Span]:
        """Find all keys, followed by all values in the same order."""
        if not any(token.text.startswith("respective") for token in self.tokens) or any(
            len(each) != 1 for _, each in parts
        ):
            return []
        for start in sorted(spans[0].start for spans in keys.values() if spans):
            order = sorted(
                (next((span.start for span in keys[key] if span.start >= start), -1), number)
                for number, (key, _) in enumerate(parts)
            )
            place = order[-1][0] + 1
            found: list[Span] = []
            for position, number in order:
                spans = [span for span in self.text.mentions(parts[number][1][0]) if span.start >= place]
                if position < 0 or not spans:
                    break
                found.append(spans[0])
                place = spans[0].end
            if len(found) == len(parts) and not self._has_values_between(parts, found):
                return found
        return []

    def _has_values_between(self, parts: Sequence[Part], found: Sequence[Span]) -> bool:
        everywhere = {span for _, each in parts for value in each for span in self.text.mentions(value)}
        first, last = found[0].start, found[-1].end
        return any(first <= span.start < last and span not in found for span in everywhere)

    def distinct(self, values: Sequence[Value]) -> list[Span] | str:
        """Find a separate place for each value, or explain why there is none."""
        taken: list[Span] = []
        for value in values:
            if spans := self.text.mentions(value):
                free = [each for each in spans if each not in taken]
                if not free:
                    return f"It says {value.written} less often than the golden answer."
                taken.append(free[0])
            else:
                taken += [self.text.mentions(part)[0] for part in parts_of(value)]
        return taken

    def is_one_of_several(self, value: Value) -> bool:
        """Return whether a value appears only in items of longer lists, none of which is labelled as the answer."""
        items = {token.line for token in self.tokens if token.item == "bullet"}
        answers = {token.line for token in self.tokens if token.text == "answer"}
        lines = {
            self.tokens[span.start].line for piece in self.text.said_as(value) for span in self.text.mentions(piece)
        }
        return bool(lines) and all(
            line in items and line not in answers and not items.isdisjoint({line - 1, line + 1}) for line in lines
        )

    def has_others(self, values: Sequence[Value]) -> bool:
        """Return whether the list with the golden items also has items that are not golden."""
        spans = self._everywhere(values)
        lines = {self.tokens[span.start].line for span in spans}
        owners = [{self.tokens[span.start].line for span in self.text.mentions(value)} for value in values]
        items = {token.line: token.item for token in self.tokens if token.item}
        runs: list[list[int]] = []
        for line, kind in sorted(items.items()):
            apart = 2 if kind == "bullet" else 1
            if runs and line - runs[-1][-1] <= apart and items[runs[-1][-1]] == kind:
                runs[-1].append(line)
            else:
                runs.append([line])
        return any(
            all(owner & set(run) for owner in owners) and any(self._is_item(line) for line in set(run) - lines)
            for run in runs
        )

    def _is_item(self, line: int) -> bool:
        """Return whether a line is a list item, not a sentence: short, or short before its value."""
        texts = [token.text for token in self.tokens if token.line == line and token.text != "\n"]
        if "?" in texts:
            return False
        head = next((place for place, text in enumerate(texts) if text in _BEFORE_VALUES and place), len(texts))
        return head <= (_LONGEST_KEY if head < len(texts) else _LONGEST_ITEM)

    def enumerates_others(self, values: Sequence[Value]) -> bool:
        """Return whether each line that enumerates all golden items also names an item that is not golden."""
        spans = self._everywhere(values)
        owners = [{self.tokens[span.start].line for span in self.text.mentions(value)} for value in values]
        lines = [
            [span for span in spans if self.tokens[span.start].line == line] for line in set[int].intersection(*owners)
        ]
        return bool(lines) and all(
            any(self._is_item_between(one, other) for one, other in pairwise(line))
            or self._begins_with_other(line)
            or self._ends_with_other(line)
            for line in lines
        )

    def _everywhere(self, values: Sequence[Value]) -> list[Span]:
        return sorted(
            (span for value in values for span in self.text.mentions(value, denied=True)), key=lambda span: span.start
        )

    def _is_item_between(self, one: Span, other: Span) -> bool:
        """Return whether an enumeration has another item between two golden ones."""
        between = self.tokens[one.end : other.start]
        inner = [each for each in between[1:-1] if each.text not in STOP_WORDS]
        is_comma = bool(between) and between[0].text == "," and between[-1].text in {",", "and"}
        return is_comma and 0 < len(inner) <= 4 and all(each.kind == "word" or each.text == "," for each in inner)

    def _begins_with_other(self, spans: Sequence[Span]) -> bool:
        """Return whether an enumeration begins with an item that is not golden."""
        *before, last = (None, *self.tokens[self.text.sentence(spans[0].start, back=True) : spans[0].start])
        words: list[str] = []
        for token in reversed([token for token in before if token]):
            if token.text in _BEGIN:
                break
            words.insert(0, token.text if token.kind == "word" else "")
        return bool(last) and last.text == "," and 0 < len(words) <= 3 and "" not in words and words[0] not in _NO_ITEM

    def _ends_with_other(self, spans: Sequence[Span]) -> bool:
        """Return whether an enumeration ends with an item that is not golden."""
        rest = list(self.tokens[spans[-1].end : self.text.sentence(spans[-1].end, back=False)])
        is_item = 1 < len(rest) <= 4 and all(each.kind == "word" and each.text != "respectively" for each in rest[1:])
        return len(spans) > 1 and is_item and rest[0].text in {",", "and"}
