"""Tool policies: which calls the rules of a crew allow, and what calls have used of them."""

import json
from collections.abc import Iterable, Mapping
from decimal import Decimal
from hashlib import sha256
from typing import Final

from pydantic import JsonValue

from chargehand.contracts import Obligation, ToolRule, Watched
from workflows.contracts import PolicyState

_LARGEST: Final = 10**12
"""The largest amount that is added up; a larger one is denied."""

Arguments = Mapping[str, JsonValue]
_NONE_BEFORE: Final = PolicyState()


def call_hash(owner: str, tool: str, arguments: Arguments) -> str:
    """Identify a call by its tool and its arguments, in whatever order these are written, and by whose call it is.

    What a call of a tool that acts would change is identified by the subtask, whichever attempt makes the call.
    """
    return sha256(_canonical([owner, tool, dict(arguments)]).encode()).hexdigest()


def success_key(watched: Watched, arguments: Arguments) -> str:
    """Name the success of a call as the rules see it that wait for it."""
    compared = None if watched.same is None else [watched.same, arguments.get(watched.same)]
    return sha256(_canonical([watched.tool, compared]).encode()).hexdigest()


class PolicyLedger:
    """What the calls of a whole session have used of its policies."""

    def __init__(self, before: PolicyState = _NONE_BEFORE) -> None:
        self._calls = dict(before.calls)
        """By the key of the obligation, as are sums."""
        self._sums = dict(before.sums)
        self._succeeded = set(before.succeeded)

    def state(self) -> PolicyState:
        return PolicyState(calls=self._calls, sums=self._sums, succeeded=tuple(sorted(self._succeeded)))

    def too_early(self, policy: Iterable[Obligation], arguments: Arguments) -> list[str]:
        """List what must have succeeded before this call."""
        return [
            f"{rule.tool} is allowed only after {rule.after} has succeeded"
            + (f" with the same {rule.same}" if rule.same else "")
            for rule in (each.rule for each in policy)
            if rule and rule.after and not self._is_unlocked(rule, arguments)
        ]

    def violations(self, policy: Iterable[Obligation], arguments: Arguments) -> list[str]:
        """List the rules that do not allow this call, whatever succeeds before it."""
        return [problem for each in policy for problem in self._violations(each, arguments)]

    def count(self, policy: Iterable[Obligation], arguments: Arguments, calls: int = 1) -> None:
        """Book a call that is made, whatever comes of it; -1 takes back one that was certainly not applied."""
        for each in policy:
            self._calls[each.key] = self._calls.get(each.key, 0) + calls
            amount = _amount(each.rule, arguments)
            if amount is not None:
                self._sums[each.key] = self._sums.get(each.key, Decimal(0)) + calls * amount

    def note_success(self, keys: Iterable[str]) -> None:
        self._succeeded.update(keys)

    def _is_unlocked(self, rule: ToolRule, arguments: Arguments) -> bool:
        if rule.same is not None and rule.same not in arguments:
            return False
        return success_key(Watched(tool=rule.after or "", same=rule.same), arguments) in self._succeeded

    def _violations(self, obligation: Obligation, arguments: Arguments) -> Iterable[str]:
        rule = obligation.rule
        if rule is None:
            yield f"the policy has no rule that allows {obligation.tool}"
            return
        if rule.at_most_calls is not None and self._calls.get(obligation.key, 0) >= rule.at_most_calls:
            yield f"{rule.tool} is allowed at most {rule.at_most_calls} times in a session"
        if rule.at_most_sum is not None:
            limit, amount = rule.at_most_sum, _amount(rule, arguments)
            used = self._sums.get(obligation.key, Decimal(0))
            if amount is None:
                yield f"{limit.argument} must be a number from 0 to {_LARGEST:,}"
            elif used + amount > Decimal(str(limit.total)):
                yield (
                    f"the sum of {limit.argument} is at most {Decimal(str(limit.total)).normalize():f} in a session; "
                    f"{used} is used, and this call is for {amount}"
                )


def _amount(rule: ToolRule | None, arguments: Arguments) -> Decimal | None:
    """Read the amount that a rule adds up; None if it is not a usable number."""
    if rule is None or rule.at_most_sum is None:
        return None
    value = arguments.get(rule.at_most_sum.argument)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return Decimal(str(value)) if 0 <= value <= _LARGEST else None  # NaN is neither


def _canonical(value: JsonValue) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
