"""Create a project from the template: `chargehand init NAME`. Imports nothing from the worker."""

import re
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import Final

_NAME: Final = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_LONGEST_NAME: Final = 40
_TEMPLATE: Final = Path(__file__).with_name("template")
_VERSION: Final = "0.0.0"
"""Replaced in the template by the version of Chargehand."""
_HIDDEN: Final = ("dockerignore", "gitignore")
"""Hidden files of a project, renamed in the template so that they do not apply there."""
_COMPOSE: Final = "docker-compose.yml"
_SERVER_FILES: Final = ("temporal-dynamic-config.yaml", "temporal-namespace.sh", "temporal-schema.sh")


def create(folder: Path) -> list[Path]:
    """Create a project in a new folder, name its crew after the folder, and return its files.

    Raises:
        ValueError: the name cannot be a crew's.
        OSError: the folder exists, or cannot be written.
    """
    name = folder.name
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise ValueError(f"a name has small letters, digits and single hyphens, {_LONGEST_NAME} characters at most")
    folder.mkdir(parents=True)
    changes = {"my-crew": name, "my_crew": name.replace("-", "_"), _VERSION: version("chargehand-worker")}
    for source in sorted(path for path in _TEMPLATE.rglob("*") if path.is_file() and path.suffix != ".pyc"):
        target = folder / _changed(str(source.relative_to(_TEMPLATE)), changes)
        if source.name in _HIDDEN:
            target = target.with_name(f".{source.name}")
        target.parent.mkdir(exist_ok=True)
        target.write_text(_changed(source.read_text(encoding="utf-8"), changes), encoding="utf-8")
    deployment = next(path for path in Path(__file__).parents if (path / _COMPOSE).is_file())
    shutil.copyfile(deployment / _COMPOSE, folder / _COMPOSE)
    (folder / "deploy").mkdir()
    for file in _SERVER_FILES:
        shutil.copyfile(deployment / "deploy" / file, folder / "deploy" / file)
    # Gives it its own embedded server, sessions and files: commands use the nearest folder of this name.
    (folder / ".chargehand").mkdir(mode=0o700)
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _changed(text: str, changes: dict[str, str]) -> str:
    for old, new in changes.items():
        text = text.replace(old, new)
    return text
