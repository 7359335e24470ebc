"""Whether an answer matches the golden one, by its words and figures; a judge decides what code cannot.

Every part of the golden answer must be asserted, each value with its own key, and neither denied nor left open:
`not X`, `X or Y`, and `3-5` for 3 do not count.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from benchmarks.evaluation.answers.lists import Lists, Part
from benchmarks.evaluation.answers.mentions import Text, read_value
from benchmarks.evaluation.answers.tokens import tokenise

Primitive = str | int | float | bool
GoldenAnswer = Primitive | tuple[Primitive, ...] | dict[str, Primitive | tuple[Primitive, ...]]
"""A text, a number, yes or no; several of them in any order; or values by their keys.

A text may list alternatives, separated by ` | `, and allow a difference: `1,995 min ± 5`, `49 km ± 1 %`.
"""


@dataclass(frozen=True)
class Verdict:
    """What code can determine about an answer."""

    right: bool
    share: float
    """Share of the golden answer's parts that are mentioned."""
    is_sure: bool
    """Whether no judge is needed."""
    reason: str = ""


def golden_values(answer: GoldenAnswer) -> list[tuple[str, list[str]]]:
    """Return the required values by key; the key is empty if there is none."""
    if isinstance(answer, dict):
        return [(key, _texts(value)) for key, value in answer.items()]
    return [("", [text]) for text in _texts(answer)]


def check_answer(
    golden: GoldenAnswer, answer: str, *, question: str = "", wrong: Iterable[str] = (), whole: bool = False
) -> Verdict:
    """Compare an answer with the golden one.

    Args:
        golden: the golden answer.
        answer: the answer, in Markdown or prose.
        question: the question, whose numbers, units and negations do not count as the answer's.
        wrong: words that a right answer does not contain.
        whole: whether a list with other items is wrong.
    """
    text = Text(tokenise(answer), answer, question)
    if not text.tokens:
        return Verdict(right=False, share=0, is_sure=True, reason="There is no answer.")
    for each in wrong:
        if text.mentions(read_value(each), denied=True):
            return Verdict(right=False, share=0, is_sure=True, reason=f"It says: {each}")
    parts = [(read_value(key), [read_value(each) for each in values]) for key, values in golden_values(golden)]
    unsaid = [each.written for key, values in parts for each in (key, *values) if each.written and not text.says(each)]
    total = sum(bool(key.written) + len(values) for key, values in parts)
    share = 1 - len(unsaid) / total if total else 1.0
    problem = _problem(text, parts, unsaid, has_keys=isinstance(golden, dict), whole=whole)
    return Verdict(right=not problem, share=share, is_sure=not problem or text.contradicts(parts), reason=problem)


def _problem(text: Text, parts: Sequence[Part], unsaid: Sequence[str], *, has_keys: bool, whole: bool) -> str:
    if unsaid:
        return f"It does not say: {', '.join(unsaid)}"
    lists = Lists(text)
    values = [value for _, each in parts for value in each]
    if not values:
        return ""
    spans = lists.paired(parts) if has_keys else lists.distinct(values)
    if isinstance(spans, str):
        return spans
    if text.is_denied(spans):
        return "It denies the answer."
    if not has_keys and len(values) == 1 and lists.is_one_of_several(values[0]):
        return "It names the answer only as one item of a list."
    listed = [key for key, _ in parts] if has_keys else values
    has_others = lists.has_others(listed) or (not has_keys and lists.enumerates_others(listed))
    return "It lists other items." if whole and len(listed) > 1 and has_others else ""


def _texts(value: object) -> list[str]:
    match value:
        case bool():
            return ["yes | true" if value else "no | false"]
        case list() | tuple():
            return [text for each in cast("Sequence[object]", value) for text in _texts(each)]
        case dict():
            return [
                text
                for pair in cast("Mapping[object, object]", value).items()
                for each in pair
                for text in _texts(each)
            ]
        case _:
            return [str(value)] if str(value).strip() else []
