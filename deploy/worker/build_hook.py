"""Assembles the worker's code below `chargehand_worker`, so that the wheel installs no other top-level name.

In the checkout, its folders are imported as `activities`, `workflows` and `worker`, names that many projects use
themselves. In the wheel, each is a part of `chargehand_worker`, and imports are renamed.
"""

import ast
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_PACKAGE: Final = "chargehand_worker"
_ASSEMBLED: Final = "assembled"
"""The folder of the assembled package in a source distribution."""
_OWN: Final = Path("deploy", "worker")
_CONTENT: Final = ("activities", "workflows", "worker", "crews", "docker-compose.yml")
_SERVER_FILES: Final = "deploy/temporal-*"
"""The files of `deploy/` that a project's containers need; operators keep certificates and keys there too."""
_MOVED: Final = ("activities", "workflows", "worker")
_MODULE_IN_TEXT: Final = re.compile(rf"(?:{'|'.join(_MOVED)})\.[\w.]*")


class BuildHook(BuildHookInterface[Any]):
    """Adds the assembled package to wheels and source distributions."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Assemble the package; an editable installation imports the checkout instead."""
        if version == "editable" or Path(self.root, _ASSEMBLED).is_dir():
            return
        self._staging = tempfile.TemporaryDirectory(prefix=f"{_PACKAGE}-")
        folder = Path(self._staging.name, _PACKAGE)
        assemble(Path(self.root).parents[1], folder)
        place = _PACKAGE if self.target_name == "wheel" else f"{_ASSEMBLED}/{_PACKAGE}"
        build_data["force_include"][str(folder)] = place


def assemble(checkout: Path, target: Path) -> None:
    """Copy the package's content from the checkout, with renamed imports."""
    unwanted = shutil.ignore_patterns("__pycache__", ".*")
    shutil.copytree(checkout / _OWN / "src" / _PACKAGE, target, ignore=unwanted)
    for name in _CONTENT:
        source = checkout / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=unwanted)
        else:
            shutil.copyfile(source, target / name)
    for source in checkout.glob(_SERVER_FILES):
        (copy := target / source.relative_to(checkout)).parent.mkdir(exist_ok=True)
        shutil.copyfile(source, copy)
    for module in target.rglob("*.py"):
        module.write_text(rename_imports(module.read_text(encoding="utf-8"), module.name), encoding="utf-8")


def rename_imports(source: str, file: str) -> str:
    """Rename a source's imports of moved modules.

    Raises:
        ValueError: it imports one without `from`, or names one in a string.
    """
    lines = source.splitlines(keepends=True)
    tree = ast.parse(source, file)
    for line in _lines_to_change(tree, file):
        lines[line] = lines[line].replace("from ", f"from {_PACKAGE}.", 1)
    return "".join(lines)


def _lines_to_change(tree: ast.Module, file: str) -> Iterator[int]:
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module), level=0) if module.partition(".")[0] in _MOVED:
                yield node.lineno - 1
            case ast.Import(names=names) if any(each.name.partition(".")[0] in _MOVED for each in names):
                raise ValueError(f"{file}:{node.lineno}: write `from … import …`, which the wheel's build can rename")
            case ast.Constant(value=str(text)) if id(node) not in documentation and _MODULE_IN_TEXT.fullmatch(text):
                raise ValueError(f"{file}:{node.lineno}: derive the module name {text!r} from __package__ or __name__")
            case _:
                pass
