"""What an agent that has read private text may send out without a person: the user's own words, and fixed lists.

The rule says what may pass, never what may not, so that no encoding of private text gets by. Which of the user's words
are sent, and whether a call is made at all, still tells something; so lists and the number of such calls are bounded.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from pydantic import JsonValue

from chargehand.contracts import Obligation
from chargehand.contracts.problems import printable
from workflows.rules.tool_policy import Arguments, is_within

MOST_UNASKED: Final = 8
"""Calls of tools that reach out, in one conversation that has read private text, without a person."""
_READ: Final = "it comes from an agent that has read private text"


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
    own = [name for name, value in sent.items() if not (is_within(policy, name, value) or _is_said(value, said))]
    if not own:
        return ""
    names = ", ".join(printable(name, 60) for name in own[:5])
    return f"{_READ}, and {names} is neither in the user's own words nor in a list of the crew"


def _is_said(value: JsonValue, said: Collection[str]) -> bool:
    """Whether a value stands in what the user has said, letter by letter; of a list one item at most."""
    match value:
        case None | "":
            return True
        case bool():
            return False
        case str() | int() | float():
            return any(_stands(str(value), text) for text in said)
        case list():
            return len(value) <= 1 and all(_is_said(item, said) for item in value)
        case Mapping():
            return not value


def _stands(value: str, text: str) -> bool:
    """Whether a value is in a text as whole words."""
    return any(
        not (text[at - 1 : at].isalnum() and value[0].isalnum())
        and not (text[at + len(value) : at + len(value) + 1].isalnum() and value[-1].isalnum())
        for at in _places(value, text)
    )


def _places(value: str, text: str) -> Iterator[int]:
    at = text.find(value)
    while at >= 0:
        yield at
        at = text.find(value, at + 1)
