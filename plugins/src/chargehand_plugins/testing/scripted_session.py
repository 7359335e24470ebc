"""Run tools, crews and sessions in your own tests, without a server or provider."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from importlib.util import find_spec
from os import PathLike
from types import ModuleType
from typing import Any, Final, TypedDict, Unpack

from pydantic import JsonValue

from chargehand.contracts import ConversationRequest, PendingCall, SessionRequest
from chargehand.errors import MissingExtra
from chargehand.tool_signature import Given, Provider, ToolContext, open_dependency
from chargehand.tools import Tool, ToolAnswer
from chargehand_plugins.testing.scripts import Script, ScriptedConversation, ScriptedRun

_WORKER: Final = "chargehand_worker"
CONTEXT: Final = ToolContext(session="session-1", agent="agent", idempotency_key="key-1")
"""The tool context for a test that runs a tool on its own."""


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
        arguments: as written by a model.
        context: the call's context.
        dependencies: replacements of providers; others are opened, and closed afterwards.
    """
    async with opened(tool.providers, dependencies or {}) as available:
        return await tool.use(arguments, Given(context, available))


class Means(TypedDict, total=False):
    """The environment of a scripted session."""

    crews: str | PathLike[str] | None
    """A folder of crew files, checked as a worker does; they add to the crews that come with Chargehand."""
    tools: Sequence[Tool[..., Any]]
    """Your own tools."""
    dependencies: Mapping[Provider, object]
    """Replacements of their providers."""
    answers: Mapping[str, ToolAnswer]
    """Answers of other tools by name, which are then not called."""
    approve: Callable[[PendingCall], bool] | None
    """Decides about tool calls that wait for a person; without it, they are denied when their time is up."""
    state: str | PathLike[str] | None
    """A folder for the worker's files, shared with later sessions; by default they are deleted."""
    session: str
    """Its id, which must be different for each session that shares a folder."""


async def run_session(request: SessionRequest, script: Script, **means: Unpack[Means]) -> ScriptedRun:
    """Run a session with a scripted model: the real workflows, prompts, checks and tools, without a server.

    Its clock stops while tools run, and skips every wait.

    Args:
        request: the session's request.
        script: the model's replies.
        means: see `Means`.

    Raises:
        MissingExtra: the worker is not installed.
        SessionFailed: the session failed.
        UnusableSettings: a crew or a tool is invalid.
        ValueError: the script replies with a field that a kind of turn does not have, `answers` names no tool, or
            the request follows another session.
    """
    return await _in_memory().run_session(request, script, means)


async def run_conversation(
    request: ConversationRequest, messages: Sequence[str], script: Script, **means: Unpack[Means]
) -> ScriptedConversation:
    """Run a conversation like `run_session`: each message is sent once the previous one is answered.

    It is closed when the last one is answered and no job is running. Raises like `run_session`, and `ValueError` for a
    message that is refused.
    """
    return await _in_memory().run_conversation(request, messages, script, means)


def _in_memory() -> ModuleType:
    if find_spec(_WORKER) is None:
        raise MissingExtra("A session in a test", "worker")
    return import_module("chargehand_plugins.testing.session_in_memory")


@asynccontextmanager
async def opened(
    providers: Sequence[Provider], replaced: Mapping[Provider, object]
) -> AsyncGenerator[Mapping[Provider, object]]:
    async with AsyncExitStack() as closing:
        yield {
            provider: replaced[provider] if provider in replaced else await open_dependency(provider, closing)
            for provider in providers
        }
