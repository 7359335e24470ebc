"""Links for making one decision without signing in: signed, bound to one wait of a session, and expiring."""

import base64
import hashlib
import hmac
from binascii import Error
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from pydantic import ValidationError

from chargehand.contracts import Contract, Wait


class DecisionLink(Contract):
    """The permission of a link: to decide one wait until it ends."""

    session: str
    wait: str
    since: datetime
    """When the wait began, which distinguishes waits if the session's id is reused."""
    until: datetime
    sent_to: str
    """The link's addressee, named in the report."""


@dataclass(frozen=True)
class Links:
    """Creates and parses links."""

    url: str
    """The console's address; empty to disable links."""
    key: bytes = field(default=b"", repr=False)

    def make(self, session: str, wait: Wait, sent_to: str) -> str:
        """Return the decision page's address for a wait; empty without console and key."""
        if not self.url or not self.key:
            return ""
        link = DecisionLink(session=session, wait=wait.id, since=wait.since, until=wait.until, sent_to=sent_to)
        body = base64.urlsafe_b64encode(link.model_dump_json().encode()).decode().rstrip("=")
        return f"{self.url.rstrip('/')}/decide/{body}.{self._signature(body)}"

    def read(self, token: str, now: datetime) -> DecisionLink | None:
        """Return the permission in the last part of a link; None if the link is not ours or has expired."""
        body, _, signature = token.partition(".")
        if not self.key or not hmac.compare_digest(self._signature(body).encode(), signature.encode()):
            return None
        try:
            link = DecisionLink.model_validate_json(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        except (Error, ValidationError):
            return None
        return link if link.until > now else None

    def _signature(self, body: str) -> str:
        return hmac.new(self.key, f"decide {body}".encode(), hashlib.sha256).hexdigest()


NO_LINKS: Final = Links("")
"""Links of an installation without a console."""
