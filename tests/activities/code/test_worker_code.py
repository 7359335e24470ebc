"""Our own processes around sandboxes never evaluate code."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FOLDERS = [
    ROOT / name for name in ("activities", "workflows", "worker", "client/src", "plugins/src/chargehand_plugins")
]
INSIDE = {FOLDERS[-1] / f"bubblewrap/{name}.py" for name in ("program", "probe")}
"""Files that run in the sandbox, and nowhere else."""
EVALUATING = {"exec", "eval", "compile", "__import__"}
UNPACKING = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle", "code", "codeop"}


def sources() -> Iterator[tuple[Path, ast.Module]]:
    paths = [path for folder in FOLDERS for path in sorted(folder.rglob("*.py")) if "tests" not in path.parts]
    return ((path, ast.parse(path.read_text(encoding="utf-8"))) for path in paths)


def imported(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


@pytest.mark.slow
def test_worker_code_never_evaluates_or_unpickles() -> None:
    """Only files that run inside sandboxes evaluate code or unpickle, and nothing else imports those."""
    modules = {f"chargehand_plugins.bubblewrap.{path.stem}" for path in INSIDE}
    found: list[str] = []
    for path, tree in sources():
        names = imported(tree)
        found += [f"{path.name}: {name}" for name in names & (modules if path in INSIDE else UNPACKING | modules)]
        called = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call) and path not in INSIDE)
        found += [f"{path.name}: {each.id}" for each in called if isinstance(each, ast.Name) and each.id in EVALUATING]

    assert found == []
