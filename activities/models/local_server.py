"""Serve a GGUF file by llama.cpp, OpenAI-compatible and on loopback: a process of its own.

It says where it listens, in one line, and ends when its standard input ends, as that does when whoever started it is
gone, however it went. Needs the dependency group `local-llm`.
"""

import argparse
import importlib
import os
import sys
from typing import Any, cast

_AT_ONCE = 2
"""Turns at the same time; each has the whole context."""


def serve(weights: str, name: str, context: int) -> None:
    """Serve until standard input ends."""
    llama = cast("Any", importlib.import_module("xllamacpp"))  # has no types, and is not always installed
    settings = llama.CommonParams()
    settings.model.path = weights
    settings.model_alias = {name}
    settings.n_ctx = context * _AT_ONCE
    settings.n_parallel = _AT_ONCE
    settings.port = 0
    settings.offline = True
    # Threads that wait for each other in a spin get nothing done where others want the processor too.
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
    os._exit(0)  # turns that are under way are for nobody


if __name__ == "__main__":
    main()
