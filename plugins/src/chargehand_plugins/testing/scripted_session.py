"""Run tools, crews and sessions in your own tests, without a server and without a provider."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.util import find_spec
from os import PathLike
from typing import Any, Final

from pydantic import JsonValue

from chargehand.contracts import PendingCall, SessionRequest
from chargehand.errors import MissingExtra
from chargehand.tool_signature import Given, Provider, ToolContext, open_dependency
from chargehand.tools import Tool, ToolAnswer
from chargehand_plugins.testing.scripts import Script, ScriptedRun

_WORKER: Final = "chargehand_worker"
CONTEXT: Final = ToolContext(session="session-1", agent="agent", idempotency_key="key-1")
"""The context of a tool that a test runs alone."""


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
    state: str | PathLike[str] | None = None,
    session: str = CONTEXT.session,
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
        state: a folder for the worker's files, so that another session finds them; by default they are thrown away.
        session: its id; give another one to each session that shares a folder.

    Raises:
        MissingExtra: the worker is not installed.
        SessionFailed: the session failed.
        UnusableSettings: a crew or a tool cannot be used.
        ValueError: the script replies with a field that a kind of turn does not have, `answers` names no tool, or
            the request follows another session.
    """
    if find_spec(_WORKER) is None:
        raise MissingExtra("A session in a test", "worker")
    from chargehand_plugins.testing import session_in_memory

    return await session_in_memory.run_session(
        request,
        script,
        crews=crews,
        tools=tools,
        dependencies=dependencies or {},
        answers=answers or {},
        approve=approve,
        state=state,
        session=session,
    )


@asynccontextmanager
async def opened(
    providers: Sequence[Provider], replaced: Mapping[Provider, object]
) -> AsyncGenerator[Mapping[Provider, object]]:
    async with AsyncExitStack() as closing:
        yield {
            provider: replaced[provider] if provider in replaced else await open_dependency(provider, closing)
            for provider in providers
        }
