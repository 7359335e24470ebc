"""Imports the worker program, which takes a second of processor time, without collecting garbage meanwhile.

What modules make stays: looking through it again and again took an eighth of that time, and later each full collection.
"""

import gc

gc.disable()

from worker.program import run_program  # noqa: E402

gc.freeze()
gc.enable()

__all__ = ["run_program"]
