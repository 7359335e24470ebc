"""What the console stands on: a connected client, and the place of the files that workers share."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from chargehand import Chargehand, Conversation, ConversationRequest, Session, SessionRequest, SessionSummary
from chargehand.errors import InvalidInput, SessionNotFound, UploadRefused
from chargehand.payloads.encryption import Encryption
from chargehand.temporal_errors import translated
from chargehand.visibility import describe_session, is_open
from chargehand.wire import WorkflowType
from chargehand_plugins.console.crews import CrewChoice
from chargehand_plugins.console.known_sessions import KnownSessions

_ANY_TENANT: Final = SessionRequest.model_fields["tenant"].default
"""What forms and requests say that name none."""


_Request = TypeVar("_Request", SessionRequest, ConversationRequest)


@dataclass(frozen=True)
class Backend:
    """The installation that a console serves."""

    connect: Callable[[], Chargehand]
    """Returns the client; another one once the embedded server has been restarted."""
    artifacts: str | None
    """Where documents are uploaded to and artifacts read from; None if it is unknown what the workers use."""
    no_artifacts: str = "It is unknown where the workers keep files."
    """Why it is unknown, and the remedy."""
    encryption: Encryption | None = None
    crews: tuple[CrewChoice, ...] = ()
    """Crews that forms offer."""
    tenant: str | None = None
    """The only tenant whose sessions are started, listed and found; None for all."""
    session_url: Callable[[str], str | None] = lambda _: None
    """Returns a session's address in Temporal's Web UI."""
    known: KnownSessions = field(default_factory=KnownSessions, init=False, compare=False)

    def owned(self, request: _Request) -> _Request:
        """Return a request as its tenant's, whatever it says itself.

        Raises:
            InvalidInput: it names another tenant.
        """
        if self.tenant is None or request.tenant == self.tenant:
            return request
        if "tenant" in request.model_fields_set and request.tenant != _ANY_TENANT:
            raise InvalidInput(f"tenant: this console starts sessions of '{self.tenant}' only; leave it out")
        return request.model_copy(update={"tenant": self.tenant})

    def list(self, limit: int, **filters: Any) -> AsyncIterator[SessionSummary]:
        """List sessions, by the filters of the client."""
        if self.tenant is not None:
            filters["tenant"] = self.tenant
        return self.connect().list(limit, **filters)

    async def session(self, session_id: str) -> Session:
        """Find a session, as `find` does."""
        return (await self.find(session_id))[0]

    async def find(self, session_id: str) -> tuple[Session, bool]:
        """Find a session, and whether it goes on; other workflows of the namespace are none of a client's business.

        Raises:
            SessionNotFound: there is no such session.
        """
        chargehand = self.connect()
        with translated(session_id):
            found = await describe_session(chargehand.client, session_id)
        session = chargehand.session(session_id)
        if self.tenant is not None and (await session.request()).tenant != self.tenant:
            raise SessionNotFound(session_id)
        return session, is_open(found)

    async def conversation(self, conversation_id: str) -> Conversation:
        """Find a conversation, as `find` does a session."""
        await self.find(conversation_id)
        chargehand = self.connect()
        with translated(conversation_id):
            found = await describe_session(chargehand.client, conversation_id)
        if found.type.name != WorkflowType.CONVERSATION:
            raise SessionNotFound(conversation_id)
        return chargehand.conversation(conversation_id)

    def require_artifacts(self) -> str:
        """Return where files are.

        Raises:
            UploadRefused: it is unknown.
        """
        if self.artifacts is None:
            raise UploadRefused(self.no_artifacts)
        return self.artifacts
