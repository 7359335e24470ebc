"""Repetition: agents that call the same tool with the same arguments again.

Arguments are the same if they are equal as JSON, whatever the order of their names. Once the tool has answered, case
and white space of plain words do not count either. They do count in code, queries, paths and quotations, and after an
error, which a change of case may correct.
"""

import json
import re
from collections.abc import Sequence
from typing import Final

from pydantic import JsonValue

from activities.contracts.rounds import Round, ToolCall, ToolResult
from activities.tools.note import NOTE

_MOST_REPETITIONS: Final = 3
"""Rounds without a new call, after which an agent has to answer."""
_EXACT_TEXT: Final = re.compile(r"""[\n'"`=/\\()\[\]{}<>#$%&*+;_]""")
"""Characters of code, SQL, paths and quotations, in which every letter and space counts."""


def refuse_repetition(call: ToolCall, rounds: Sequence[Round], at_once: int | None = None) -> ToolResult | None:
    """Refuse a call that was made before and point at its answer; None if it is new.

    Args:
        call: the new call.
        rounds: all earlier rounds.
        at_once: how many calls of a round are executed, notes aside. Those beyond were not, so they are new when made
            again.
    """
    made = _Calls()
    for past in rounds:
        made.add(_made_in(past, at_once), past)
    number = None if call.malformed else made.first(call)
    if number is None:
        return None
    error = f"You already made this call (round {number}); its result is above. Make a different call or answer."
    return ToolResult(call_id=call.id, tool=call.tool, ok=False, output={"error": error})


def is_repetitive(rounds: Sequence[Round], at_once: int | None = None) -> bool:
    """Whether an agent has made no new call in three rounds, and must answer now."""
    repetitions = 0
    made = _Calls()
    for past in rounds:
        calls = _made_in(past, at_once)
        repetitions += bool(calls) and all(made.first(call) is not None for call in calls)
        made.add(calls, past)
    return repetitions >= _MOST_REPETITIONS


def positions_to_make(calls: Sequence[ToolCall], at_once: int | None) -> frozenset[int]:
    """Name the positions of the calls of a round that are executed: all notes, and at most so many others."""
    notes = [position for position, call in enumerate(calls) if call.tool == NOTE.name]
    others = [position for position, call in enumerate(calls) if call.tool != NOTE.name]
    return frozenset((*notes, *others[:at_once]))


def _made_in(past: Round, at_once: int | None) -> list[ToolCall]:
    return [past.calls[position] for position in sorted(positions_to_make(past.calls, at_once))]


class _Calls:
    """In which round, counted from 1, each call was made first."""

    def __init__(self) -> None:
        self._rounds = 0
        self._exactly: dict[str, int] = {}
        self._loosely: dict[str, int] = {}

    def add(self, calls: Sequence[ToolCall], past: Round) -> None:
        self._rounds += 1
        answered = {result.call_id for result in past.results if result.ok}
        not_made = {result.call_id for result in past.results if result.may_be_repeated}
        for call in calls:
            if call.id in not_made:
                continue
            self._exactly.setdefault(_exactly(call), self._rounds)
            if call.id in answered:
                self._loosely.setdefault(_loosely(call), self._rounds)

    def first(self, call: ToolCall) -> int | None:
        return self._exactly.get(_exactly(call)) or self._loosely.get(_loosely(call))


def _exactly(call: ToolCall) -> str:
    return json.dumps([call.tool, call.malformed, call.arguments], sort_keys=True)


def _loosely(call: ToolCall) -> str:
    return json.dumps([call.tool, call.malformed, _normalise(call.arguments)], sort_keys=True)


def _normalise(value: JsonValue) -> JsonValue:
    match value:
        case str():
            return value if _EXACT_TEXT.search(value) else " ".join(value.casefold().split())
        case list():
            return [_normalise(item) for item in value]
        case dict():
            return {name: _normalise(item) for name, item in value.items()}
        case _:
            return value
