"""What the console stands on: a connected client, and the place of the files that workers share."""

from collections.abc import Callable
from dataclasses import dataclass

from chargehand import Chargehand, Session
from chargehand.errors import UploadRefused
from chargehand.payloads.encryption import Encryption
from chargehand.temporal_errors import translated
from chargehand.visibility import describe_session, is_open


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
    session_url: Callable[[str], str | None] = lambda _: None
    """Returns a session's address in Temporal's Web UI."""

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
        return chargehand.session(session_id), is_open(found)

    def require_artifacts(self) -> str:
        """Return where files are.

        Raises:
            UploadRefused: it is unknown.
        """
        if self.artifacts is None:
            raise UploadRefused(self.no_artifacts)
        return self.artifacts
