"""Run the worker program: `python -m chargehand_worker`."""

from worker.start import run_program

if __name__ == "__main__":
    run_program()
