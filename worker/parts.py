"""What plug-ins add to a worker while it is composed."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from activities.contracts.tool import Tool
from activities.documents.artifacts import Artifacts
from activities.documents.library import DocumentLibrary
from chargehand.contracts import SessionRequest
from chargehand.plugins import installed
from worker.settings import Settings


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
    """By name; a plug-in may add to them."""
    of_crews: dict[str, Tool] = field(default_factory=dict[str, Tool])
    """Tools that only those crews have which declare them."""
    activities: list[Callable[..., object]] = field(default_factory=list[Callable[..., object]])
    request_checks: list[Callable[[SessionRequest], Sequence[str]]] = field(
        default_factory=list[Callable[[SessionRequest], Sequence[str]]]
    )
    """Each says what is wrong with a request; a session begins if nothing is."""


async def add_parts(parts: WorkerParts) -> None:
    """Have the plug-ins add to a worker."""
    for extension in installed().parts:
        await extension.load_function()(parts)
