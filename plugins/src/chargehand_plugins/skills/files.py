"""Skills on disk: a folder with a `SKILL.md`, whose front matter states its purpose, and more text files."""

import hashlib
import json
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import yaml
from pydantic import BaseModel, StringConstraints, ValidationError

from activities.backends import SettingsError
from chargehand.contracts.base import Form
from chargehand.contracts.problems import describe_problems, join_problems

_logger = logging.getLogger("chargehand.skills")
FIRST_FILE: Final = "SKILL.md"
_FRONT: Final = re.compile(r"\A---[ \t]*\n(.*?)^---[ \t]*(?:\n(.*))?\Z", re.DOTALL | re.MULTILINE)
_MOST_FILES: Final = 100
_MOST_SKILL_BYTES: Final = 1_000_000
_MOST_FRONT_CHARACTERS: Final = 10_000
_PREFIX: Final = "skill_"
_LONGEST_NAME: Final = 40 - len(_PREFIX)
"""Maximum length that still fits into a tool's name."""


class _Front(BaseModel):
    """Fields that the format requires; further fields have no effect."""

    name: Annotated[
        str,
        Form(
            r"^[a-z0-9]+(-[a-z0-9]+)*$",
            f"must be at most {_LONGEST_NAME} lower-case letters, digits and single hyphens between them",
            _LONGEST_NAME,
        ),
    ]
    description: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1_024)]


class _Kept(BaseModel, extra="forbid"):
    skill: str
    files: dict[str, str]


@dataclass(frozen=True)
class Skill:
    """A skill as of the worker's start."""

    name: str
    description: str
    files: Mapping[str, str]
    """Text by path, `SKILL.md` first."""

    @property
    def tool(self) -> str:
        return f"{_PREFIX}{self.name}"

    def content(self) -> bytes:
        """Serialise all files as an artifact with the skill's name, so that no other artifact passes for it."""
        return json.dumps({"skill": self.name, "files": dict(self.files)}, sort_keys=True).encode()

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.content()).hexdigest()


def kept_files(content: bytes, name: str) -> Mapping[str, str] | None:
    """Read the files of a stored version; None if the artifact is something else."""
    try:
        version = _Kept.model_validate_json(content)
    except ValidationError:
        return None
    return version.files if version.skill == name else None


def read_skill(folder: Path) -> Skill:
    """Read a skill.

    Raises:
        SettingsError: it violates the format or is too large; the message names the file and the remedy.
    """
    first = folder / FIRST_FILE
    files = dict(_texts(folder))
    if FIRST_FILE not in files:
        raise SettingsError(f"{first}: it has to be a file of its own, no link, and text in UTF-8: save it as that.")
    front = _FRONT.match(files[FIRST_FILE])
    if front is None:
        raise SettingsError(f"{first}: begin it with lines `---`, `name: …`, `description: …`, `---`.")
    if len(front[1]) > _MOST_FRONT_CHARACTERS:
        raise SettingsError(
            f"{first}: its lines above the second `---` have {_MOST_FRONT_CHARACTERS:,} characters at most."
        )
    try:
        described = _Front.model_validate(yaml.safe_load(front[1]))
    except ValidationError as error:
        raise SettingsError(f"{first}: {join_problems(describe_problems(error, _Front))}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # also impossible dates and numbers
        raise SettingsError(f"{first}: its first lines are not YAML: {' '.join(str(error).split())}") from error
    if described.name != folder.name:
        raise SettingsError(f"{first}: name: is '{described.name}'; it must be that of its folder, '{folder.name}'.")
    others = {path: text for path, text in sorted(files.items()) if path != FIRST_FILE}
    return Skill(described.name, described.description, {FIRST_FILE: (front[2] or "").strip()} | others)


def _texts(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the text files in the folder itself, skipping links and hidden files."""
    root, total, count = folder.resolve(), 0, 0
    for path in sorted(root.rglob("*")):
        inside = path.relative_to(root)
        if any(part.startswith(".") for part in inside.parts) or path.is_symlink() or not path.is_file():
            continue
        if path.resolve() != path:
            continue
        total, count = total + path.stat().st_size, count + 1
        if count > _MOST_FILES or total > _MOST_SKILL_BYTES:
            raise SettingsError(f"{folder}: a skill has {_MOST_FILES} files and {_MOST_SKILL_BYTES:,} bytes at most.")
        try:
            yield inside.as_posix(), path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            _logger.warning("skill %s: %s is no text, so agents cannot read it", folder.name, inside)
