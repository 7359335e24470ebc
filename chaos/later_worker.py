"""A worker of the later build in a separate process: `python -m chaos.later_worker`."""

import os
import sys

from chaos.later_build import LATER_WORKFLOWS
from worker import program, workers

if __name__ == "__main__":
    workers.WORKFLOWS = LATER_WORKFLOWS
    code = program.main([])
    sys.stderr.flush()
    # Not the usual way, for the reason given in `worker/program.py`.
    os._exit(code)
