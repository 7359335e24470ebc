"""A worker of the later build, in a process of its own: `python -m chaos.later_worker`."""

import os
import sys

import worker_main
from chaos.later_build import LATER_WORKFLOWS

if __name__ == "__main__":
    worker_main.WORKFLOWS = LATER_WORKFLOWS
    code = worker_main.main([])
    sys.stderr.flush()
    # Not the ordinary way, for the reason that `worker_main.py` gives.
    os._exit(code)
