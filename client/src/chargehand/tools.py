"""Custom tools: typed Python functions that agents call.

    @tool(capabilities=["reads_private"])
    def stock_level(item: str, warehouse: Literal["north", "south"] = "north") -> int:
        \"\"\"Return how many pieces of an item are in stock.

        Args:
            item: The item's number, such as A-17.
        \"\"\"

A worker gets them from a plug-in: see `chargehand.plugins`.
"""

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from typing import Any, Final, Generic, ParamSpec, TypeVar, cast, get_args

from pydantic import JsonValue, ValidationError
from pydantic_core import PydanticSerializationError, to_json

from chargehand.contracts import Artifact, Capability, Contract, Source, left_out
from chargehand.contracts.base import NAME, NAME_WORDS
from chargehand.contracts.problems import describe_problems, join_problems
from chargehand.tool_signature import (
    Depends,
    Given,
    Provider,
    Signature,
    ToolContext,
    ToolDefinitionError,
    read_signature,
)

__all__ = [
    "NOT_YET_KNOWN",
    "Depends",
    "NotYetKnown",
    "Tool",
    "ToolAnswer",
    "ToolContext",
    "ToolDefinitionError",
    "ToolError",
    "tool",
]

LONGEST_RESULT: Final = 8_000
"""Maximum characters of a result for a model; longer ones are truncated."""
_LONGEST_TITLE: Final = 200
LONGEST_TIME_LIMIT: Final = timedelta(minutes=10)
LONGEST_SETTLING: Final = timedelta(minutes=5)  # of the 10 minutes for all attempts at a call

_P = ParamSpec("_P")
_R = TypeVar("_R")


class ToolError(Exception):
    """An error that the model can correct: the model reads the message, and nothing was changed.

    Any other exception is a fault: the call is retried if that is safe, and the agent is told that it failed.
    """


class NotYetKnown(Enum):
    NOT_YET_KNOWN = "not yet known"


NOT_YET_KNOWN: Final = NotYetKnown.NOT_YET_KNOWN
"""Returned by a lookup if a call may still be applied; None means “not applied”."""


class ToolAnswer(Contract):
    """The answer of a tool. A tool function returns one to name its sources."""

    ok: bool = True
    output: dict[str, JsonValue] = {}
    """What the model reads in addition to the texts of `sources`; includes `error` if `ok` is false."""
    sources: tuple[Source, ...] = ()
    """Sources that were read, with their text in `quote`."""
    artifacts: tuple[Artifact, ...] = ()
    """Files created by the tool."""
    pictures: tuple[str, ...] = left_out(())
    """Pages of the session's documents, such as `photo.png#page=1`, and stored pictures, for models that can see."""
    is_private: bool = left_out(False)
    """Whether it contains the user's private text, for a tool that does not declare it."""


def failed(error: str) -> ToolAnswer:
    """Build the answer of a failed call; `error` says what happened and what to do instead."""
    return ToolAnswer(ok=False, output={"error": error})


@dataclass(eq=False)
class Tool(Generic[_P, _R]):
    """A function that agents may call, with its properties. Calling it calls the function."""

    function: Callable[_P, _R]
    capabilities: frozenset[Capability]
    acts: bool
    idempotent: bool
    repeatable: bool
    approval: bool
    time_limit: timedelta | None
    settles_within: timedelta | None
    own_step: bool
    credentials: tuple[str, ...]
    signature: Signature
    outcome_lookup: Signature | None = field(default=None, init=False)

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return self.function(*args, **kwargs)

    @property
    def name(self) -> str:
        return self.signature.name

    @property
    def where(self) -> str:
        return self.signature.where

    def lookup(self, function: Callable[..., object]) -> Callable[..., object]:
        """Register a function that finds out whether a call was applied, for use after a crash.

        It takes any of the tool's arguments, a `ToolContext` and dependencies, by the same names. It returns what the
        tool would have returned, None if the call was not applied, or `NOT_YET_KNOWN`; any other empty value, such as
        False, counts as not yet known.
        """
        if not self.acts:
            raise ToolDefinitionError(
                self.where, [f"lookup: '{self.name}' changes nothing, so it is just called again; pass acts=True"]
            )
        finder = read_signature(function, needs_docstring=False)
        unknown = sorted(finder.parameters.keys() - self.signature.parameters.keys())
        if unknown:
            raise ToolDefinitionError(finder.where, [f"{name}: '{self.name}' has no such argument" for name in unknown])
        self.outcome_lookup = finder
        return function

    @property
    def providers(self) -> tuple[Provider, ...]:
        functions = [self.signature, *([self.outcome_lookup] if self.outcome_lookup else [])]
        return tuple(dict.fromkeys(provider for each in functions for provider in each.dependencies.values()))

    async def use(self, arguments: Mapping[str, JsonValue], given: Given) -> ToolAnswer:
        """Call the function with a model's arguments; a mistake by the model is an answer, but a fault raises."""
        try:
            values = self.signature.read_arguments(arguments)
        except ValidationError as error:
            problems = join_problems(describe_problems(error, self.signature.arguments))
            return failed(f"The arguments do not fit: {problems}. Nothing was done.")
        try:
            result = await self.signature.call(values, given)
        except ToolError as error:
            return failed(str(error)[:LONGEST_RESULT] or "It failed, and gave no reason.")
        return _answer(self.name, arguments, result)

    async def look_up(self, arguments: Mapping[str, JsonValue], given: Given) -> ToolAnswer | NotYetKnown | None:
        """Find out whether a call was applied; None if it was not."""
        if self.outcome_lookup is None:
            raise ToolDefinitionError(self.where, [f"'{self.name}' has no lookup"])
        result = await self.outcome_lookup.call(self.signature.read_arguments(arguments), given)
        if result is None:
            return None
        return _answer(self.name, arguments, result) if result and result is not NOT_YET_KNOWN else NOT_YET_KNOWN


def tool(
    *,
    capabilities: Collection[Capability],
    acts: bool = False,
    idempotent: bool = False,
    repeatable: bool = False,
    approval: bool = False,
    time_limit: timedelta | None = None,
    settles_within: timedelta | None = None,
    own_step: bool = False,
    credentials: Collection[str] = (),
) -> Callable[[Callable[_P, _R]], Tool[_P, _R]]:
    """Turn a function into a tool; a model sees its name, docstring and typed parameters.

    Args:
        capabilities: what it lets an agent do: `reads_untrusted` (text by strangers), `reads_private` (the
            user's own text), `reaches_out` (sends arguments somewhere). Empty for a computation.
        acts: whether it has side effects. It is then applied once: after a crash it is not called again
            unless its `lookup` returns that it was not applied, or it is idempotent.
        idempotent: whether calls with the same `ToolContext.idempotency_key` take effect once.
        repeatable: whether the same call may return another result at any time, like a clock. An agent may then
            repeat it freely; otherwise only after something in the session has acted.
        approval: whether a person must approve each call.
        time_limit: maximum duration of a call, up to 10 minutes; without one, it may be silent for 90 seconds.
        settles_within: how long after its start a call may still be applied, up to 5 minutes; its `lookup` is called
            after that. By default, a call that is not applied is looked up twice, and then a person decides.
        own_step: whether each call is a separate activity. By default, a call that changes nothing, needs no approval
            and cannot send out private text runs within its turn for up to 5 seconds, and then again as an activity.
        credentials: names of the calling user's credentials that it needs, passed in `ToolContext.credentials`. A call
            for a request without them is refused; results that repeat one are redacted for models.

    Raises:
        ToolDefinitionError: the function is not usable as a tool; the message names file, function and remedy.
    """
    flags = {"acts": acts, "idempotent": idempotent, "repeatable": repeatable, "approval": approval}
    times = {"time_limit": time_limit, "settles_within": settles_within}
    names = {"capabilities": capabilities, "credentials": credentials}
    wrong = _wrong_types(flags | {"own_step": own_step}, times, names)

    def make(function: Callable[_P, _R]) -> Tool[_P, _R]:
        signature = read_signature(function)
        if wrong:
            raise ToolDefinitionError(signature.where, wrong)
        options = (acts, idempotent, repeatable, approval, time_limit, settles_within, own_step, tuple(credentials))
        new_tool = Tool(function, frozenset(capabilities), *options, signature)
        if problems := list(_problems(new_tool)):
            raise ToolDefinitionError(new_tool.where, problems)
        return new_tool

    return make


def _wrong_types(flags: Mapping[str, object], times: Mapping[str, object], names: Mapping[str, object]) -> list[str]:
    return [
        *(f"{name}: must be True or False" for name, value in flags.items() if not isinstance(value, bool)),
        *(f"{name}: must be a timedelta" for name, value in times.items() if not isinstance(value, timedelta | None)),
        *(f"{name}: must be a list of names" for name, value in names.items() if not _are_names(value)),
    ]


def _are_names(value: object) -> bool:
    listed = isinstance(value, Collection) and not isinstance(value, str)
    return listed and all(isinstance(each, str) for each in cast("Collection[object]", value))


def _problems(made: Tool[..., Any]) -> Iterator[str]:
    known = get_args(Capability)
    for unknown in sorted(made.capabilities.difference(known)):
        yield f"capabilities: there is no '{unknown}'; there are {', '.join(known)}"
    if made.time_limit is not None and not timedelta(0) < made.time_limit <= LONGEST_TIME_LIMIT:
        yield "time_limit: must be above 0 and at most 10 minutes; have longer work done elsewhere"
    settles = made.acts and not made.idempotent and timedelta(0) <= (made.settles_within or timedelta(0))
    if made.settles_within is not None and not (settles and made.settles_within <= LONGEST_SETTLING):
        yield "settles_within: from 0 to 5 minutes, for a tool that acts and is not idempotent"
    if made.idempotent and not made.acts:
        yield "idempotent: says something of tools that act; pass acts=True, or leave it out"
    for name in made.credentials:
        if not re.fullmatch(NAME, name):
            yield f"credentials: '{name}' {NAME_WORDS}"
    if made.repeatable and made.acts:
        yield "repeatable: says something of tools that only read; a call that acts is applied once"


def _answer(name: str, arguments: Mapping[str, JsonValue], result: object) -> ToolAnswer:
    """Build a citable answer from a function's return value."""
    if isinstance(result, ToolAnswer):
        return result
    try:
        text = result if isinstance(result, str) else to_json(result).decode()
    except PydanticSerializationError as error:
        raise TypeError(f"The tool '{name}' returned a {type(result).__name__}, which is not JSON: {error}") from error
    if result is None:
        return ToolAnswer(output={"done": True})
    output: dict[str, JsonValue] = {}
    if len(text) > LONGEST_RESULT:
        output = {"note": f"These are the first {LONGEST_RESULT:,} of {len(text):,} characters. Ask for less."}
    arguments_json = json.dumps(arguments, sort_keys=True, ensure_ascii=False)
    ref = f"{name}:{hashlib.sha256(arguments_json.encode()).hexdigest()[:8]}"
    source = Source(ref=ref, title=f"{name} {arguments_json}"[:_LONGEST_TITLE], quote=text[:LONGEST_RESULT])
    return ToolAnswer(output=output, sources=(source,))
