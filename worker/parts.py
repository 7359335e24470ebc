"""What plug-ins add to a worker while it is composed."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from activities.backends import SettingsError
from activities.contracts.session import SessionFacts
from activities.contracts.tool import Tool
from activities.documents.artifacts import Artifacts
from activities.documents.library import DocumentLibrary
from activities.models.registry import Models
from chargehand.contracts import SessionRequest
from chargehand.plugins import installed
from worker.settings import Settings


@dataclass(frozen=True)
class Traffic:
    models: Models
    tools: Mapping[str, Tool]
    absent: Collection[str]
    """Tools that crews may mention and agents do not get."""


TrafficWrapper = Callable[[Traffic], Traffic]
"""Puts something between adapters and activities, such as what counts or records, or answers itself."""


@dataclass(frozen=True)
class WorkerParts:
    """What the worker is made of so far, and what plug-ins add to it."""

    settings: Settings
    environment: Mapping[str, str]
    library: DocumentLibrary
    artifacts: Artifacts
    closing: AsyncExitStack
    """Closes what is opened, with the worker."""
    crew_folders: Sequence[Path]
    tools: dict[str, Tool]
    """By name; see `add_tool`."""
    starts_servers: bool = True
    """Not where only crews are checked, or nothing calls them."""
    of_crews: dict[str, Tool] = field(default_factory=dict[str, Tool])
    """Tools that only those crews have which declare them."""
    activities: list[Callable[..., object]] = field(default_factory=list[Callable[..., object]])
    request_checks: list[Callable[[SessionRequest], Sequence[str]]] = field(
        default_factory=list[Callable[[SessionRequest], Sequence[str]]]
    )
    """Each says what is wrong with a request; a session begins if nothing is."""
    opening_steps: list[Callable[[SessionRequest, SessionFacts], Awaitable[SessionFacts]]] = field(
        default_factory=list[Callable[[SessionRequest, SessionFacts], Awaitable[SessionFacts]]]
    )
    """Each adds to the facts of a session that is not refused, when it is opened."""
    document_checks: list[Callable[[str], bool]] = field(default_factory=list[Callable[[str], bool]])
    """Each says whether a tool reads documents of a name, even if they have no words."""
    traffic_wrappers: list[TrafficWrapper] = field(default_factory=list[TrafficWrapper])
    """Called once models and tools are open; each gets what the one before it returned."""

    def add_tool(self, tool: Tool) -> None:
        """Add a tool for all crews.

        Raises:
            SettingsError: there is one of its name.
        """
        if tool.spec.name in self.tools:
            raise SettingsError(f"There is another tool '{tool.spec.name}'; give yours another name.")
        self.tools[tool.spec.name] = tool


async def add_parts(parts: WorkerParts) -> None:
    for extension in installed().parts:
        await extension.load_function()(parts)
