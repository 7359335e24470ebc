"""The tool with which an agent reads a skill, in the version from its session's start."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from activities.backends import Choice, SettingsError
from activities.contracts.tool import ToolContext, ToolSpec, object_schema
from activities.documents.artifacts import ArtifactError, Artifacts
from chargehand.contracts import Capability
from chargehand.tools import ToolAnswer, failed
from chargehand_plugins.skills.files import FIRST_FILE, Skill, kept_files, read_skill
from worker.composition import crew_folders
from worker.parts import WorkerParts
from worker.settings import Settings

_FOLDER: Final = "skills"
_PAGE_CHARACTERS: Final = 7_000


async def add_parts(parts: WorkerParts) -> None:
    """Add skills to the crews next to them; each is stored, so that sessions keep their version."""
    for skill in await asyncio.to_thread(lambda: [*_skills(parts.crew_folders)]):
        if parts.starts_servers:
            await asyncio.to_thread(parts.artifacts.put, skill.content())
        parts.add_tool(ReadSkill(skill, parts.artifacts))


def choose(settings: Settings) -> Sequence[Choice]:
    return [
        Choice(f"skill {skill.name}", skill.tool, f"version {skill.digest[:12]}: {', '.join(skill.files)}")
        for skill in _skills(crew_folders(settings))
    ]


def _skills(folders: Sequence[Path]) -> Iterator[Skill]:
    paths: dict[str, Path] = {}
    for first in (path for folder in folders for path in sorted((folder / _FOLDER).glob(f"*/{FIRST_FILE}"))):
        skill = read_skill(first.parent)
        if paths.setdefault(skill.name, first) != first:
            raise SettingsError(f"{first}: there is another skill of this name, {paths[skill.name]}; rename one.")
        yield skill


class ReadSkill:
    capabilities = frozenset[Capability]()
    """A skill is the operator's own text, like a crew file."""

    def __init__(self, skill: Skill, kept: Artifacts) -> None:
        self._skill = skill
        self._kept = kept
        self.spec = ToolSpec(
            name=skill.tool,
            description=f"Instructions for you, to be read before such work: {skill.description}",
            parameters=object_schema(
                file={"type": "string", "enum": [*skill.files], "description": f"Read {FIRST_FILE} first."},
                page={"type": "integer", "description": "From 1; an answer says how many there are."},
                version={"type": "string", "enum": [skill.digest]},
            ),
        )

    async def use(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> ToolAnswer:  # noqa: ARG002  # as every tool
        version, name, page = arguments.get("version"), arguments.get("file"), arguments.get("page")
        files = await self._files(version)
        if files is None:
            return failed("This version of the skill is not there any more; do the work without it, and say so.")
        if not isinstance(name, str) or name not in files:
            return failed(f"The skill has no such file; it has {', '.join(files)}.")
        text = files[name]
        pages = [text[start : start + _PAGE_CHARACTERS] for start in range(0, len(text), _PAGE_CHARACTERS)] or [""]
        if not isinstance(page, int) or not 1 <= page <= len(pages):
            return failed(f"The file has pages 1 to {len(pages)}.")
        return ToolAnswer(output={"text": pages[page - 1], "page": page, "of": len(pages)})

    async def _files(self, version: JsonValue) -> Mapping[str, str] | None:
        """Find the files of a session's version."""
        if not isinstance(version, str) or version == self._skill.digest:
            return self._skill.files
        try:
            return kept_files(await asyncio.to_thread(self._kept.read, version), self._skill.name)
        except ArtifactError:
            return None
