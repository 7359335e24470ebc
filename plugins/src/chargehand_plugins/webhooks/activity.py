"""The activity that notifies a webhook of an end or a wait, signed according to Standard Webhooks.

Requests name the address, so only hosts that the operator allows are called, and a host's address is checked like that
of a web page. A notice of an end contains no text of users, documents or models; one of a wait contains the question.
"""

import asyncio
import base64
import hashlib
import hmac
import json
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.http.retry_after import retry_after
from activities.http.user_agent import user_agent
from chargehand.contracts import Contract, DecisionRecord, SessionRequest, SessionState, Wait, left_out
from chargehand.converter import non_retryable_error
from chargehand.errors import SessionNotFound
from chargehand.temporal_errors import translated
from chargehand.visibility import describe, is_open
from chargehand.wire import ActivityType, ErrorType
from chargehand_plugins.webhooks.links import NO_LINKS, Links

SECONDS: Final = 20
"""Total time of one attempt."""
_CONNECT_SECONDS: Final = 5
_HTTPS: Final = 443


class SessionEnd(Contract):
    """How a session ended."""

    session: str
    state: SessionState
    stop_reason: str = ""
    """Why it stopped, if it has a report."""
    error: str = ""
    """Type of the error, if it has no report."""


class WaitNotice(Contract):
    """A session's wait for a person's decision, or how it ended."""

    session: str
    wait: Wait
    decision: DecisionRecord | None = None
    """None while it is open."""
    times_before: int = 0
    """How often the same channel was notified before."""


class WebhookNotice(Contract):
    """One message to one receiver."""

    id: str
    """Its id, the same in all attempts."""
    url: str = ""
    """The address from the request."""
    channel: str = ""
    """The operator's channel, instead of an address."""
    about: SessionEnd | WaitNotice
    at: datetime
    after: str = left_out("")
    """Id of an earlier message to the same receiver, which arrives first."""

    @property
    def type(self) -> str:
        if isinstance(self.about, SessionEnd):
            return f"session.{self.about.state}"
        return "wait.ended" if self.about.decision else "wait.began"

    def link(self, links: Links) -> str:
        """Return the decision link of the wait; empty if there is nothing to decide."""
        if isinstance(self.about, SessionEnd) or self.about.decision or self.about.wait.kind == "message":
            return ""
        return links.make(self.about.session, self.about.wait, self.channel or "the webhook")

    def body(self, links: Links) -> bytes:
        data = self.about.model_dump(mode="json", exclude={"times_before"})
        if link := self.link(links):
            data["link"] = link
        message = {"type": self.type, "timestamp": self.at.isoformat(), "data": data}
        return json.dumps(message, separators=(",", ":")).encode()


@dataclass(frozen=True)
class WebhookRules:
    """The hosts that the operator allows, and the signing secret."""

    hosts: frozenset[str] = frozenset()
    """`name`, for https at a public address, or `name:port`, which may be internal and without TLS."""
    secret: bytes = field(default=b"", repr=False)

    def problems(self, address: str | None) -> list[str]:
        """Explain why an address is not allowed."""
        if address is None:
            return []
        if not self.hosts or not self.secret:
            settings = "CHARGEHAND_WEBHOOK_HOSTS and sets CHARGEHAND_WEBHOOK_SECRET"
            return [f"webhook: this installation calls none; its operator allows hosts with {settings}"]
        if self._is_allowed(address):
            return []
        return [
            f"webhook: must be https:// and one of the hosts that the operator allows: {', '.join(sorted(self.hosts))}"
        ]

    def check(self, request: SessionRequest) -> list[str]:
        return self.problems(request.webhook)

    @property
    def internal(self) -> frozenset[str]:
        """The hosts whose addresses are not checked."""
        return frozenset(host for host in self.hosts if host.rpartition("]")[2].partition(":")[2])

    def _is_allowed(self, address: str) -> bool:
        try:
            url = urlsplit(address)
            port = url.port
        except ValueError:
            return False
        if url.username is not None or url.password is not None or not url.hostname:
            return False
        usual = {"https": _HTTPS, "http": 80}.get(url.scheme)
        if usual and f"{url.hostname}:{port or usual}" in self.hosts:
            return True
        return url.scheme == "https" and port in (None, _HTTPS) and url.hostname in self.hosts


@dataclass(frozen=True)
class WebhookActivities:
    rules: WebhookRules
    links: Links = NO_LINKS

    @activity.defn(name=ActivityType.CALL_WEBHOOK)
    async def call_webhook(self, notice: WebhookNotice) -> None:
        """Send one notice; Temporal retries until the receiver accepts it.

        Raises:
            ApplicationError: the receiver did not accept it.
        """
        if problems := self.rules.problems(notice.url):
            raise non_retryable_error(ErrorType.INVALID_INPUT, problems[0])
        await await_turn(notice)
        body = notice.body(self.links)
        headers = sign(self.rules.secret, notice.id, int(time.time()), body)
        await post(notice.url, body, headers, self.rules.internal)


async def await_turn(notice: WebhookNotice) -> None:
    """Raise an error while an earlier message is still being sent, so that it goes first."""
    if not notice.after:
        return
    with suppress(SessionNotFound), translated(notice.after):
        if is_open((await describe(activity.client(), notice.after)).workflow_execution_info):
            words = "An earlier message has not been accepted yet."
            raise ApplicationError(words, type=ErrorType.RECEIVER_UNAVAILABLE)


async def post(url: str, body: bytes, headers: dict[str, str], internal: frozenset[str]) -> None:
    """Send one message to a public address, or to a host that may be internal. Redirects are not followed.

    Raises:
        ApplicationError: the receiver did not accept it; with `Retry-After`, includes the retry delay.
    """
    status, wait = await _status(url, body, headers, internal)
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        return
    raise ApplicationError(
        f"The receiver answered {status}.",
        type=ErrorType.RECEIVER_UNAVAILABLE,
        non_retryable=status == HTTPStatus.GONE,
        next_retry_delay=wait,
    )


async def _status(
    url: str, body: bytes, headers: dict[str, str], internal: frozenset[str]
) -> tuple[int, timedelta | None]:
    """Return the status, and the retry delay requested by the receiver."""
    import httpcore2
    from httpx2 import create_ssl_context

    from activities.http.addresses import AddressRefusedError
    from activities.http.guarded_get import GuardedBackend

    tls = await asyncio.to_thread(create_ssl_context, trust_env=False)
    own = {"Host": urlsplit(url).netloc, "Content-Length": str(len(body)), "User-Agent": user_agent()}
    sent = [*own.items(), ("Connection", "close"), *headers.items()]
    timeouts = {"connect": _CONNECT_SECONDS, "read": SECONDS, "write": SECONDS, "pool": SECONDS}
    try:
        async with (
            asyncio.timeout(SECONDS),
            httpcore2.AsyncConnectionPool(ssl_context=tls, network_backend=GuardedBackend(internal)) as pool,
            pool.stream("POST", url, headers=sent, content=body, extensions={"timeout": timeouts}) as response,
        ):
            waits = [value.decode("latin-1") for name, value in response.headers if name.lower() == b"retry-after"]
            return response.status, retry_after(waits[0]) if waits else None
    except AddressRefusedError as error:
        raise non_retryable_error(ErrorType.RECEIVER_UNAVAILABLE, f"The receiver may not be called: {error}") from error
    except (httpcore2.TimeoutException, httpcore2.NetworkError, httpcore2.ProtocolError, OSError) as error:
        raise ApplicationError(
            f"The receiver could not be reached ({type(error).__name__}).", type=ErrorType.RECEIVER_UNAVAILABLE
        ) from error


def sign(secret: bytes, message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Build the headers that prove the origin and time of a message."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    signature = base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()
    return {
        "Content-Type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"v1,{signature}",
    }


def read_secret(text: str) -> bytes:
    """Parse a secret: base64 after `whsec_`, as specified, or else the text itself."""
    if text.startswith("whsec_"):
        return base64.b64decode(text.removeprefix("whsec_"), validate=True)
    return text.encode()
