"""Calls of plug-ins in workflows. A result of the wrong type fails the session; the error names plug-in and hook."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, cast

from chargehand.converter import non_retryable_error
from chargehand.plugins import Hook, installed, require, require_each
from chargehand.wire import ErrorType

_PURE: Final = {Hook.CLAIM_OBJECTIONS, Hook.UNKNOWN_FIGURES, Hook.DISAGREEMENTS}
"""Hooks whose functions are not asynchronous."""


def hook_functions(hook: Hook, check: Callable[[Any], Any] = lambda _: None) -> list[Callable[..., Any]]:
    """Return the functions of a hook. `check` validates their results; its `TypeError` fails the session."""
    plugins = installed()
    call = _call if hook in _PURE else _call_and_await
    pairs = zip(plugins.hooks.get(hook, ()), plugins.functions(hook), strict=True)
    return [partial(call, f"The plug-in '{each.plugin}': its hook {hook}", check, function) for each, function in pairs]


def each_of(kind: type) -> Callable[[Any], Any]:
    return partial(require_each, kind)


def optional(kind: type) -> Callable[[Any], Any]:
    def check(value: object) -> object:
        return None if value is None else require(cast("type[object]", kind), value)

    return check


def _call(named: str, check: Callable[[Any], Any], function: Callable[..., Any], *given: object) -> Any:
    return _check(named, check, function(*given))


async def _call_and_await(named: str, check: Callable[[Any], Any], function: Callable[..., Any], *given: object) -> Any:
    return _check(named, check, await _check(named, partial(require, Awaitable), function(*given)))


def _check(named: str, check: Callable[[Any], Any], value: object) -> Any:
    try:
        return check(value)
    except (TypeError, ValueError) as error:
        problem = f"{named} returned an unusable value: {error}; fix or remove it."
        raise non_retryable_error(ErrorType.INTERNAL, problem) from error
