"""Plug-ins: a package or module with a function `register(registry)` that declares what it adds.

    def register(registry: Registry) -> None:
        registry.tools("shop_tools")

A package declares the function in the entry point group `chargehand`; a module without a package is named in
`CHARGEHAND_PLUGINS`. Workers and commands both call it, so it must not import anything heavy: it names targets as
`module:attribute`, which are imported on use.
"""

import os
import re
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from inspect import iscoroutine
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Final, Protocol, TypeVar

from chargehand.errors import ChargehandError

GROUP: Final = "chargehand"
"""The entry point group of plug-ins."""
SETTING: Final = "CHARGEHAND_PLUGINS"
"""Lists plug-in modules, separated by commas."""
SHIPPED: Final = "chargehand-plugins"
"""The distribution of the shipped plug-ins."""
_TARGET: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*(:[^\W\d]\w*(\.[^\W\d]\w*)*)?")
_ERROR_CHARACTERS: Final = 500
_T = TypeVar("_T")


class PluginError(ChargehandError):
    """A plug-in is unusable; the message names it and the remedy."""


class Hook(StrEnum):
    """The points at which the core calls plug-ins, and the functions' signatures."""

    ROUTE = "route"
    """An asynchronous function in the workflow of a session, before it is planned: of the session. Returns the `Plan`
    that it has adopted, or None."""
    BACKUP = "backup"
    """An asynchronous function in the workflow of a session, before a subtask is attempted: of the session and the
    `Subtask`. Returns the subtask as it is attempted, and the tier that its model has instead of its own, or None."""
    REPORT = "report"
    """An asynchronous function in the workflow of a session: of the session and its subtasks' outcomes. Returns the
    `PluginReport` that it wrote, or None."""
    CLAIM_OBJECTIONS = "claim_objections"
    """A pure function of a claim in a report, the quotations and results that support it, and the titles of its
    sources: returns an `Objection` for each reason against it."""
    UNKNOWN_FIGURES = "unknown_figures"
    """A pure function of the values in a report's output by name, the text that they may come from, and the results of
    queries: returns, by name, the figures that are neither in these nor computed from them."""
    DISAGREEMENTS = "disagreements"
    """A pure function of the outcomes of subtasks: returns a `ContradictionDraft` for each difference."""
    SESSION_ENDED = "session_ended"
    """An asynchronous function in the workflow of a session: of the session, its stop reason and its error's type."""
    WAIT = "wait"
    """An asynchronous function in the workflow of a session: of the session, a `Wait` for a person, and the
    `DecisionRecord` once it has ended; None when it begins. The session does not wait for it."""
    BESIDE_UP = "beside_up"
    """An asynchronous context manager of a command's `Connection`, entered while `up` runs; returns lines to print."""
    CHECK_SETTINGS = "check_settings"
    """A function without arguments, for `doctor`: raises `ChargehandError` for a wrong setting that no worker reads."""
    CONSOLE_ROUTES = "console_routes"
    """A function of a function that returns the client, and of the console's address: returns Starlette's routes."""
    CONNECTION = "connection"
    """A function that returns an interceptor for the client that connects."""
    WORKER_START = "worker_start"
    """An asynchronous function of the client of a worker and its settings, called before it polls."""
    WORKFLOW_ACTIVATION = "workflow_activation"
    """A function of a workflow's activation, called before the activation is processed."""


@dataclass(frozen=True)
class Extension:
    """One extension of a plug-in; loading one of the wrong type or that cannot be imported raises `PluginError`."""

    plugin: str
    target: str
    """`module:attribute`, or `module`."""
    name: str = ""
    """Its name in settings or `--help`; empty if it has none."""
    needs: str = ""
    """The variable that it needs, and whose presence selects it."""

    def __post_init__(self) -> None:
        require_each(str, (self.name, self.needs))
        if not _TARGET.fullmatch(self.target):
            raise ValueError(f"{self.target!r} is not `module:attribute`")

    def load(self, kind: type[_T]) -> _T:
        loaded = self._resolve()
        if not isinstance(loaded, kind):
            raise PluginError(f"The plug-in '{self.plugin}': {self.target} is not a {kind.__name__}; mend `register`.")
        return loaded

    def load_function(self) -> Callable[..., Any]:
        loaded = self._resolve()
        if not callable(loaded):
            raise PluginError(f"The plug-in '{self.plugin}': {self.target} is not a function; mend `register`.")
        return loaded

    @contextmanager
    def calling(self, kind: str) -> Generator[None]:
        """Turn an unexpected error of the plug-in's code into a `PluginError` that names it."""
        try:
            yield
        except ChargehandError:
            raise
        except (Exception, SystemExit) as error:
            problem = f"its {kind} {self.name or self.target} failed"
            raise _unusable(self.plugin, problem, error, is_registered=True) from error

    def build(self, kind: type[_T], described: str, *given: object, **options: object) -> _T:
        """Call the function and return its result, which must have this type. Raises `PluginError`."""
        with self.calling(described):
            return require(kind, self.load_function()(*given, **options))

    def list_of(self, kind: type[_T], described: str, *arguments: object) -> list[_T]:
        """Call the function and list its results, which must have this type. Raises `PluginError`."""
        with self.calling(described):
            return require_each(kind, self.load_function()(*arguments))

    def _resolve(self) -> object:
        try:
            return resolve_name(self.target)
        except ChargehandError:
            raise
        except (Exception, SystemExit) as error:
            raise _unusable(self.plugin, f"{self.target} cannot be imported", error) from error


@dataclass(frozen=True)
class Plugins:
    """The extensions of all plug-ins of a process, in order of registration."""

    names: set[str] = field(default_factory=set[str])
    tools: list[Extension] = field(default_factory=list[Extension])
    model_providers: list[Extension] = field(default_factory=list[Extension])
    search_services: list[Extension] = field(default_factory=list[Extension])
    code_sandboxes: list[Extension] = field(default_factory=list[Extension])
    buckets: list[Extension] = field(default_factory=list[Extension])
    """Buckets by URL scheme."""
    settings: list[Extension] = field(default_factory=list[Extension])
    parts: list[Extension] = field(default_factory=list[Extension])
    workflows: list[Extension] = field(default_factory=list[Extension])
    versioned_workflows: list[Extension] = field(default_factory=list[Extension])
    """The workflows for workers with Worker Versioning."""
    nexus_handlers: list[Extension] = field(default_factory=list[Extension])
    examinations: list[Extension] = field(default_factory=list[Extension])
    examinations_at_start: list[Extension] = field(default_factory=list[Extension])
    choices: list[Extension] = field(default_factory=list[Extension])
    client_plugins: list[Extension] = field(default_factory=list[Extension])
    interceptors: list[Extension] = field(default_factory=list[Extension])
    verbs: list[Extension] = field(default_factory=list[Extension])
    """Commands by heading of `chargehand --help`."""
    worker_verbs: list[Extension] = field(default_factory=list[Extension])
    """By first argument of the worker program."""
    report_formats: list[Extension] = field(default_factory=list[Extension])
    trace_formats: list[Extension] = field(default_factory=list[Extension])
    hooks: dict[Hook, list[Extension]] = field(default_factory=dict[Hook, list[Extension]])
    crews: list[Path] = field(default_factory=list[Path])
    variables: set[str] = field(default_factory=set[str])
    """Environment variables read by plug-ins."""
    command_variables: set[str] = field(default_factory=set[str])
    """Those of them read by commands only."""
    in_workflows: set[str] = field(default_factory=set[str])
    """Packages whose code runs in workflows."""
    problems: list[PluginError] = field(default_factory=list[PluginError])
    """Why some plug-ins could not be registered."""
    _functions: dict[Hook, list[Callable[..., Any]]] = field(default_factory=dict[Hook, list[Callable[..., Any]]])

    def functions(self, hook: Hook) -> list[Callable[..., Any]]:
        """Return the functions of a hook in order of the plug-ins' names, imported on first use."""
        if hook not in self._functions:
            self._functions[hook] = [extension.load_function() for extension in self.hooks.get(hook, ())]
        return self._functions[hook]


@dataclass(frozen=True)
class Registry:
    """Collects the extensions of one plug-in. Targets are `module:attribute`."""

    plugin: str
    _plugins: Plugins

    def tools(self, target: str) -> None:
        """Add a tool, or the tools of a module; see docs/how-to/own-tools.md."""
        self._plugins.tools.append(Extension(self.plugin, target))

    def model_provider(self, name: str, target: str) -> None:
        """Add a provider for `CHARGEHAND_PROVIDER`: a function of `ModelSettings` and an `AsyncExitStack`.

        See docs/how-to/own-models.md.
        """
        self._plugins.model_providers.append(Extension(self.plugin, target, name))

    def search_service(self, name: str, target: str, *, needs: str = "") -> None:
        """Add a search service for `CHARGEHAND_SEARCH`: a function of the settings and an `AsyncExitStack`.

        It is also selected by the presence of the variable that it needs.
        """
        self._plugins.search_services.append(Extension(self.plugin, target, name, needs))

    def code_sandbox(self, name: str, target: str, *, needs: str = "") -> None:
        """Add a sandbox for `CHARGEHAND_CODE`, like a search service, but with an asynchronous function."""
        self._plugins.code_sandboxes.append(Extension(self.plugin, target, name, needs))

    def bucket(self, scheme: str, target: str) -> None:
        """Add the client of an object store: a function of a `BucketLocation` that returns a `Bucket`."""
        self._plugins.buckets.append(Extension(self.plugin, target, scheme))

    def crews(self, folder: Path) -> None:
        """Add the crew files of a folder."""
        self._plugins.crews.append(Path(folder))

    def settings(self, target: str, *variables: str) -> None:
        """Add a pydantic settings model of the worker, and the `CHARGEHAND_*` variables that it reads."""
        self._plugins.settings.append(Extension(self.plugin, target))
        self._plugins.variables.update(require_each(str, variables))

    def choices(self, target: str) -> None:
        """Add rows to `chargehand doctor`: a function from the settings, which it may refuse, to `Choice`s."""
        self._plugins.choices.append(Extension(self.plugin, target))

    def examinations(self, target: str, *, at_start: bool = False) -> None:
        """Add checks to `chargehand doctor`: an asynchronous function of settings and environment.

        Starting workers make those `at_start` too, and log what they find.
        """
        self._plugins.examinations.append(Extension(self.plugin, target))
        if at_start:
            self._plugins.examinations_at_start.append(self._plugins.examinations[-1])

    def parts(self, target: str) -> None:
        """Add activities, tools and checks to a worker: an asynchronous function of its `WorkerParts`."""
        self._plugins.parts.append(Extension(self.plugin, target))

    def workflow(self, target: str, *, with_versioning: str = "") -> None:
        """Add a workflow, and optionally another class for workers with Worker Versioning."""
        self._plugins.workflows.append(Extension(self.plugin, target))
        self._plugins.versioned_workflows.append(Extension(self.plugin, with_versioning or target))
        self._note_package(target)

    def nexus_handler(self, target: str) -> None:
        """Add a Nexus service handler class."""
        self._plugins.nexus_handlers.append(Extension(self.plugin, target))

    def client_plugins(self, target: str) -> None:
        """Add Temporal plug-ins of the worker's client: a function of the settings and an `AsyncExitStack`."""
        self._plugins.client_plugins.append(Extension(self.plugin, target))

    def interceptors(self, target: str) -> None:
        """Add interceptors of the worker: a function of the settings and the client."""
        self._plugins.interceptors.append(Extension(self.plugin, target))
        self._note_package(target)

    def verbs(self, heading: str, target: str) -> None:
        """Add the commands of a Typer app under a heading of `chargehand --help`."""
        self._plugins.verbs.append(Extension(self.plugin, target, heading))

    def worker_verb(self, option: str, target: str) -> None:
        """Add an option of the worker program: an asynchronous function of its settings and a file.

        It writes JSON lines and returns the exit code.
        """
        self._plugins.worker_verbs.append(Extension(self.plugin, target, option))

    def report_format(self, name: str, target: str) -> None:
        """Add a format of `chargehand report`: a function of the page as HTML, the `Report` and its `Attachments`.

        It returns the file's bytes. For a session without a report, which only has a page, it may return None.
        """
        self._plugins.report_formats.append(Extension(self.plugin, target, name))

    def trace_format(self, name: str, target: str) -> None:
        """Add a format of `chargehand trace`: a function of the `Trace`, which returns JSON."""
        self._plugins.trace_formats.append(Extension(self.plugin, target, name))

    def variables(self, *names: str) -> None:
        """Name environment variables that commands read."""
        self._plugins.variables.update(require_each(str, names))
        self._plugins.command_variables.update(names)

    def hook(self, hook: Hook, target: str) -> None:
        """Register a function for a hook of the core."""
        self._plugins.hooks.setdefault(Hook(hook), []).append(Extension(self.plugin, target))
        self._note_package(target)

    def _note_package(self, target: str) -> None:
        self._plugins.in_workflows.add(target.partition(":")[0].partition(".")[0])


@cache
def installed() -> Plugins:
    """Register the plug-ins of installed packages and of `CHARGEHAND_PLUGINS`, once per process."""
    plugins = Plugins()
    for entry in sorted(entry_points(group=GROUP), key=lambda each: each.name):
        _register(entry.name, entry.load, plugins)
    _register_modules(filter(None, (each.strip() for each in os.environ.get(SETTING, "").split(","))), plugins)
    return plugins


def add_modules(modules: Iterable[str]) -> None:
    """Register modules as plug-ins of this process, as `CHARGEHAND_PLUGINS` does.

    Raises:
        PluginError: a plug-in of the process is unusable. A module that failed to register may be retried.
    """
    plugins = installed()
    require_usable(plugins)
    _register_modules((each for each in modules if each not in plugins.names), plugins)
    if plugins.problems:
        raise plugins.problems.pop()


def require_usable(plugins: Plugins) -> None:
    """Check that all plug-ins were registered.

    Raises:
        PluginError: one was not.
    """
    if plugins.problems:
        raise plugins.problems[0]


def require_each(kind: type[_T], values: Iterable[object]) -> list[_T]:
    return [require(kind, each) for each in values]


def require(kind: type[_T], value: object) -> _T:
    """Return the value if it has the required type. Raises `TypeError`."""
    if not isinstance(value, kind):
        names = (*kind.__annotations__, *vars(kind)) if Protocol in kind.__mro__ else ()
        lacking = ", ".join(each for each in names if not each.startswith("_") and not hasattr(value, each))
        problem = f"a value of type {type(value).__name__} is not a {kind.__name__}"
        raise TypeError(f"{problem}: missing {lacking}" if lacking else problem)
    return value


def _register(name: str, load: Callable[[], Any], plugins: Plugins) -> None:
    before = deepcopy(vars(plugins))
    try:
        _call(load(), Registry(name, plugins))
        plugins.names.add(name)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # no error of a package may end every command
        vars(plugins).update(before)  # all or nothing, since the package may be repaired and tried again
        plugins.problems.append(_unusable(name, "it cannot be registered", error))


def _call(register: Callable[[Registry], object], registry: Registry) -> None:
    result = register(registry)
    if iscoroutine(result):
        result.close()
        raise TypeError("`register` must be a plain function")


def _register_modules(modules: Iterable[str], plugins: Plugins) -> None:
    for module in modules:
        _register(module, lambda module=module: _import(module).register, plugins)


def _import(module: str) -> Any:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)  # last, so that its files do not shadow installed modules
    return import_module(module)


def _unusable(plugin: str, problem: str, error: BaseException, *, is_registered: bool = False) -> PluginError:
    if isinstance(error, ModuleNotFoundError):
        remedy = f"install it, or take '{plugin}' out of {SETTING} or of this environment"
    elif isinstance(error, AttributeError) and not is_registered:
        remedy = "it needs a function `register(registry)` that names what is there"
    else:
        remedy = f"mend it, or take '{plugin}' out of {SETTING} or of this environment"
    from chargehand.contracts.problems import printable  # noqa: PLC0415  # commands start without pydantic

    what = printable(f"{type(error).__name__}: {error}", _ERROR_CHARACTERS)
    return PluginError(f"The plug-in '{plugin}': {problem}: {what}; {remedy}.")
