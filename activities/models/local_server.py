"""Serve a GGUF file by llama.cpp, OpenAI-compatible and on loopback, in a process of its own.

It prints its address in one line, and exits when its standard input closes, which happens however its parent exits.
Needs the dependency group `local-llm`.
"""

import argparse
import importlib
import os
import sys
from typing import Any, cast

_AT_ONCE = 2
"""Turns at the same time; each has the whole context."""


def serve(weights: str, name: str, context: int) -> None:
    """Serve until standard input closes."""
    llama = cast("Any", importlib.import_module("xllamacpp"))  # untyped, and optional
    settings = llama.CommonParams()
    settings.model.path = weights
    settings.model_alias = {name}
    settings.n_ctx = context * _AT_ONCE
    settings.n_parallel = _AT_ONCE
    settings.port = 0
    settings.offline = True
    # Threads that spin while they wait starve other processes.
    settings.cpuparams.n_threads = max(1, (os.cpu_count() or 2) - 1)
    settings.cpuparams.poll = 0
    server = llama.Server(settings)
    sys.stdout.write(f"{server.listening_address}/v1\n")
    sys.stdout.flush()
    while sys.stdin.buffer.read(1 << 16):
        pass


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--weights", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--context", type=int, required=True)
    given = parser.parse_args()
    serve(given.weights, given.name, given.context)
    os._exit(0)  # nothing waits for in-flight turns


if __name__ == "__main__":
    main()
