"""Repetition: calls of the same tool with the same arguments that cannot return another result.

A call can return another result once anything in the session has acted since, and is then made again. If
other agents can act meanwhile, it is always made again, and counts as repeated if its result is the same. A call that
acts is made once. Tools marked `repeatable` are never held back.

Arguments are the same if they are equal as JSON, in any key order. Once the tool has answered, differences in case
and white space of plain words are also ignored. They count in code, queries, paths and quotations, and after an
error, which a change of case can correct.
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from pydantic import JsonValue

from activities.contracts.rounds import MOST_CALLS, Round, ToolCall, ToolResult
from activities.tools.recall import NOTE
from chargehand.contracts import Source
from chargehand.strict_json import map_texts

_Result = tuple[Mapping[str, JsonValue], Sequence[Source]]

_MOST_REPETITIONS: Final = 3
"""Number of rounds without a new call or result after which an agent has to answer."""
_ACTS_ONCE: Final = "it changes something, and is made once for a task. Its result is above."
_EXACT_TEXT: Final = re.compile(r"""[\n'"`=/\\()\[\]{}<>#$%&*+;_]""")
"""Characters that occur in code, SQL, paths and quotations, where every letter and space counts."""


@dataclass(frozen=True)
class Effects:
    """Determines which calls of an agent can return another result when repeated."""

    acting: Collection[str] = ()
    """Its tools with side effects."""
    repeatable: Collection[str] = ()
    """Its tools that can always be called again."""
    others_act: bool = False
    """Whether other agents of the session can have side effects in the meantime."""


def refuse_repetition(
    call: ToolCall, rounds: Sequence[Round], effects: Effects, beside: Sequence[ToolCall] = ()
) -> ToolResult | None:
    """Refuse a call made in an earlier round that cannot return another result; None if it is allowed.

    `beside` are the other calls of its round, one of which may act meanwhile.

    Calls beyond the maximum per round were not made, so they are new when requested again.
    """
    acts = call.tool in effects.acting
    may_change = effects.others_act or any(each.tool in effects.acting for each in beside)
    if call.malformed or (may_change and not acts):
        return None
    history = _Calls(effects)
    for past in rounds:
        history.add(past)
    if (number := history.first(call)) is None:
        return None
    why = _ACTS_ONCE if acts else "its result is above. Make a different call or answer."
    return call.refuse(f"You already made this call (round {number}); {why}")


def is_repetitive(rounds: Sequence[Round], effects: Effects) -> bool:
    """Return whether three of an agent's rounds had no new call or result, so that it must answer now."""
    repetitions = 0
    history = _Calls(effects)
    for past in rounds:
        calls = _calls_made(past)
        repetitions += bool(calls) and not any(history.is_news(call, past) for call in calls)
        history.add(past)
    return repetitions >= _MOST_REPETITIONS


def positions_to_make(calls: Sequence[ToolCall]) -> frozenset[int]:
    """List the positions of the calls of a round to execute: all notes, and the first few others."""
    notes = [position for position, call in enumerate(calls) if call.tool == NOTE.name]
    others = [position for position, call in enumerate(calls) if call.tool != NOTE.name]
    return frozenset((*notes, *others[:MOST_CALLS]))


def made_together(calls: Sequence[ToolCall], acting: Collection[str]) -> list[range]:
    """Group the positions of a round's calls into concurrent batches; a read after an acting call starts a new one."""
    pairs = enumerate(pairwise(calls), start=1)
    ends = [position for position, (one, next_) in pairs if one.tool in acting and next_.tool not in acting]
    return [range(first, last) for first, last in pairwise([0, *ends, len(calls)])]


def _calls_made(past: Round) -> list[ToolCall]:
    return [past.calls[position] for position in sorted(positions_to_make(past.calls))]


class _Calls:
    """The round, counted from 1, and the result of each call, until something acts."""

    def __init__(self, effects: Effects) -> None:
        self._effects = effects
        self._rounds = 0
        self._acts: dict[str, int] = {}
        self._exactly: dict[str, tuple[int, _Result | None]] = {}
        self._loosely: dict[str, tuple[int, _Result | None]] = {}

    def add(self, past: Round) -> None:
        self._rounds += 1
        not_made = {result.call_id for result in past.results if result.may_be_repeated}
        calls = [call for call in _calls_made(past) if call.id not in not_made]
        acts = {_exactly(call) for call in calls if call.tool in self._effects.acting} - self._acts.keys()
        self._acts |= dict.fromkeys(acts, self._rounds)
        if acts:
            # Concurrent calls of this round may have been answered before it acted.
            self._exactly.clear()
            self._loosely.clear()
            return
        for call in calls:
            if call.tool not in (*self._effects.acting, *self._effects.repeatable):
                self._keep(call, _result(call, past))

    def first(self, call: ToolCall) -> int | None:
        if call.tool in self._effects.acting:
            return self._acts.get(_exactly(call))
        known = self._earlier_call(call)
        return None if known is None else known[0]

    def is_news(self, call: ToolCall, past: Round) -> bool:
        """Return whether a call is new, or returned another result than before."""
        if call.tool in self._effects.acting:
            return _exactly(call) not in self._acts
        known, result = self._earlier_call(call), _result(call, past)
        return known is None or (result is not None and result != known[1])

    def _earlier_call(self, call: ToolCall) -> "tuple[int, _Result | None] | None":
        return self._exactly.get(_exactly(call)) or self._loosely.get(_loosely(call))

    def _keep(self, call: ToolCall, result: "_Result | None") -> None:
        number = self.first(call) or self._rounds
        if result is None:
            self._exactly.setdefault(_exactly(call), (number, None))
        else:
            self._exactly[_exactly(call)] = self._loosely[_loosely(call)] = (number, result)


def _result(call: ToolCall, past: Round) -> "_Result | None":
    answered = (result for result in past.results if result.call_id == call.id and result.ok)
    return next(((result.output, result.sources) for result in answered), None)


def _exactly(call: ToolCall) -> str:
    return json.dumps([call.tool, call.malformed, call.arguments], sort_keys=True)


def _loosely(call: ToolCall) -> str:
    return json.dumps([call.tool, call.malformed, map_texts(call.arguments, _normalise)], sort_keys=True)


def _normalise(text: str) -> str:
    return text if _EXACT_TEXT.search(text) else " ".join(text.casefold().split())
