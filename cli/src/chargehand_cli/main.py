"""The command `chargehand`: its verbs, and the exit code of each failure."""

import os
import sys
import tempfile
import traceback
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import typer
import typer.main
from typer.core import TyperGroup

from chargehand import ChargehandError, ErrorType, NotReachable, SessionFailed, SessionNotFound
from chargehand.errors import InvalidInput, MissingExtra, UnusableSettings, UpdateRefused, UploadRefused
from chargehand.payloads.errors import ProtectionSettingsError
from chargehand.plugins import PluginError, installed
from chargehand_cli.run_options import BadRequest
from chargehand_cli.terminal import Exit, put, say
from chargehand_cli.verbs import GROUPS
from chargehand_cli.worker_settings import WrongSettings

if TYPE_CHECKING:
    from typer._click.core import Command, Context
    from typer._click.formatting import HelpFormatter

_EXTRAS: Final = {
    **dict.fromkeys(("advise", "clean", "crew", "doctor", "replay", "setup", "tape"), "cli"),
    **dict.fromkeys(("codec-server", "console"), "console"),
    "mcp": "mcp",
}
"""The extra that provides a verb of a shipped plug-in."""

_BAD_INPUT: Final = (
    *(BadRequest, InvalidInput, MissingExtra, ProtectionSettingsError),
    *(SessionNotFound, UnusableSettings, UploadRefused, WrongSettings),
)


class VerbGroups(TyperGroup):
    """Lists its commands by their `rich_help_panel`, as plain text: rich takes half a second to load.

    Plug-ins are loaded only to list all verbs, or for a verb that the core does not have.
    """

    has_plugins = False

    def list_commands(self, ctx: "Context") -> list[str]:
        self.add_plugin_verbs()
        return super().list_commands(ctx)

    def get_command(self, ctx: "Context", cmd_name: str) -> "Command | None":
        """Find a verb; for one of a missing plug-in, name the extra."""
        if cmd_name not in self.commands:
            self.add_plugin_verbs()
        if cmd_name not in self.commands and cmd_name in _EXTRAS:
            raise MissingExtra(f"`chargehand {cmd_name}`", _EXTRAS[cmd_name])
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: "Context", formatter: "HelpFormatter") -> None:
        """Write a section per heading, in the order of their first commands."""
        sections: dict[str, list[tuple[str, str]]] = {}
        names = self.list_commands(ctx)
        width = formatter.width - 6 - max(map(len, names))
        for name in names:
            command = self.commands[name]
            if not command.hidden:
                heading = getattr(command, "rich_help_panel", None) or "Commands"
                sections.setdefault(heading, []).append((name, command.get_short_help_str(width)))
        for heading, rows in sections.items():
            with formatter.section(heading):
                formatter.write_dl(rows)

    def add_plugin_verbs(self) -> None:
        """Add the verbs of plug-ins once; unusable ones are reported on standard error."""
        if self.has_plugins:
            return
        self.has_plugins = True
        plugins = installed()
        for problem in plugins.problems:
            say(f"Warning: {problem}")
        for extension in plugins.verbs:
            try:
                with extension.calling("verbs"):
                    commands = typer.main.get_group(extension.load(typer.Typer)).commands
            except PluginError as error:
                say(f"Warning: {error}")
                continue
            for name, command in commands.items():
                command.rich_help_panel = extension.name  # pyright: ignore[reportAttributeAccessIssue]  # of Typer's own
                self.commands.setdefault(name, command)


def _put_version(wanted: bool) -> None:  # noqa: FBT001  # typer's own signature
    if wanted:
        from importlib.metadata import version

        put(f"chargehand {version('chargehand-cli')}")
        raise typer.Exit


app = typer.Typer(
    name="chargehand",
    cls=VerbGroups,
    help="Durable multi-agent sessions on Temporal.\n\n"
    "Exit codes: 0 success · 1 session failed, or a check found a problem · 2 invalid input or usage · "
    "3 partial report · 4 server or worker unreachable · 130 interrupted.",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: rich takes half a second to load
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for heading, families in GROUPS.items():
    for family in families:
        for registered in (*family.registered_commands, *family.registered_groups):
            registered.rich_help_panel = heading
        app.add_typer(family)


@app.callback()
def _options(
    *,
    version: Annotated[  # its callback does the work
        bool, typer.Option("--version", callback=_put_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None: ...


def main() -> NoReturn:
    """Run a command and exit immediately: the SDK's threads can abort a process during an orderly shutdown."""
    # A stream that the caller has closed is None. A result that cannot be written is an error, a message is not.
    nowhere, unwritable = (Path(os.devnull).open(mode, encoding="utf-8") for mode in ("r+", "r"))  # noqa: SIM115  # for the life of the process
    sys.stdin, sys.stdout, sys.stderr = sys.stdin or nowhere, sys.stdout or unwritable, sys.stderr or nowhere
    code = execute(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def execute(arguments: list[str]) -> int:
    """Run a command and return its exit code; errors are written to standard error."""
    try:
        app(arguments)
    except SystemExit as ending:
        return ending.code if isinstance(ending.code, int) else Exit.FAILED
    except ChargehandError as error:
        from chargehand_cli.rendering.escaping import error_text

        say(f"chargehand: {error_text(error)}")
        return _exit_code(error)
    except BaseException as error:  # noqa: BLE001  # the top of the process, which must not end in an orderly shutdown
        return _surprise(error)
    return Exit.DONE


def _surprise(error: BaseException) -> Exit:
    match error:
        case KeyboardInterrupt():
            return Exit.INTERRUPTED
        case BrokenPipeError():
            pass  # the reader of the output has exited
        case OSError() if sys.stdout and not sys.stdout.writable():
            say("chargehand: Standard output is closed, so the result was not written. To discard it: > /dev/null")
        case OSError():
            say(f"chargehand: {f'{error.filename}: ' if error.filename else ''}{error.strerror or error}")
        case _ if type(error).__module__.startswith("temporalio."):
            say("chargehand: The Temporal server does not answer as it should. To find the cause: `chargehand doctor`.")
            return Exit.UNREACHABLE
        case _:
            say(f"chargehand: unexpected error, a fault of this program: {type(error).__name__}{_kept_details(error)}")
    return Exit.FAILED


def _kept_details(error: BaseException) -> str:
    """Write the traceback of an unexpected error to a file, for a bug report."""
    with suppress(OSError), tempfile.NamedTemporaryFile("w", prefix="chargehand-error-", delete=False) as file:
        traceback.print_exception(error, file=file)
        return f". Details: {file.name}"
    return ""


def _exit_code(error: ChargehandError) -> Exit:
    match error:
        case SessionFailed(error_type=ErrorType.LIMIT_TOO_SMALL):
            return Exit.BAD_INPUT
        case SessionFailed(error_type=ErrorType.INVALID_INPUT) | UpdateRefused(error_type=ErrorType.INVALID_INPUT):
            return Exit.BAD_INPUT
        case _ if isinstance(error, _BAD_INPUT):
            return Exit.BAD_INPUT
        case _:
            return Exit.UNREACHABLE if isinstance(error, NotReachable) else Exit.FAILED


if __name__ == "__main__":
    main()
