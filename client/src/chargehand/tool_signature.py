"""Tools from functions: names, arguments and JSON Schemas derived from signatures and docstrings."""

import asyncio
import contextvars
import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import Executor
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Final, cast, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, JsonValue, PydanticUserError, create_model
from pydantic.fields import FieldInfo

from chargehand.contracts import Capability, Contract
from chargehand.contracts.problems import join_problems

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,39}")
_LONGEST_DESCRIPTION: Final = 4_000
_SECTION: Final = re.compile(r"^(Args|Returns|Raises|Yields|Examples?|Notes?):[ \t]*$", re.MULTILINE)
_ARGUMENT: Final = re.compile(r"(\w+)(?: \([^)]*\))?:(.*)")

Provider = Callable[[], object]
"""Returns a dependency, or an awaitable of it, or a context manager that is entered and closed with the worker."""


class ToolContext(Contract):
    """The session and agent for which a tool runs. A parameter of this type is hidden from the model."""

    session: str
    agent: str
    idempotency_key: str
    """Identifies the call across attempts and resets; services that accept such a key apply the call once."""
    documents: tuple[str, ...] = ()
    """The session's documents, as in its request."""
    tenant: str = "default"
    """The session's tenant."""
    reads: tuple[Capability, ...] = ()
    """For an acting tool: kinds of text that its agent reads, on which arguments may be based."""
    credentials: Mapping[str, str] = Field(default={}, repr=False, exclude=True)
    """The calling user's credentials that the tool requests by name: `@tool(credentials=["crm"])`."""


@dataclass(frozen=True)
class Depends:
    """Marks a parameter that the worker supplies: `shop: Annotated[Shop, Depends(open_shop)]`.

    The provider is called once per worker, at its start. Its result is awaited if it is awaitable, entered if it
    is a context manager, and closed with the worker.
    """

    provider: Provider


class ToolDefinitionError(TypeError):
    """A function is not usable as a tool; the message names the file, the function and the remedy."""

    def __init__(self, where: str, problems: Iterable[str]) -> None:
        super().__init__(f"{where}: {join_problems(problems)}")


@dataclass(frozen=True)
class Given:
    """What a worker passes to a tool function in addition to the model's arguments."""

    context: ToolContext
    dependencies: Mapping[Provider, object] = field(default_factory=dict[Provider, object])
    threads: Executor | None = None
    """Runs synchronous functions; the event loop's default executor if absent."""


@dataclass(frozen=True)
class Signature:
    """A function as a tool."""

    function: Callable[..., object]
    name: str
    where: str
    """The function's file, line and name."""
    description: str
    parameters: Mapping[str, Any]
    """The fields of `arguments`."""
    dependencies: Mapping[str, Provider]
    contexts: tuple[str, ...]
    """Parameters that take the `ToolContext`."""
    arguments: type[BaseModel]
    """Model of the arguments as the function takes them."""
    schema: Mapping[str, JsonValue]
    """JSON Schema of the arguments; an argument with a default may be null."""

    def read_arguments(self, arguments: Mapping[str, JsonValue]) -> dict[str, object]:
        """Validate a model's arguments; null means the default."""
        values = {
            name: value
            for name, value in arguments.items()
            if value is not None or name not in self.parameters or self.parameters[name][1].is_required()
        }
        read = self.arguments.model_validate(values)
        return {name: getattr(read, name) for name in self.parameters}

    async def call(self, values: Mapping[str, object], given: Given) -> object:
        """Call the function, in a thread if it is synchronous, with the values that it takes."""
        arguments = {name: value for name, value in values.items() if name in self.parameters}
        arguments |= {name: given.dependencies[provider] for name, provider in self.dependencies.items()}
        call = partial(self.function, **arguments, **dict.fromkeys(self.contexts, given.context))
        if inspect.iscoroutinefunction(self.function):
            return await cast("Awaitable[object]", call())
        run = partial(contextvars.copy_context().run, call)
        return await asyncio.get_running_loop().run_in_executor(given.threads, run)


async def open_dependency(provider: Provider, closing: AsyncExitStack) -> object:
    """Call a provider, await its result, and enter it if it is a context manager."""
    dependency = provider()
    if inspect.isawaitable(dependency):
        dependency = await dependency
    if isinstance(dependency, AbstractAsyncContextManager):
        return await closing.enter_async_context(cast("AbstractAsyncContextManager[object]", dependency))
    if isinstance(dependency, AbstractContextManager):
        return closing.enter_context(cast("AbstractContextManager[object]", dependency))
    return dependency


def read_signature(function: Callable[..., object], *, needs_docstring: bool = True) -> Signature:
    name = getattr(function, "__name__", type(function).__name__)
    where = _where(function, name)
    description, described = _read_docstring(inspect.getdoc(function) or "")
    problems = _naming_problems(name, description) if needs_docstring else []
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        problems.append(f"its annotations cannot be read: {error}; import what they name at run time")
        raise ToolDefinitionError(where, problems) from error
    fields: dict[str, Any] = {}
    dependencies: dict[str, Provider] = {}
    contexts: list[str] = []
    parameters = inspect.signature(function).parameters
    for parameter in parameters.values():
        hint = hints.get(parameter.name, Any)
        marks = [mark for mark in _metadata(hint) if isinstance(mark, Depends)]
        if problem := _problem(parameter, hint):
            problems.append(f"{parameter.name}: {problem}")
        elif hint is ToolContext:
            contexts.append(parameter.name)
        elif marks:
            dependencies[parameter.name] = marks[0].provider
        else:
            fields[parameter.name] = (hint, _field(hint, parameter, described.get(parameter.name, "")))
    problems += [
        f"{each}: its docstring describes it, and it has no such parameter"
        for each in described
        if (each not in parameters)
    ]
    if problems:
        raise ToolDefinitionError(where, problems)
    arguments, schema = _schema(where, name, fields)
    return Signature(function, name, where, description, fields, dependencies, tuple(contexts), arguments, schema)


def _naming_problems(name: str, description: str) -> list[str]:
    problems: list[str] = []
    if not _NAME.fullmatch(name):
        problems.append("its name must be lower case: a letter, then letters, digits and `_`, 40 characters at most")
    if not description:
        problems.append("has no docstring; say in one what it does and when to use it: the model reads it")
    if len(description) > _LONGEST_DESCRIPTION:
        problems.append(f"its docstring has more than {_LONGEST_DESCRIPTION:,} characters; shorten it")
    return problems


def _where(function: Callable[..., object], name: str) -> str:
    try:
        code = inspect.unwrap(function).__code__  # pyright: ignore[reportFunctionMemberAccess]  # what has none has no file
    except AttributeError:
        return name
    return f"{code.co_filename}:{code.co_firstlineno}: {name}"


def _problem(parameter: inspect.Parameter, hint: object) -> str:
    if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY}:
        return "models pass arguments by name; make it a plain parameter"
    if parameter.annotation is parameter.empty or hint is Any or hint is object:
        return "has no type; annotate it, since the model is told what to pass"
    if parameter.name.startswith("_"):
        return "begins with `_`; choose another name"
    return ""


def _metadata(hint: object) -> tuple[object, ...]:
    return get_args(hint)[1:] if get_origin(hint) is Annotated else ()


def _field(hint: object, parameter: inspect.Parameter, description: str) -> FieldInfo:
    """Build an argument's field, described by its `Field(description=…)` or else by the docstring."""
    own = any(isinstance(mark, FieldInfo) and mark.description for mark in _metadata(hint))
    default: Any = ... if parameter.default is parameter.empty else parameter.default
    return Field(default) if own or not description else Field(default, description=description)


def _nullable(hint: Any, field: FieldInfo) -> tuple[Any, FieldInfo]:
    """Allow null for a default, since providers require every argument."""
    if field.is_required():
        return hint, field
    marks = [mark.description for mark in _metadata(hint) if isinstance(mark, FieldInfo) and mark.description]
    text = field.description or next(iter(marks), "")
    default = "nothing" if field.default is None else repr(field.default)
    return hint | None, Field(description=f"{text} (null: {default})".strip())


def _schema(where: str, name: str, fields: Mapping[str, Any]) -> tuple[type[BaseModel], dict[str, JsonValue]]:
    create: Any = create_model  # its overloads do not accept a mapping of fields
    try:
        arguments: type[BaseModel] = create(f"{name}_arguments", __config__=ConfigDict(extra="forbid"), **fields)
        shown: type[BaseModel] = create(f"{name}_shown", **{each: _nullable(*one) for each, one in fields.items()})
        schema: dict[str, JsonValue] = shown.model_json_schema()
    except (PydanticUserError, NameError, TypeError) as error:
        reason = str(error).partition("\n")[0]
        raise ToolDefinitionError(where, [f"its parameters have no JSON Schema: {reason}; use JSON types"]) from error
    schema.pop("title", None)
    return arguments, {"type": "object", "properties": {}} | schema | {"additionalProperties": False}


def _read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Split a Google-style docstring into the text before its sections and the descriptions of arguments."""
    description, *sections = _SECTION.split(text)
    headings, bodies = sections[::2], sections[1::2]
    return description.strip(), _read_arguments(dict(zip(headings, bodies, strict=True)).get("Args", ""))


def _read_arguments(body: str) -> dict[str, str]:
    lines = [line for line in body.splitlines() if line.strip()]
    indent = min((len(line) - len(line.lstrip()) for line in lines), default=0)
    arguments: dict[str, str] = {}
    current = ""
    for line in lines:
        named = _ARGUMENT.fullmatch(line[indent:])
        if named:
            current = named[1]
            arguments[current] = named[2].strip()
        elif current:
            arguments[current] = f"{arguments[current]} {line.strip()}".strip()
    return arguments
