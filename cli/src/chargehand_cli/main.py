"""The command `chargehand`: its verbs, and the exit code of each failure."""

import os
import sys
import tempfile
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from chargehand import ChargehandError, ErrorType, NotReachable, SessionFailed, SessionNotFound
from chargehand.errors import InvalidInput, MissingExtra, UnusableSettings, UpdateRefused, UploadRefused
from chargehand.payloads.errors import ProtectionSettingsError
from chargehand_cli.run_options import BadRequest
from chargehand_cli.terminal import Exit, put, say
from chargehand_cli.verb_groups import VerbGroups
from chargehand_cli.verbs import GROUPS
from chargehand_cli.worker_settings import WrongSettings


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
    rich_markup_mode=None,  # plain help: the other kind takes half a second to load
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
    """Run a command and exit at once: the SDK's threads can abort a process during an orderly shutdown."""
    # A stream that the caller has closed is None.
    nowhere = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # for the life of the process
    sys.stdout, sys.stderr = sys.stdout or nowhere, sys.stderr or nowhere
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
        say(f"chargehand: {error}")
        return _exit_code(error)
    except BaseException as error:  # noqa: BLE001  # the top of the process, which must not end in an orderly shutdown
        return _surprise(error)
    return Exit.DONE


def _surprise(error: BaseException) -> Exit:
    match error:
        case KeyboardInterrupt():
            return Exit.INTERRUPTED
        case BrokenPipeError():
            pass  # the reader of the output has gone
        case OSError():
            say(f"chargehand: {f'{error.filename}: ' if error.filename else ''}{error.strerror or error}")
        case _ if type(error).__module__.startswith("temporalio."):
            say("chargehand: The Temporal server does not answer as it should. To find the cause: `chargehand doctor`.")
            return Exit.UNREACHABLE
        case _:
            say(f"chargehand: unexpected error, a fault of this program: {type(error).__name__}{_kept_details(error)}")
    return Exit.FAILED


def _kept_details(error: BaseException) -> str:
    """Write the traceback of an unexpected error to a file, for a report of the bug."""
    with suppress(OSError), tempfile.NamedTemporaryFile("w", prefix="chargehand-error-", delete=False) as file:
        traceback.print_exception(error, file=file)
        return f". Details: {file.name}"
    return ""


def _exit_code(error: ChargehandError) -> Exit:
    match error:
        case NotReachable() if not isinstance(error, UnusableSettings):
            return Exit.UNREACHABLE
        case SessionFailed(error_type=ErrorType.INVALID_INPUT | ErrorType.LIMIT_TOO_SMALL):
            return Exit.BAD_INPUT
        case UpdateRefused(error_type=ErrorType.INVALID_INPUT):
            return Exit.BAD_INPUT
        case (
            SessionNotFound()
            | InvalidInput()
            | UnusableSettings()
            | MissingExtra()
            | UploadRefused()
            | BadRequest()
            | ProtectionSettingsError()
            | WrongSettings()
        ):
            return Exit.BAD_INPUT
        case _:
            return Exit.FAILED


if __name__ == "__main__":
    main()
