"""Tool policies: which calls the rules of a crew allow, and how much of their limits calls have used.

Without a person, an agent that has read private text sends out only the user's own words and listed values.
The rule is an allow list, so that no encoding of private text gets past it. The choice of the user's words to
send, and of whether to call at all, still leaks a little, so lists and the number of calls are bounded.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from decimal import Decimal
from hashlib import sha256
from typing import Final

from pydantic import JsonValue

from activities.json_schema import canonical
from chargehand.contracts import Obligation, PolicyMode, ToolRule, Watched, left_out
from chargehand.contracts.problems import printable
from workflows.carried import Carried
from workflows.rules.own_words import is_own

_LARGEST: Final = 10**12
"""Largest amount that can be summed up; larger ones are denied."""

_LOCAL_PART: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
"""One plain mailbox: no blank, quote, comma or second address, and no lookalike of these."""
_SITE: Final = re.compile(r"https?://[A-Za-z0-9.:-]+/(?:[^?#]*/)?")
_REST_OF_ADDRESS: Final = re.compile(r"(?!/|.*(?:\.\.|//))[A-Za-z0-9._~/&=+,-]*(?:[?#][A-Za-z0-9_~?&=#+,-]*)?")
"""A page below a site: nothing that leads out of it, nothing encoded, no other host behind `?` or `#`."""

Arguments = Mapping[str, JsonValue]
MOST_UNASKED: Final = 8
"""Maximum calls of tools that reach out without a person, in a conversation that has read private text."""
_READ: Final = "it comes from an agent that has read private text"


def call_hash(owner: str, tool: str, arguments: Arguments) -> str:
    """Identify a call by its caller, its tool and its arguments in any order."""
    return sha256(canonical([owner, tool, dict(arguments)]).encode()).hexdigest()


def acting_call(path: str, tool: str, arguments: Arguments) -> str:
    """Identify an acting call by its subtask's path, independent of the attempt that makes it."""
    return f"{path} {call_hash('', tool, arguments)}"


def success_key(watched: Watched, arguments: Arguments) -> str:
    """Build the key under which policies refer to the success of a call."""
    compared = None if watched.same is None else [watched.same, arguments.get(watched.same)]
    return sha256(canonical([watched.tool, compared]).encode()).hexdigest()


def doubts(policy: Iterable[Obligation], arguments: Arguments, mode: PolicyMode = "enforce") -> list[str]:
    """List the reasons why a person has to decide about a call that the rules otherwise allow."""
    return [
        f"{name}: {problem}"
        for rule in _automatic(policy, mode)
        for name, allowed in rule.within.items()
        if (problem := _beyond(arguments.get(name), allowed))
    ]


def is_judged(policy: Iterable[Obligation]) -> bool:
    """Return whether a model has to judge a call before it can be made without a person."""
    return any(rule.judged for rule in _automatic(policy))


def is_listed(policy: Iterable[Obligation], name: str, value: JsonValue) -> bool:
    """Return whether a rule lists a value; ranges do not count, since digits can encode private text."""
    listed = (rule.within.get(name) for rule in _automatic(policy))
    return any(isinstance(values, tuple) and not _beyond(value, values) for values in listed)


def _automatic(policy: Iterable[Obligation], mode: PolicyMode = "enforce") -> Iterable[ToolRule]:
    return (each.rule for each in policy if each.rule and each.rule.approval == "auto" and each.mode == mode)


def _beyond(value: JsonValue, allowed: float | tuple[str, ...]) -> str:
    """Explain why a value is not allowed; empty if it is. A value of the wrong type never is."""
    if isinstance(allowed, tuple):
        is_listed = isinstance(value, str) and any(_matches(value, one) for one in allowed)
        return "" if is_listed else "is not one of the values that need no approval"
    is_within = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= allowed
    return "" if is_within else f"is not a number from 0 to {allowed:g}"


def _matches(value: str, listed: str) -> bool:
    if listed.startswith("@"):
        return bool(_LOCAL_PART.fullmatch(value.removesuffix(listed))) and value.endswith(listed)
    if _SITE.fullmatch(listed):
        return value.startswith(listed) and bool(_REST_OF_ADDRESS.fullmatch(value.removeprefix(listed)))
    return value == listed


class PolicyLedger(Carried):
    """Usage of policies by the calls of a whole session."""

    calls: dict[str, int] = left_out({})
    """By the key of the obligation, as are sums."""
    sums: dict[str, Decimal] = left_out({})
    succeeded: tuple[str, ...] = left_out(())
    """Keys of successful calls, in order."""

    def too_early(self, policy: Iterable[Obligation], arguments: Arguments) -> list[str]:
        """List what must succeed before this call."""
        return [
            f"{rule.tool} is allowed only after {rule.after} has succeeded"
            + (f" with the same {rule.same}" if rule.same else "")
            for rule in (each.rule for each in policy)
            if rule and rule.after and not self._is_unlocked(rule, arguments)
        ]

    def violations(self, policy: Iterable[Obligation], arguments: Arguments) -> list[str]:
        """List the rules that forbid this call, regardless of what succeeds before it."""
        return [problem for each in policy for problem in self._violations(each, arguments)]

    def count(self, policy: Iterable[Obligation], arguments: Arguments, calls: int = 1) -> None:
        """Count a call, regardless of its result; -1 takes back one that was certainly not applied."""
        for each in policy:
            self.calls[each.key] = self.calls.get(each.key, 0) + calls
            amount = _amount(each.rule, arguments)
            if amount is not None:
                self.sums[each.key] = self.sums.get(each.key, Decimal(0)) + calls * amount

    def note_success(self, keys: Iterable[str]) -> None:
        self.succeeded = tuple(sorted({*self.succeeded, *keys}))

    def _is_unlocked(self, rule: ToolRule, arguments: Arguments) -> bool:
        if rule.same is not None and rule.same not in arguments:
            return False
        return success_key(Watched(tool=rule.after or "", same=rule.same), arguments) in self.succeeded

    def _violations(self, obligation: Obligation, arguments: Arguments) -> Iterable[str]:
        rule = obligation.rule
        if rule is None:
            yield f"the policy has no rule that allows {obligation.tool}"
            return
        if rule.at_most_calls is not None and self.calls.get(obligation.key, 0) >= rule.at_most_calls:
            yield f"{rule.tool} is allowed at most {rule.at_most_calls} times in a session"
        if rule.at_most_sum is not None:
            limit, amount = rule.at_most_sum, _amount(rule, arguments)
            used = self.sums.get(obligation.key, Decimal(0))
            if amount is None:
                yield f"{limit.argument} must be a number from 0 to {_LARGEST:,}"
            elif used + amount > Decimal(str(limit.total)):
                yield (
                    f"the sum of {limit.argument} is at most {Decimal(str(limit.total)).normalize():f} in a session; "
                    f"{used} is used, and this call is for {amount}"
                )


def _amount(rule: ToolRule | None, arguments: Arguments) -> Decimal | None:
    """Parse the amount that a rule sums up; None if it is not a usable number."""
    if rule is None or rule.at_most_sum is None:
        return None
    value = arguments.get(rule.at_most_sum.argument)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return Decimal(str(value)) if 0 <= value <= _LARGEST else None  # false for NaN


def why_approved(
    arguments: Arguments, *, kept: Collection[str], said: Collection[str], policy: Collection[Obligation], calls: int
) -> str:
    """Explain why a person must decide about a call that reaches out after private text was read; empty if none must.

    Args:
        arguments: the call's arguments.
        kept: names of arguments that are not sent anywhere.
        said: the user's own words.
        policy: the tool's obligations; listed values may be sent.
        calls: how many calls that reach out the conversation has made since.
    """
    if calls >= MOST_UNASKED:
        return f"{_READ} and has made {calls} calls that reach out"
    sent = {name: value for name, value in arguments.items() if name not in kept}
    own = [name for name, value in sent.items() if not (is_listed(policy, name, value) or is_own(value, said))]
    if not own:
        return ""
    names = ", ".join(printable(name, 60) for name in own[:5])
    return f"{_READ}, and {names} is neither in the user's own words nor in a list of the crew"
