"""Tool policies: which calls the rules of a crew allow, and what calls have used of them.

An agent that has read private text sends out, without a person, only the user's own words and what fixed lists hold.
The rule says what may pass, never what may not, so that no encoding of private text gets by. Which of the user's words
are sent, and whether a call is made at all, still tells something; so lists and the number of such calls are bounded.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from decimal import Decimal
from hashlib import sha256
from typing import Final

from pydantic import JsonValue

from activities.json_schema import canonical
from chargehand.contracts import Obligation, ToolRule, Watched, left_out
from chargehand.contracts.problems import printable
from workflows.carried import Carried

_LARGEST: Final = 10**12
"""The largest amount that is added up; a larger one is denied."""

_LOCAL_PART: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
"""One plain mailbox: no blank, quote, comma or second address, and no letter that only looks like one of these."""
_SITE: Final = re.compile(r"https?://[A-Za-z0-9.:-]+/(?:[^?#]*/)?")
_REST_OF_ADDRESS: Final = re.compile(r"(?!/|.*(?:\.\.|//))[A-Za-z0-9._~/?&=#+,-]*")
"""Of a page below a site: nothing that leads back out of it, and nothing encoded or with another address in it."""
_WORD: Final = re.compile(r"[^\W_]+")

Arguments = Mapping[str, JsonValue]
MOST_UNASKED: Final = 8
"""Calls of tools that reach out, in one conversation that has read private text, without a person."""
_READ: Final = "it comes from an agent that has read private text"


def call_hash(owner: str, tool: str, arguments: Arguments) -> str:
    """Identify a call by its tool and its arguments, in whatever order these are written, and by whose call it is.

    What a call of a tool that acts would change is identified by the subtask, whichever attempt makes the call.
    """
    return sha256(canonical([owner, tool, dict(arguments)]).encode()).hexdigest()


def success_key(watched: Watched, arguments: Arguments) -> str:
    """Name the success of a call as the rules see it that wait for it."""
    compared = None if watched.same is None else [watched.same, arguments.get(watched.same)]
    return sha256(canonical([watched.tool, compared]).encode()).hexdigest()


def doubts(policy: Iterable[Obligation], arguments: Arguments) -> list[str]:
    """List why a person decides about a call that rules allow without one, within limits."""
    return [
        f"{name}: {problem}"
        for rule in _automatic(policy)
        for name, allowed in rule.within.items()
        if (problem := _beyond(arguments.get(name), allowed))
    ]


def is_judged(policy: Iterable[Obligation]) -> bool:
    """Whether a model has to expect a call before it is made without a person."""
    return any(rule.judged for rule in _automatic(policy))


def is_listed(policy: Iterable[Obligation], name: str, value: JsonValue) -> bool:
    """Whether a rule lists a value of an argument; the digits of a number within a range can spell private text."""
    listed = (rule.within.get(name) for rule in _automatic(policy))
    return any(isinstance(values, tuple) and not _beyond(value, values) for values in listed)


def _automatic(policy: Iterable[Obligation]) -> Iterable[ToolRule]:
    return (each.rule for each in policy if each.rule and each.rule.approval == "auto" and each.mode == "enforce")


def _beyond(value: JsonValue, allowed: float | tuple[str, ...]) -> str:
    """Say what keeps a value from being allowed; empty if nothing does. What is of another kind never is."""
    if not isinstance(allowed, tuple):
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= allowed:
            return ""
        return f"is not a number from 0 to {allowed:g}"
    is_listed = isinstance(value, str) and any(_matches(value, one) for one in allowed)
    return "" if is_listed else "is not one of the values that need no approval"


def _matches(value: str, listed: str) -> bool:
    if listed.startswith("@"):
        return bool(_LOCAL_PART.fullmatch(value.removesuffix(listed))) and value.endswith(listed)
    if _SITE.fullmatch(listed):
        return value.startswith(listed) and bool(_REST_OF_ADDRESS.fullmatch(value.removeprefix(listed)))
    return value == listed


class PolicyLedger(Carried):
    """What the calls of a whole session have used of its policies."""

    calls: dict[str, int] = left_out({})
    """By the key of the obligation, as are sums."""
    sums: dict[str, Decimal] = left_out({})
    succeeded: tuple[str, ...] = left_out(())
    """Keys of successes, in order."""

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
    """Read the amount that a rule adds up; None if it is not a usable number."""
    if rule is None or rule.at_most_sum is None:
        return None
    value = arguments.get(rule.at_most_sum.argument)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return Decimal(str(value)) if 0 <= value <= _LARGEST else None  # NaN is neither


def why_approved(
    arguments: Arguments, *, kept: Collection[str], said: Collection[str], policy: Collection[Obligation], calls: int
) -> str:
    """Say why a person decides about a call that reaches out after private text was read; empty if it may be made.

    Args:
        arguments: of the call.
        kept: arguments that are not sent anywhere.
        said: the user's own words.
        policy: what binds the tool; values that a rule lists may be sent.
        calls: how many calls that reach out the conversation has made since.
    """
    if calls >= MOST_UNASKED:
        return f"{_READ} and has made {calls} calls that reach out"
    sent = {name: value for name, value in arguments.items() if name not in kept}
    own = [name for name, value in sent.items() if not (is_listed(policy, name, value) or _is_said(value, said))]
    if not own:
        return ""
    names = ", ".join(printable(name, 60) for name in own[:5])
    return f"{_READ}, and {names} is neither in the user's own words nor in a list of the crew"


def _is_said(value: JsonValue, said: Collection[str]) -> bool:
    """Whether a value stands in what the user has said, letter by letter; of a list one item at most, no list again."""
    match value:
        case None | "" | []:
            return True
        case str() | int() | float() if not isinstance(value, bool):
            return any(_stands(str(value), text) for text in said)
        case [str() | int() | float() as item]:
            return _is_said(item, said)
        case _:
            return value == {}


def _stands(value: str, text: str) -> bool:
    """Whether a value is in a text as whole words; `in` is linear, however often the text repeats itself."""
    return value in text and _by_words(value) in _by_words(text)


def _by_words(text: str) -> str:
    return _WORD.sub("\0\\g<0>\0", text)
