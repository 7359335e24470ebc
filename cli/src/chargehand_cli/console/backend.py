"""What the console stands on: a connected client, and the place of the files that workers share."""

from collections.abc import Callable
from dataclasses import dataclass

from chargehand import Chargehand, Session
from chargehand.errors import UploadRefused
from chargehand.payloads.encryption import Encryption


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

    def session(self, session_id: str) -> Session:
        return self.connect().session(session_id)

    def require_artifacts(self) -> str:
        """Return where files are.

        Raises:
            UploadRefused: it is unknown.
        """
        if self.artifacts is None:
            raise UploadRefused(self.no_artifacts)
        return self.artifacts
