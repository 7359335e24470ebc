"""Calls of plug-ins in workflows. A result of the wrong type fails the session, and names the plug-in and its hook."""

from collections.abc import Awaitable, Callable
from functools import partial
from inspect import isawaitable
from typing import Any, Final, TypeVar

from chargehand.converter import non_retryable_error
from chargehand.plugins import Hook, installed, require, require_each
from chargehand.wire import ErrorType

_T = TypeVar("_T")
_Check = Callable[[Any], object]
_PURE: Final = {Hook.CLAIM_OBJECTIONS, Hook.UNKNOWN_FIGURES, Hook.DISAGREEMENTS}
"""Hooks whose functions are not asynchronous."""


def hook_functions(hook: Hook, check: _Check = lambda _: None) -> list[Callable[..., Any]]:
    """Return the functions of a hook, whose results go through `check`: a `TypeError` of it fails the session."""
    plugins = installed()
    pairs = zip(plugins.hooks.get(hook, ()), plugins.functions(hook), strict=True)
    call = _call if hook in _PURE else _call_and_await
    return [partial(call, f"{extension.plugin}': its hook {hook}", check, function) for extension, function in pairs]


def each_of(kind: type[_T]) -> Callable[[Any], list[_T]]:
    return partial(require_each, kind)


def optional(kind: type[_T]) -> Callable[[Any], _T | None]:
    return lambda value: None if value is None else require(kind, value)


def _call(named: str, check: _Check, function: Callable[..., Any], *given: object) -> object:
    return _checked(named, check, function(*given))


async def _call_and_await(named: str, check: _Check, function: Callable[..., Any], *given: object) -> object:
    result = function(*given)
    if isawaitable(result):
        return _checked(named, check, await result)
    return _checked(named, partial(require, Awaitable), result)


def _checked(named: str, check: _Check, result: object) -> object:
    try:
        return check(result)
    except (TypeError, ValueError) as error:
        problem = f"The plug-in '{named} returned what cannot be used: {error}; mend it, or take it out."
        raise non_retryable_error(ErrorType.INTERNAL, problem) from error
