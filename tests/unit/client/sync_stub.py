"""Write `chargehand/sync.pyi` from the asynchronous classes: `python -m tests.unit.client.sync_stub`."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Final

from chargehand import client, session, sync

STUB: Final = Path(sync.__file__).with_suffix(".pyi")
_HEAD: Final = '"""Written by `python -m tests.unit.client.sync_stub`."""\n'
_WITHOUT_AWAIT: Final = {"AsyncIterator": "Iterator", "AsyncGenerator": "Generator"}
_OWN: Final = {"Session", "Chargehand"}


class _Signatures(ast.NodeTransformer):
    """Keeps signatures and docstrings of public methods, without `async`."""

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST | None:
        fields = {name: getattr(node, name) for name in ast.FunctionDef._fields}
        return self.visit_FunctionDef(ast.copy_location(ast.FunctionDef(**fields), node))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST | None:
        if node.name.startswith("_"):
            return None
        documentation = ast.get_docstring(node, clean=False)
        documented: list[ast.stmt] = [ast.Expr(ast.Constant(documentation))] if documentation else []
        node.body = documented or [ast.Expr(ast.Constant(...))]
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name(_WITHOUT_AWAIT.get(node.id, node.id), node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = _unquoted(node.annotation)
        return self.generic_visit(node)


def _unquoted(annotation: ast.expr | None) -> ast.expr | None:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return ast.parse(annotation.value, mode="eval").body
    return annotation


def stub() -> str:
    """Return the stub that fits the asynchronous classes."""
    classes = [_signatures(session, "Session", ["id: str"]), _signatures(client, "Chargehand", ["task_queue: str"])]
    used = {node.id for each in classes for node in ast.walk(each) if isinstance(node, ast.Name)} - _OWN
    imports = sorted({_import_of(name) for name in used})
    text = "\n".join([_HEAD, "from chargehand import client, session", *imports, *map(ast.unparse, classes)])
    for arguments in (["check", "--fix", "--quiet", "--select", "I"], ["format"]):
        command = [sys.executable, "-m", "ruff", *arguments, "--stdin-filename", str(STUB), "-"]
        text = subprocess.run(command, input=text, text=True, capture_output=True, check=True).stdout
    return text


def _signatures(module: ModuleType, name: str, attributes: list[str]) -> ast.ClassDef:
    tree = ast.parse(inspect.getsource(module))
    found = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    for node in ast.walk(found):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = _unquoted(node.returns)
    first = f"asynchronous: {module.__name__.rpartition('.')[2]}.{name}"
    own = [*attributes, first, f"def __init__(self, {first}) -> None: ..."]
    methods: list[ast.stmt] = [kept for node in found.body[1:] if (kept := _Signatures().visit(node)) is not None]
    found.body = [found.body[0], *ast.parse("\n".join(own)).body, *methods]
    return ast.fix_missing_locations(found)


def _import_of(name: str) -> str:
    if name in {"Iterator", "Generator"}:
        return f"from collections.abc import {name}"
    for module in (session, client):
        for node in ast.parse(inspect.getsource(module)).body:
            if isinstance(node, ast.ImportFrom) and name in {each.name for each in node.names}:
                return f"from {node.module} import {name}"
            if isinstance(node, ast.Assign) and name in map(ast.unparse, node.targets):
                return f"from {module.__name__} import {name}"
    return ""


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
