"""What a webhook is told."""

from datetime import datetime

from chargehand.contracts import Contract, SessionState


class WebhookNotice(Contract):
    """How a session ended, for a webhook."""

    id: str
    """Id of the message: the same however often it is sent."""
    url: str
    """The address, of the request."""
    session: str
    state: SessionState
    stop_reason: str = ""
    """Why it stopped, if it has a report."""
    error: str = ""
    """Type of the error, if it has none."""
    ended_at: datetime
