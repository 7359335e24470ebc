"""The worker program as a script: settings become adapters, adapters become activities, and the worker polls."""

from worker.start import run_program

if __name__ == "__main__":
    run_program()
