"""A worker of the later build, in a process of its own: `python -m chaos.later_worker`."""

import os
import sys

from chaos.later_build import LATER_WORKFLOWS
from worker import program, workers

if __name__ == "__main__":
    workers.WORKFLOWS = LATER_WORKFLOWS
    code = program.main([])
    sys.stderr.flush()
    # Not the ordinary way, for the reason that `worker/program.py` gives.
    os._exit(code)
