"""Runs one program inside the sandbox. This project has no other file there, and never imports this one outside.

The program runs in the same process, so the host bounds and checks everything that comes from here. Reads the job from
standard input, leaves standard output to the program, and writes one line of JSON to a separate descriptor, followed by
the bytes of the files. Uses only the standard library.
"""

import ast
import code
import contextlib
import json
import linecache
import os
import resource
import stat
import sys
import traceback
import types
from collections.abc import Iterator
from typing import Any, Final

_FILE: Final = "program.py"
_VALUE_CHARACTERS: Final = 8_000
_TRACEBACK_CHARACTERS: Final = 4_000


class _Program(code.InteractiveInterpreter):
    """Stores the error instead of printing it."""

    def __init__(self, variables: dict[str, Any]) -> None:
        module = types.ModuleType("__main__")
        sys.modules["__main__"] = module
        module.__dict__.update(variables)
        super().__init__(module.__dict__)
        self.error = ""

    def showtraceback(self) -> None:
        kind, error, trace = sys.exc_info()
        # The first frame is the interpreter's.
        inner = trace.tb_next if trace else None
        text = "".join(traceback.format_exception(kind, error, inner))
        self.error = text.strip()[-_TRACEBACK_CHARACTERS:]


def run(job: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
    """Run the program; returns its result and the contents of its files."""
    text = str(job["code"])
    linecache.cache[_FILE] = (len(text), None, text.splitlines(keepends=True), _FILE)
    try:
        tree = ast.parse(text, _FILE)
        # Compiled as interactive input, which passes the value of every expression to the display hook.
        compiled = compile(ast.Interactive(tree.body), _FILE, "single", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        message = "".join(traceback.format_exception_only(error)).strip()
        return {"error": message[-_TRACEBACK_CHARACTERS:]}, []
    program = _Program(job["variables"])
    shown: list[object] = [None]

    def show(value: object) -> None:
        shown[0] = value

    sys.displayhook = show
    try:
        program.runcode(compiled)
    except SystemExit as error:
        if error.code not in (None, 0):
            program.error = f"SystemExit: {error.code}"
    value = _value_text(shown[0]) if tree.body and isinstance(tree.body[-1], ast.Expr) else ""
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    figures = list(_figures(str(job["artifacts"]), int(job["most_files"])))
    files, left_out = _files(str(job["artifacts"]), int(job["most_files"]), int(job["most_bytes"]))
    result = {
        "value": value,
        "error": program.error,
        "files": [{"name": name, "bytes": len(content)} for name, content in files],
        "left_out": left_out,
        "figures": figures,
    }
    return result, [content for _, content in files]


def _value_text(value: object) -> str:
    if value is None:
        return ""
    try:
        return repr(value)[:_VALUE_CHARACTERS]
    except Exception:  # noqa: BLE001 - the program's own class may raise anything
        return "(a value that cannot be shown; print the parts you need)"


def _figures(folder: str, most: int) -> Iterator[str]:
    """Save the open figures of matplotlib; yield the errors."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None:
        return
    for number in list(pyplot.get_fignums())[:most]:
        name = f"figure-{number}.png"
        try:
            pyplot.figure(number).savefig(os.path.join(folder, name))  # noqa: PTH118 - starts faster
        except Exception as error:  # noqa: BLE001 - if a figure cannot be drawn, the rest is kept
            yield f"{name}: {type(error).__name__}"


def _files(folder: str, most_files: int, most_bytes: int) -> tuple[list[tuple[str, bytes]], list[str]]:
    """Read the regular files of a folder, one level deep, without following links."""
    files: list[tuple[str, bytes]] = []
    left_out: list[str] = []
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208
    except OSError:
        return [], []
    room = most_bytes
    for name in names[: 2 * most_files]:
        try:
            descriptor = os.open(os.path.join(folder, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)  # noqa: PTH118
            with os.fdopen(descriptor, "rb") as file:
                is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
                content = file.read(room + 1) if is_file and len(files) < most_files else None
        except OSError:
            is_file, content = False, None
        if content is None or len(content) > room:
            left_out.append(f"{name}: {'too many or too large files' if is_file else 'not a regular file'}")
            continue
        room -= len(content)
        files.append((name, content))
    return files, left_out


def main(numbers: list[int], other: list[str]) -> None:
    """Set the limits, run the job, and write the result; or hand over to the command of another interpreter."""
    descriptor, memory_bytes, seconds, file_bytes, descriptors = numbers
    for limit, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, file_bytes),
        (resource.RLIMIT_NOFILE, descriptors),
        # Node reserves more address space than it uses.
        (resource.RLIMIT_DATA if other else resource.RLIMIT_AS, memory_bytes),
    ):
        resource.setrlimit(limit, (value, value))
    if other:
        heap = f"--max-old-space-size={memory_bytes >> 21}"
        os.execv(other[0], [other[0], heap, *other[1:], str(descriptor)])  # noqa: S606  # the host names the command
    job = json.loads(sys.stdin.buffer.read())
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(job["folder"])
    os.makedirs(job["artifacts"], exist_ok=True)  # noqa: PTH103 - starts faster
    sys.path[:0] = [job["folder"], *job["packages"]]
    sys.argv = [_FILE]
    result, contents = run(job)
    with os.fdopen(descriptor, "wb") as answer:
        # A name or an error may hold lone surrogates, which are not UTF-8.
        answer.write(json.dumps(result, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
        answer.writelines(contents)
    # Threads that the program left behind must not keep the sandbox open.
    os._exit(0)


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:6]], sys.argv[6:])
