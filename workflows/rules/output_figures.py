"""Figures in a report's output that occur neither in the report nor in its sources: unsupported claims."""

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

from pydantic import JsonValue

from chargehand.contracts import Claim, Source
from chargehand.plugins import Hook, require
from workflows.rules.citation_checks import is_computed
from workflows.rules.plugin_results import hook_functions

_MOST_VALUES: Final = 500
_MOST_READ: Final = 100_000
"""Maximum characters of sources that are compared, since workflow tasks have little time."""
_LONGEST_VALUE: Final = 200
_PROBLEM: Final = "Neither the report nor a source has {0}, and no result gives it."


def claims_without_source(output: JsonValue, said: Sequence[str], sources: Sequence[Source]) -> tuple[Claim, ...]:
    """List the values of an output with a figure that was neither stated nor read, if plug-ins can compare it."""
    values = dict(islice(_values("output", output), _MOST_VALUES))
    # The page in a ref can be a figure of the output, but not the line.
    read = (f"{each.ref.partition('#L')[0]} {each.title}\n{each.quote}" for each in sources if not is_computed(each))
    words, results = "\n".join((*said, *read))[:_MOST_READ], [each.quote for each in sources if is_computed(each)]
    finding = hook_functions(Hook.UNKNOWN_FIGURES, _texts) if values else ()
    return tuple(
        Claim(text=f"{name}: {values[name]}"[:_LONGEST_VALUE], problem=_PROBLEM.format(figures))
        for find in finding
        for name, figures in find(values, words, results).items()
    )


def _texts(found: Any) -> dict[str, str]:
    return {require(str, name): require(str, text) for name, text in dict[object, object](found).items()}


def _values(name: str, value: JsonValue) -> Iterator[tuple[str, str]]:
    """Yield each number and text with its name, except booleans and the length of a list next to it."""
    match value:
        case dict():
            counts = {len(each) for each in value.values() if isinstance(each, list)}
            for key, each in value.items():
                if not isinstance(each, int) or each not in counts:
                    yield from _values(f"{name}.{key}", each)
        case list():
            for number, each in enumerate(value):
                yield from _values(f"{name}[{number}]", each)
        case str():
            yield name, value
        case int() | float() if value not in {0, 1}:
            yield name, json.dumps(value)
        case _:
            return
