"""Builds the plug-ins' wheel without tests, and with the worker's imports renamed as in its own wheel."""

import runpy
import shutil
import tempfile
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_PACKAGE: Final = "chargehand_plugins"
_ASSEMBLED: Final = "assembled"
"""The folder of the assembled package in a source distribution."""
_PAGES: Final = "docs"
_WORKER_HOOK: Final = Path("deploy", "worker", "build_hook.py")


class BuildHook(BuildHookInterface[Any]):
    """Adds the assembled package to wheels and source distributions."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Assemble the package; an editable installation imports the checkout instead."""
        own = Path(self.root)
        if version == "editable" or (own / _ASSEMBLED).is_dir():
            return
        self._staging = tempfile.TemporaryDirectory(prefix=f"{_PACKAGE}-")
        folder = Path(self._staging.name, _PACKAGE)
        rename_imports = runpy.run_path(str(own.parent / _WORKER_HOOK))["rename_imports"]
        unwanted = shutil.ignore_patterns("__pycache__", ".*", "tests", "conftest.py")
        shutil.copytree(own / "src" / _PACKAGE, folder, ignore=unwanted)
        for module in folder.rglob("*.py"):
            module.write_text(rename_imports(module.read_text(encoding="utf-8"), module.name), encoding="utf-8")
        pages = shutil.ignore_patterns(
            "*.py", "*.png", "*.txt", "*.json", "decisions", "prompts", "schemas", "images", ".*"
        )
        shutil.copytree(own.parent / _PAGES, folder / "manual" / "pages", ignore=pages)
        shutil.copyfile(own.parent / "deploy" / "README.md", folder / "manual" / "pages" / "how-to" / "deploying.md")
        place = _PACKAGE if self.target_name == "wheel" else f"{_ASSEMBLED}/{_PACKAGE}"
        build_data["force_include"][str(folder)] = place
