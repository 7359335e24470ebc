"""The console's backend: a connected client, known crews and sessions, and the location of files."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from temporalio.api.workflow.v1 import WorkflowExecutionInfo

from chargehand import Chargehand, Conversation, ConversationRequest, Session, SessionRequest, SessionSummary
from chargehand.errors import InvalidInput, SessionNotFound, UploadRefused
from chargehand.payloads.encryption import Encryption
from chargehand.temporal_errors import translated
from chargehand.toml_file import UnusableToml, read_toml
from chargehand.visibility import describe_session
from chargehand.wire import WorkflowType

MOST_SEARCHED: Final = 5_000
_LISTED_WITHIN: Final = timedelta(seconds=10)
_MOST_WITHOUT_GOAL: Final = 200
"""Maximum sessions that are read again because their goal, which a worker writes, is still missing."""
_ANY_TENANT: Final = SessionRequest.model_fields["tenant"].default
"""The tenant of requests that set none."""
_Request = TypeVar("_Request", SessionRequest, ConversationRequest)
List = Callable[..., AsyncIterator[SessionSummary]]


@dataclass(frozen=True)
class CrewChoice:
    """A crew offered by forms; workers elsewhere may have others."""

    name: str
    description: str
    example: str
    agents: tuple[str, ...]


class KnownSessions:
    """Goals and ids of the newest sessions, for word search.

    The server's list has no word search. Results are read again from the server, which means that a session is shown in
    its current state, and a deleted one is not shown; a newly started console knows none.
    """

    def __init__(self) -> None:
        self._sessions: dict[str, SessionSummary] = {}
        self._read_at = datetime.min.replace(tzinfo=UTC)
        self._lock = asyncio.Lock()

    async def find(self, listed: List, words: Sequence[str]) -> list[str]:
        """Return the ids of sessions with all of these words, newest first; `listed` lists by filters."""
        async with self._lock:
            await self._refresh(listed)
            texts = {name: f"{each.goal} {name}".casefold() for name, each in self._sessions.items()}
        return [name for name, text in texts.items() if all(word in text for word in words)]

    async def _refresh(self, listed: List) -> None:
        since = next((each.started_at for each in self._sessions.values()), None)
        if since and since + _LISTED_WITHIN > self._read_at:
            since -= _LISTED_WITHIN
        self._read_at = datetime.now(UTC)
        without = [name for name, each in self._sessions.items() if not each.goal][:_MOST_WITHOUT_GOAL]
        fresh = [each async for each in listed(MOST_SEARCHED, since=since)]
        if without:
            fresh += [each async for each in listed(len(without), ids=without)]
        known = self._sessions | {each.id: each for each in fresh}
        latest = sorted(known.values(), key=lambda each: each.started_at, reverse=True)
        self._sessions = {each.id: each for each in latest[:MOST_SEARCHED]}


@dataclass(frozen=True)
class Backend:
    """The installation served by a console."""

    connect: Callable[[], Chargehand]
    """Returns the client, which is a new one after the embedded server has been restarted."""
    artifacts: str | None
    """Location of documents and artifacts; None if the workers' is unknown."""
    no_artifacts: str = "It is unknown where the workers keep files."
    """Why the location of artifacts is unknown, and the remedy."""
    encryption: Encryption | None = None
    crews: tuple[CrewChoice, ...] = ()
    """Crews offered by forms."""
    tenant: str | None = None
    """The only tenant served; None for all."""
    session_url: Callable[[str], str | None] = lambda _: None
    """Returns a session's address in Temporal's Web UI."""
    known: KnownSessions = field(default_factory=KnownSessions, init=False, compare=False)

    def owned(self, request: _Request) -> _Request:
        """Return a request with the console's tenant.

        Raises:
            InvalidInput: the request sets another tenant.
        """
        if self.tenant is None or request.tenant == self.tenant:
            return request
        if "tenant" in request.model_fields_set and request.tenant != _ANY_TENANT:
            raise InvalidInput(f"tenant: this console starts sessions of '{self.tenant}' only; leave it out")
        return request.model_copy(update={"tenant": self.tenant})

    def list(self, limit: int, **filters: Any) -> AsyncIterator[SessionSummary]:
        """List sessions with the client's filters."""
        if self.tenant is not None:
            filters["tenant"] = self.tenant
        return self.connect().list(limit, **filters)

    async def session(self, session_id: str) -> Session:
        """Find a session, as `find` does."""
        return (await self.find(session_id))[0]

    async def conversation(self, conversation_id: str) -> Conversation:
        """Find a conversation, as `find` does."""
        _, description = await self.find(conversation_id)
        if description.type.name != WorkflowType.CONVERSATION:
            raise SessionNotFound(conversation_id, is_session=True)
        return self.connect().conversation(conversation_id)

    async def find(self, session_id: str) -> tuple[Session, WorkflowExecutionInfo]:
        """Find a session or conversation with the server's description; other workflows are not accessible.

        Raises:
            SessionNotFound: the session does not exist.
        """
        chargehand = self.connect()
        with translated(session_id):
            description = await describe_session(chargehand.client, session_id)
        session = chargehand.session(session_id)
        if self.tenant is not None and (await session.request()).tenant != self.tenant:
            raise SessionNotFound(session_id)
        return session, description

    def require_artifacts(self) -> str:
        """Return the location of files. Raises `UploadRefused` if it is unknown."""
        if self.artifacts is None:
            raise UploadRefused(self.no_artifacts)
        return self.artifacts


def crew_choices(folders: Iterable[Path]) -> tuple[CrewChoice, ...]:
    """List the shipped crews and those of folders, which replace others of the same name."""
    worker = find_spec("worker")
    shipped = [Path(worker.origin).parents[1] / "crews"] if worker and worker.origin else []
    choices = {crew.name: crew for folder in (*shipped, *folders) for crew in _read(folder)}
    return tuple(sorted(choices.values(), key=lambda crew: (crew.name != "research", crew.name)))


def _read(folder: Path) -> Iterator[CrewChoice]:
    """Read the readable files; the worker reports problems of the others."""
    for file in sorted(folder.glob("*.toml")):
        with suppress(UnusableToml, KeyError, TypeError):
            crew = cast("dict[str, Any]", read_toml(file))
            agents = tuple(str(agent["name"]) for agent in crew.get("agents", ()))
            about = {each: str(crew.get(each, "")) for each in ("description", "example")}
            yield CrewChoice(str(crew["name"]), agents=agents, **about)
