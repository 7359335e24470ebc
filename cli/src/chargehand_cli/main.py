"""The command `chargehand`: its commands, and how it ends; what they do is in the modules beside."""

import os
import sys
import traceback
from contextlib import suppress
from typing import NoReturn

import typer

from chargehand.errors import ChargehandError, NotReachable, SessionFailed, SessionNotFound, UploadRefused
from chargehand.payloads.errors import ProtectionSettingsError
from chargehand.wire import ErrorType
from chargehand_cli.exit_codes import Exit
from chargehand_cli.request_options import BadRequest
from chargehand_cli.terminal import say
from chargehand_cli.verbs import decide as deciding
from chargehand_cli.verbs import inspect as reading
from chargehand_cli.verbs import operate as operating
from chargehand_cli.verbs import run as sessions

app = typer.Typer(
    name="chargehand",
    help="Durable multi-agent sessions on Temporal.\n\n"
    "Exit codes: 0 done, report complete · 1 session failed · 2 bad input or usage · 3 report, but partial · "
    "4 server or worker unreachable · 130 interrupted.",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: the other kind takes half a second to load
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for theme in (sessions, deciding, reading, operating):
    app.add_typer(theme.app)


def main() -> NoReturn:
    """Run a command and end the process at once: the SDK's threads can abort one that ends the ordinary way."""
    code = carry_out(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def carry_out(arguments: list[str]) -> int:
    """Run a command and return its exit code; whatever goes wrong is said on standard error."""
    try:
        app(arguments)
    except SystemExit as ending:
        return ending.code if isinstance(ending.code, int) else Exit.FAILED
    except ChargehandError as error:
        say(f"chargehand: {error}")
        return _exit_of(error)
    except BaseException:  # noqa: BLE001  # nothing is above us, and the process must not end the ordinary way
        traceback.print_exc()
        return Exit.FAILED
    return Exit.DONE


def _exit_of(error: ChargehandError) -> Exit:
    match error:
        case NotReachable():
            return Exit.UNREACHABLE
        case SessionFailed(error_type=ErrorType.INVALID_INPUT) | SessionNotFound() | UploadRefused() | BadRequest():
            return Exit.BAD_INPUT
        case ProtectionSettingsError():
            return Exit.BAD_INPUT
        case _:
            return Exit.FAILED


if __name__ == "__main__":
    main()
