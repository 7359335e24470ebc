"""What plug-ins add to a worker during composition."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from activities.backends import SettingsError
from activities.contracts.session import SessionFacts
from activities.contracts.tool import Tool
from activities.documents.artifacts import Artifacts
from activities.documents.library import DocumentLibrary
from activities.models.tiers import Models
from chargehand.contracts import SessionRequest
from chargehand.plugins import installed
from worker.settings import Settings


@dataclass(frozen=True)
class Traffic:
    models: Models
    tools: Mapping[str, Tool]
    absent: Collection[str]
    """Tools that crews can mention but agents do not get."""


TrafficWrapper = Callable[[Traffic], Traffic]
"""Wraps adapters below activities, for instance to count, record or replay traffic."""


@dataclass(frozen=True)
class WorkerParts:
    """The worker's parts so far, to which plug-ins add."""

    settings: Settings
    environment: Mapping[str, str]
    library: DocumentLibrary
    artifacts: Artifacts
    closing: AsyncExitStack
    """Closes opened resources together with the worker."""
    crew_folders: Sequence[Path]
    tools: dict[str, Tool]
    """Tools by name; see `add_tool`."""
    starts_servers: bool = True
    """Whether servers are started; not if crews are only checked or nothing calls them."""
    of_crews: dict[str, Tool] = field(default_factory=dict[str, Tool])
    """Tools available only to the crews that declare them."""
    activities: list[Callable[..., object]] = field(default_factory=list[Callable[..., object]])
    request_checks: list[Callable[[SessionRequest], Sequence[str]]] = field(
        default_factory=list[Callable[[SessionRequest], Sequence[str]]]
    )
    """Checks that return the problems of a request; a session starts only without any."""
    opening_steps: list[Callable[[SessionRequest, SessionFacts], Awaitable[SessionFacts]]] = field(
        default_factory=list[Callable[[SessionRequest, SessionFacts], Awaitable[SessionFacts]]]
    )
    """Steps that extend the facts of an accepted session when it is opened."""
    document_checks: list[Callable[[str], bool]] = field(default_factory=list[Callable[[str], bool]])
    """Checks whether a tool reads documents of a given name, even without words."""
    traffic_wrappers: list[TrafficWrapper] = field(default_factory=list[TrafficWrapper])
    """Called once models and tools are open; each gets the result of the previous one."""

    def add_tool(self, tool: Tool) -> None:
        """Add a tool for all crews.

        Raises:
            SettingsError: the name is taken.
        """
        if tool.spec.name in self.tools:
            raise SettingsError(f"There is another tool '{tool.spec.name}'; give yours another name.")
        self.tools[tool.spec.name] = tool


async def add_parts(parts: WorkerParts) -> None:
    for extension in installed().parts:
        with extension.calling("parts"):
            await extension.load_function()(parts)
            called = chain(parts.activities, parts.request_checks, parts.opening_steps, parts.document_checks)
            if wrong := [each for each in chain(called, parts.traffic_wrappers) if not callable(each)]:
                raise TypeError(f"{wrong[0]!r} is not callable")
