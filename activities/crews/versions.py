"""Crew versions: a session keeps the version it started with, even if workers have other versions later.

The worker that opens the session stores the version under its digest, for workers that have a different one.
"""

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError
from temporalio.exceptions import ApplicationError

from activities.contracts.cards import ModelCard
from activities.contracts.crew import Agent, Crew
from activities.contracts.tool import Tool, ToolSpec
from activities.documents.artifacts import ArtifactError, Artifacts
from chargehand.contracts import Capability, Contract, Tier
from chargehand.converter import non_retryable_error
from chargehand.wire import ErrorType

_SHOWN_DIGITS: Final = 12
MOST_KEPT: Final = 100
"""Maximum versions in memory, as each session with designed agents has its own; others are read again."""


class _Version(Contract):
    """A session's version: its crew, the crews of its nested sessions, their tools, and the models."""

    crews: dict[str, Crew]
    tools: dict[str, ToolSpec]
    capabilities: dict[str, tuple[Capability, ...]]
    models: dict[Tier, ModelCard]
    named: dict[str, ModelCard] = {}

    def content(self) -> bytes:
        # A request decides what a crew leaves unset. Keys keep their order, which is also that of
        # the prompt: a call repeated by another worker has to be identical.
        return json.dumps(self.model_dump(mode="json", exclude_unset=True)).encode()


@dataclass(frozen=True)
class PinnedCrew:
    """A crew of one version, with its models, and its tools as described to its agents."""

    crew: Crew
    specs: Mapping[str, ToolSpec]
    models: Mapping[Tier, ModelCard]
    named: Mapping[str, ModelCard]
    reference: str
    """`<name>@<digest of the version>`, by which activities find it."""

    @property
    def digest(self) -> str:
        """The digest shown in reports; the full one would give access to the stored content."""
        return self.reference.partition("@")[2][:_SHOWN_DIGITS]


class CrewVersions:
    """The crews of a worker, and earlier versions of running sessions."""

    def __init__(
        self,
        crews: Mapping[str, Crew],
        tools: Mapping[str, Tool],
        models: Mapping[Tier, ModelCard] | None = None,
        store: Artifacts | None = None,
        named: Mapping[str, ModelCard] | None = None,
        *,
        has_all_tools: bool = True,
    ) -> None:
        self.names = sorted(crews)
        self._crews = crews
        self._tools = tools
        self._models = models or {}
        self._named = named or {}
        self._store = store
        self._has_all_tools = has_all_tools
        """Whether a crew with a missing tool is unavailable; a worker for one kind of tools lacks the others."""
        self._known: dict[str, _Version] = {}
        """Known versions by digest."""

    async def pin(self, name: str, digest: str = "") -> PinnedCrew | None:
        """Pin a crew for a new session, so that every worker can find it; None if it does not exist.

        `digest` is the version of the parent session, if this is a nested one.
        """
        if digest:
            return await self.find(f"{name}@{digest}")
        return await self._store_version(name, self._version(name)) if name in self._crews else None

    async def with_agents(self, pinned: PinnedCrew, agents: Sequence[Agent]) -> PinnedCrew:
        """Add agents to a session's crew and store that version, so that every worker can find it."""
        name, _, digest = pinned.reference.partition("@")
        crew = pinned.crew.replace(agents=(*pinned.crew.agents, *agents))
        version = self._known.get(digest) or await self._load(name, digest)
        return await self._store_version(name, version.replace(crews={**version.crews, name: crew}))

    async def find(self, reference: str) -> PinnedCrew:
        """Find the crew of a reference; without a digest, in this worker's own version. Raises `CrewUnavailable`."""
        name, _, digest = reference.partition("@")
        if not digest and name in self._crews:
            version = self._version(name)
            return self._pin(name, hashlib.sha256(version.content()).hexdigest(), version)
        return self._pin(name, digest, self._known.get(digest) or await self._load(name, digest))

    async def _store_version(self, name: str, version: _Version) -> PinnedCrew:
        content = version.content()
        if self._store is not None:
            await asyncio.to_thread(self._store.put, content)
        return self._pin(name, hashlib.sha256(content).hexdigest(), version)

    def _pin(self, name: str, digest: str, version: _Version) -> PinnedCrew:
        self._known[digest] = version
        if self._store is not None and len(self._known) > MOST_KEPT:
            del self._known[next(iter(self._known))]
        if name not in version.crews:
            raise _unavailable(name, "is not a crew that the session began with")
        # Tools keep their initial descriptions; tools unknown at that time get their current ones.
        specs = {
            tool: self._tools[tool].spec if spec.reserved_bytes and tool in self._tools else spec
            for tool, spec in version.tools.items()
        }
        return PinnedCrew(version.crews[name], specs, version.models, version.named, f"{name}@{digest}")

    async def _load(self, name: str, digest: str) -> _Version:
        if self._store is None or not digest:
            raise _unavailable(name, "is not on this worker")
        try:
            version = _Version.model_validate_json(await asyncio.to_thread(self._store.read, digest))
        except ArtifactError as error:
            why = "has changed since the session began, and that version is not in the store of this worker; have all "
            raise _unavailable(name, f"{why}workers share CHARGEHAND_ARTIFACTS") from error
        except ValidationError as error:
            why = "is stored in a form that this worker cannot read; run the session on the build that began it"
            raise _unavailable(name, why) from error
        for tool, capabilities in version.capabilities.items():
            if tool not in self._tools:
                if not self._has_all_tools:
                    continue
                raise _unavailable(name, f"needs the tool '{tool}', which this worker does not have")
            if self._tools[tool].capabilities.difference(capabilities):
                raise _unavailable(name, f"may not use the tool '{tool}' as it is set up now: it can do more than then")
        for tier, model in version.models.items():
            if tier in self._models and self._models[tier].provider != model.provider:
                raise _unavailable(name, f"needs the model {model.name} of {model.provider}, which is not set up here")
        return version

    def _version(self, name: str) -> _Version:
        needed: dict[str, Crew] = {}
        following: str | None = name
        while following and following not in needed:
            needed[following] = self._crews[following]
            following = self._crews[following].nested
        agents = [agent for crew in needed.values() for agent in crew.agents]
        custom = [crew.custom for crew in needed.values() if crew.custom]
        tools = sorted({tool for having in (*agents, *custom) for tool in having.tools})
        models = {agent.model for agent in agents if agent.model}
        return _Version(
            crews=needed,
            tools={tool: self._tools[tool].spec for tool in tools},
            capabilities={tool: tuple(sorted(self._tools[tool].capabilities)) for tool in tools},
            models=dict(self._models),
            named={name: self._named[name] for name in sorted(models) if name in self._named},
        )


def _unavailable(name: str, why: str) -> ApplicationError:
    return non_retryable_error(ErrorType.CREW_UNAVAILABLE, f"The crew '{name}' {why}.")
