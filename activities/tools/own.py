"""The operator's own tools: added by plug-ins, and all checked together when a worker starts."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import ModuleType
from typing import Any, cast

from pydantic import JsonValue
from temporalio.exceptions import ApplicationError

from activities.backends import Choice, SettingsError
from activities.contracts.tool import LookUp, LookUpResult, Tool, ToolAnswer, ToolContext, ToolSpec
from activities.models.schemas import UnfitSchema, strict
from activities.tools.recall import NOTE
from chargehand.contracts import Capability
from chargehand.errors import ChargehandError
from chargehand.plugins import Extension
from chargehand.tool_signature import Given, Provider, open_dependency
from chargehand.tools import Tool as Definition
from chargehand.wire import ErrorType

_Definition = Definition[..., Any]


@dataclass(frozen=True)
class FunctionTool:
    """A tool function as workers use it."""

    definition: _Definition
    dependencies: Mapping[Provider, object]
    threads: ThreadPoolExecutor

    @property
    def spec(self) -> ToolSpec:
        definition = self.definition
        limit, settles_within = definition.time_limit, definition.settles_within
        return ToolSpec(
            name=definition.name,
            description=definition.signature.description,
            parameters=dict(definition.signature.schema),
            acts=definition.acts,
            idempotent=definition.idempotent,
            repeatable=definition.repeatable,
            approval=definition.approval,
            own_step=definition.own_step,
            credentials=definition.credentials,
            reads_elsewhere="reads_private" in definition.capabilities,
            time_limit_seconds=limit.total_seconds() if limit else None,
            settles_within_seconds=None if settles_within is None else settles_within.total_seconds(),
        )

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What the tool lets an agent do, as declared by its author."""
        return self.definition.capabilities

    async def use(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> ToolAnswer:
        """Call the function. The cause of an `ApplicationError` may contain secrets; models see only its type."""
        try:
            return await self.definition.use(arguments, Given(context, self.dependencies, self.threads))
        except Exception as error:
            raise ApplicationError(type(error).__name__, type=ErrorType.TOOL_UNAVAILABLE) from error

    @property
    def look_up(self) -> LookUp | None:
        return self._look_up if self.definition.outcome_lookup else None

    async def _look_up(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> LookUpResult:
        async with asyncio.timeout(self.spec.time_limit_seconds):
            return await self.definition.look_up(arguments, Given(context, self.dependencies, self.threads))


def find_own_tools(extensions: Iterable[Extension], taken: Iterable[str] = ()) -> tuple[_Definition, ...]:
    """Collect the tools that plug-ins add; names in `taken` are refused. Raises `PluginError`, `SettingsError`."""
    definitions_by_id: dict[int, _Definition] = {}
    for extension in extensions:
        loaded = extension.load(object)
        values: Iterable[object] = vars(loaded).values() if isinstance(loaded, ModuleType) else [loaded]
        tools = [cast("_Definition", value) for value in values if isinstance(value, Definition)]
        if not tools:
            raise SettingsError(
                f"The plug-in '{extension.plugin}': {extension.target} has no tools; decorate a function "
                "with `@tool(…)`."
            )
        definitions_by_id |= {id(each): each for each in tools}
    definitions = tuple(definitions_by_id.values())
    check_own_tools(definitions, taken)
    return definitions


async def open_own_tools(
    definitions: Sequence[_Definition],
    threads: int,
    closing: AsyncExitStack,
    replaced: Mapping[Provider, object] | None = None,
) -> dict[str, Tool]:
    """Build tools, whose synchronous functions share threads, and open each dependency once unless it is replaced.

    Everything is closed with `closing`. Raises `SettingsError`.
    """
    if not definitions:
        return {}
    pool = ThreadPoolExecutor(threads, thread_name_prefix="tools")
    closing.callback(pool.shutdown, wait=False, cancel_futures=True)
    dependencies: dict[Provider, object] = dict(replaced or {})
    for definition in definitions:
        for provider in definition.providers:
            if provider not in dependencies:
                dependencies[provider] = await _open(provider, definition, closing)
    return {definition.name: FunctionTool(definition, dependencies, pool) for definition in definitions}


def choose_own_tools(extensions: Sequence[Extension], taken: Iterable[str] = ()) -> Choice:
    """Describe the operator's own tools for `doctor`."""
    plugins = ", ".join(dict.fromkeys(each.plugin for each in extensions))
    where = f"added by {plugins}" if plugins else "no plug-in adds any"
    try:
        definitions = find_own_tools(extensions, taken)
    except ChargehandError as error:
        return Choice("own tools", plugins, where, problem=str(error))
    return Choice("own tools", ", ".join(map(_describe, definitions)) or "none", where)


def _describe(definition: _Definition) -> str:
    marks = [mark for mark, holds in (("acts", definition.acts), ("approval", definition.approval)) if holds]
    return f"{definition.name} ({', '.join(marks)})" if marks else definition.name


def check_own_tools(definitions: Sequence[_Definition], taken: Iterable[str]) -> None:
    """Check that names differ, and that each tool's arguments can be described to models. Raises `SettingsError`."""
    owners = dict.fromkeys((*taken, NOTE.name), "Chargehand has a tool of that name")
    for definition in definitions:
        if definition.name in owners:
            raise SettingsError(f"{definition.where}: {owners[definition.name]}; rename the function")
        owners[definition.name] = f"{definition.where} has that name, too"
        if definition.settles_within is not None and definition.outcome_lookup is None:
            raise SettingsError(f"{definition.where}: settles_within: it has no lookup that could wait; leave it out")
        try:
            strict(definition.signature.schema)
        except UnfitSchema as error:
            raise SettingsError(f"{definition.where}: models cannot be told its arguments: {error}") from error


async def _open(provider: Provider, definition: _Definition, closing: AsyncExitStack) -> object:
    try:
        return await open_dependency(provider, closing)
    except Exception as error:
        name = getattr(provider, "__name__", str(provider))
        problem = f"its dependency '{name}' cannot be opened: {type(error).__name__}: {error}"
        raise SettingsError(f"{definition.where}: {problem}") from error
