"""Run tools, crews and sessions in your own tests, without a server and without a provider."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from os import PathLike
from typing import Any, Final

from pydantic import JsonValue

from chargehand.contracts import PendingCall, Report, SessionRequest
from chargehand.errors import MissingExtra
from chargehand.scripts import Asked, Script, ToolUse
from chargehand.tool_signature import Given, Provider, ToolContext, open_dependency
from chargehand.tools import Tool, ToolAnswer

_IMPLEMENTATION: Final = "chargehand_worker"
CONTEXT: Final = ToolContext(session="session-1", agent="agent", idempotency_key="key-1")
"""The context of a tool that a test runs alone."""


@dataclass(frozen=True)
class ScriptedRun:
    """A session that was run with a script."""

    report: Report
    turns: tuple[Asked, ...]
    """What the model was asked for, in order; `prompt` is all that it was told."""
    tool_calls: tuple[ToolUse, ...]
    """The calls that reached a tool, in order."""


async def run_tool(
    tool: Tool[..., Any],
    arguments: Mapping[str, JsonValue],
    *,
    context: ToolContext = CONTEXT,
    dependencies: Mapping[Provider, object] | None = None,
) -> ToolAnswer:
    """Call a tool as a worker does, with a model's arguments.

    Args:
        tool: the tool.
        arguments: as a model writes them.
        context: of the call.
        dependencies: what providers are replaced by; others are opened, and closed afterwards.
    """
    async with opened(tool.providers, dependencies or {}) as available:
        return await tool.use(arguments, Given(context, available))


async def run_session(
    request: SessionRequest,
    script: Script,
    *,
    crews: str | PathLike[str] | None = None,
    tools: Sequence[Tool[..., Any]] = (),
    dependencies: Mapping[Provider, object] | None = None,
    answers: Mapping[str, ToolAnswer] | None = None,
    approve: Callable[[PendingCall], bool] | None = None,
) -> ScriptedRun:
    """Run a session with a scripted model: the real workflows, prompts, checks and tools, without a server.

    Its clock stands still while tools run, and jumps over every wait.

    Args:
        request: of the session.
        script: what the model replies.
        crews: a folder of crew files, checked as a worker does; they add to the crews that come with Chargehand.
        tools: your own tools.
        dependencies: what their providers are replaced by.
        answers: what other tools answer, by their names, instead of being used.
        approve: decides about tool calls that wait for a person; without it they are denied when their time is up.

    Raises:
        MissingExtra: the worker is not installed.
        SessionFailed: the session failed.
        UnusableSettings: a crew or a tool cannot be used.
        ValueError: the script replies with a field that a kind of turn does not have, or `answers` names no tool.
    """
    try:
        implementation = import_module(f"{_IMPLEMENTATION}.testing")
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith(_IMPLEMENTATION):
            raise
        raise MissingExtra("A session in a test", "worker") from None
    run: ScriptedRun = await implementation.run_session(
        request,
        script,
        crews=crews,
        tools=tools,
        dependencies=dependencies or {},
        answers=answers or {},
        approve=approve,
    )
    return run


@asynccontextmanager
async def opened(
    providers: Sequence[Provider], replaced: Mapping[Provider, object]
) -> AsyncGenerator[Mapping[Provider, object]]:
    """Open dependencies, and close them afterwards."""
    async with AsyncExitStack() as closing:
        yield {
            provider: replaced[provider] if provider in replaced else await open_dependency(provider, closing)
            for provider in providers
        }
