"""The command `chargehand`. Without the separate CLI package, it explains how to install it.

Modules that take long to load are imported inside functions: until `main` runs, Ctrl-C writes a traceback.
"""

import os
import signal
import sys
from importlib import import_module

_COMMAND_LINE = "chargehand_cli"
_WORKER = "chargehand_worker"
_INTERRUPTED = 130  # by convention
_OTHER_WAYS = (
    "To run sessions on this machine, with a worker and an embedded Temporal server: "
    "pip install 'chargehand[worker]', or uvx --from 'chargehand[worker]' chargehand …"
)


def main() -> None:
    # Ctrl-C while modules load exits immediately without a traceback, as it does later.
    signal.signal(signal.SIGINT, _exit_at_once)
    try:
        program = import_module(f"{_COMMAND_LINE}.main")
    except ModuleNotFoundError as error:
        if error.name != _COMMAND_LINE:
            raise
        _continue_with_uvx()
        from chargehand.errors import MissingExtra  # noqa: PLC0415  # see the top

        sys.stderr.write(f"chargehand: {MissingExtra('The command line', 'cli')} {_OTHER_WAYS}\n")
        sys.exit(2)
    program.main()


def _exit_at_once(_signal: int, _frame: object) -> None:
    os._exit(_INTERRUPTED)


def _continue_with_uvx() -> None:
    """Replace a process started by `uvx chargehand` with one that has everything a session needs."""
    from importlib.metadata import version  # noqa: PLC0415  # see the top
    from importlib.util import find_spec  # noqa: PLC0415  # see the top

    uv = os.environ.get("UV")
    is_uvx = uv and "UV_RUN_RECURSION_DEPTH" not in os.environ  # set by `uv run` for a project's environment
    if uv and is_uvx and not find_spec(_WORKER):
        package = f"chargehand[worker]=={version('chargehand')}"
        os.execv(uv, [uv, "tool", "run", "--from", package, "chargehand", *sys.argv[1:]])  # noqa: S606  # no shell
