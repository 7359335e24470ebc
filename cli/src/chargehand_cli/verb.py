"""Define a verb: an async function whose parameters are its options and which receives a connection.

A dataclass parameter is a group of options: each annotated field becomes an option.
"""

import inspect
import os
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Final, get_origin, get_type_hints

import typer

from chargehand.environment import describe_unknown
from chargehand_cli.connection import Connection
from chargehand_cli.embedded.user import Departure
from chargehand_cli.location import LocationOptions
from chargehand_cli.terminal import Exit, run_interruptible, say

AsJson = Annotated[bool, typer.Option("--json", help="Write JSON, and nothing else, to standard output.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Do not show progress.")]


@dataclass(frozen=True)
class ReportOptions:
    """Options for writing a report."""

    as_json: AsJson = False
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Write the whole report: queries, claims, files and addresses too.")
    ] = False
    quiet: Quiet = False


def _not_empty(session_id: str) -> str:
    if not session_id.strip():
        raise typer.BadParameter("a session ID is not empty; `chargehand list` shows those of this server")
    return session_id


def place(path: str) -> Path:
    """Parse a path argument; an unset shell variable must not mean the current folder."""
    if not path:
        raise typer.BadParameter("a path is not empty; . is the current folder")
    return Path(path)


SessionId = Annotated[str, typer.Argument(metavar="SESSION", help="Session ID.", callback=_not_empty)]
Documents = Annotated[
    list[Path] | None,
    typer.Option("--docs", "-d", metavar="PATH", parser=place, help="Document or folder; may be repeated."),
]

LOCAL: Final = ("state", "task_queue")
SERVER: Final = ("address", *LOCAL)
FILES: Final = (*SERVER, "artifacts")
"""Location options of verbs that also read or write files shared with workers."""

Work = Callable[..., Coroutine[object, object, Exit | None]]


def verb(
    app: typer.Typer, name: str | None = None, *, location: Collection[str] = SERVER, warns: bool = True
) -> Callable[[Work], Work]:
    """Register an async function as a verb; its first parameter is the connection, its result the exit code.

    A verb warns about unknown `CHARGEHAND_*` variables unless it is quiet or reports them itself.
    """

    def register(work: Work) -> Work:
        options, groups = _options(work, location)

        def command(**given: object) -> None:
            if warns and not given.get("quiet"):
                for unknown in describe_unknown(os.environ):
                    say(f"Warning: {unknown}")
            for parameter, kind in groups.items():
                names = [each for each in _group_options(kind) if each in options]
                given[parameter] = kind(**{each: given.pop(each) for each in names})
            _execute(work, given)

        command.__doc__ = work.__doc__
        command.__annotations__ = {each.name: each.annotation for each in options.values()}
        command.__signature__ = inspect.Signature([*options.values()])  # pyright: ignore[reportFunctionMemberAccess]  # read by inspect
        app.command(name or work.__name__)(command)
        return work

    return register


def _execute(work: Work, given: dict[str, object]) -> None:
    """Run a verb on its connection, and always leave the embedded server."""
    location = given.pop("connection")
    assert isinstance(location, LocationOptions)
    connection = Connection(location)

    async def run() -> Exit:
        return await work(connection, **given) or Exit.DONE

    try:
        code = run_interruptible(run())
    finally:
        try:
            departure = connection.leave()
        except KeyboardInterrupt:  # a second Ctrl-C; the keeper continues without this process
            raise typer.Exit(Exit.INTERRUPTED) from None
        if departure is Departure.STILL_ENDING:
            say("The embedded worker is waiting for in-flight calls; it and the server then shut down.")
    if departure in (Departure.ENDED, Departure.STILL_ENDING) and connection.farewell:
        say(connection.farewell)
    if code is not Exit.DONE:
        raise typer.Exit(code)


def _options(work: Work, location: Collection[str]) -> tuple[dict[str, inspect.Parameter], dict[str, type]]:
    """List a verb's options, including those of its groups, and its groups by parameter."""
    options: dict[str, inspect.Parameter] = {}
    groups: dict[str, type] = {}
    own: dict[str, inspect.Parameter] = {}
    for name, parameter in inspect.signature(work).parameters.items():
        if parameter.annotation is Connection:
            groups[name] = LocationOptions
            own = {each: option for each, option in _group_options(LocationOptions).items() if each in location}
        elif isinstance(parameter.annotation, type) and is_dataclass(parameter.annotation):
            groups[name] = parameter.annotation
            options |= _group_options(parameter.annotation)
        else:
            options[name] = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
    return options | own, groups


def _group_options(group: type) -> dict[str, inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return {
        field.name: inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
        )
        for field in fields(group)
        if get_origin(hints[field.name]) is Annotated
    }
