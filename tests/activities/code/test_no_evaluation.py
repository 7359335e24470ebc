"""What no code of ours does with a model's text (S16, S33)."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
INSIDE = {ROOT / f"activities/code/bubblewrap/{name}.py" for name in ("program", "probe")}
"""Files that run in the sandbox, and nowhere else."""
EVALUATING = {"exec", "eval", "compile", "__import__"}
UNPACKING = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle", "code", "codeop"}


def sources() -> Iterator[tuple[Path, ast.Module]]:
    for folder in ("activities", "workflows", "client/src"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path, ast.parse(path.read_text(encoding="utf-8"))
    yield ROOT / "worker_main.py", ast.parse((ROOT / "worker_main.py").read_text(encoding="utf-8"))


def imported(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


@pytest.mark.slow
def test_our_own_processes_evaluate_nothing() -> None:
    """Neither text that is taken for code nor bytes that are taken for objects: only sandboxes run programs."""
    evaluating = [
        f"{path.name}: {node.func.id}"
        for path, tree in sources()
        if path not in INSIDE
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in EVALUATING
    ]
    unpacking = [
        f"{path.name}: {name}"
        for path, tree in sources()
        if path not in INSIDE
        for name in imported(tree)
        if name in UNPACKING
    ]

    assert (evaluating, unpacking) == ([], [])


@pytest.mark.slow
def test_what_runs_in_the_sandbox_is_never_imported() -> None:
    """The program that evaluates is a file for the sandbox, not a module of the worker."""
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in INSIDE}

    importing = [path.name for path, tree in sources() if imported(tree) & modules]

    assert importing == []
