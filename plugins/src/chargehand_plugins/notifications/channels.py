"""The activity that notifies a channel, and the three kinds of channels: Slack, ntfy and e-mail."""

import asyncio
import json
import re
import smtplib
import ssl
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from typing import Final
from urllib.parse import unquote, urlsplit

from temporalio import activity
from temporalio.exceptions import ApplicationError

from chargehand.contracts import WaitKind
from chargehand.converter import non_retryable_error
from chargehand.local_server import is_loopback
from chargehand.wire import ActivityType, ErrorType
from chargehand_cli.rendering.escaping import cut, exact_text
from chargehand_plugins.webhooks.activity import WaitNotice, WebhookNotice, await_turn, post
from chargehand_plugins.webhooks.links import Links

_SECONDS: Final = 10
_SUBMISSION: Final = 587
_LONGEST_SLACK_TEXT: Final = 2_900
"""Slack refuses a section of more than 3,000 characters, the title included."""
_ADDRESS: Final = re.compile(r"\b(\w+)(?=://)|\bwww(?=\.)", re.IGNORECASE)
_ACCEPTED: Final = 250
_KINDS: Final[Mapping[WaitKind, str]] = {
    "plan": "A plan awaits approval",
    "call": "A tool call awaits approval",
    "question": "An agent asks",
    "limits": "A session is paused at a limit",
}


@dataclass(frozen=True)
class Mail:
    """The SMTP server; without TLS only on loopback."""

    server: str = field(repr=False)
    """`smtp://user:password@host:587`."""
    sender: str

    @contextmanager
    def connection(self) -> Generator[smtplib.SMTP]:
        """Connect and sign in. Raises `SMTPException` or `OSError`."""
        server = urlsplit(self.server)
        host = server.hostname or ""
        with smtplib.SMTP(host, server.port or _SUBMISSION, timeout=_SECONDS) as smtp:
            smtp.ehlo()
            if smtp.has_extn("starttls") or not is_loopback(host):
                smtp.starttls(context=ssl.create_default_context())
            if server.username:
                smtp.login(unquote(server.username), unquote(server.password or ""))
            yield smtp

    def problem(self) -> str:
        """Connect, sign in and name the sender; return why the server refuses, or an empty text."""
        try:
            with self.connection() as smtp:
                status, _ = smtp.mail(self.sender)
        except smtplib.SMTPAuthenticationError:
            return "the server refuses the user or password of CHARGEHAND_SMTP; percent-encode special characters"
        except ssl.SSLCertVerificationError as error:
            return f"the server's certificate is not valid for the host of CHARGEHAND_SMTP: {error.verify_message}"
        except (smtplib.SMTPException, OSError) as error:
            why = getattr(error, "strerror", None) or type(error).__name__
            return f"the server of CHARGEHAND_SMTP cannot be used ({why}); check its host, its port and the network"
        return "" if status == _ACCEPTED else "the server refuses the sender; check CHARGEHAND_SMTP_FROM"


@dataclass(frozen=True)
class Text:
    title: str
    """Contains only our own words, since it becomes a header, and Slack interprets marks in it."""
    lines: tuple[str, ...]
    link: str
    """The decision link; empty if there is none or nothing is left to decide."""


@dataclass(frozen=True)
class NotificationActivities:
    channels: Mapping[str, str] = field(repr=False)
    """Addresses by name: `slack:https://…`, `ntfy:https://…`, `mailto:…`."""
    links: Links
    mail: Mail | None = None
    internal: frozenset[str] = frozenset()
    """Internal hosts, as `name:port`, whose addresses are not checked."""

    @activity.defn(name=ActivityType.SEND_NOTICE)
    async def send_notice(self, notice: WebhookNotice) -> None:
        """Send one notice; Temporal retries until the channel accepts it.

        Raises:
            ApplicationError: the channel did not accept it or does not exist.
        """
        address = self.channels.get(notice.channel, "")
        if not address or not isinstance(notice.about, WaitNotice):
            raise non_retryable_error(ErrorType.INVALID_INPUT, f"No channel '{notice.channel}' is set.")
        await await_turn(notice)
        text = text_of(notice.about, notice.link(self.links))
        kind, _, target = address.partition(":")
        if kind == "mailto":
            await asyncio.to_thread(self._mail, target, notice.id, text)
        else:
            headers, body = _slack(text) if kind == "slack" else _ntfy(text)
            await post(target, body, headers, self.internal)

    def _mail(self, to: str, id_: str, text: Text) -> None:
        if self.mail is None:
            raise non_retryable_error(ErrorType.INVALID_INPUT, "CHARGEHAND_SMTP is not set.")
        message = EmailMessage()
        message["Subject"], message["From"], message["To"] = text.title, self.mail.sender, to
        message["Message-ID"] = f"<{id_.encode().hex()}@chargehand>"
        message.set_content("\n".join((*text.lines, *([text.link] if text.link else []))))
        try:
            with self.mail.connection() as smtp:
                smtp.send_message(message)
        except (smtplib.SMTPException, OSError) as error:
            raise ApplicationError(
                f"The mail server did not take it ({type(error).__name__}).", type=ErrorType.RECEIVER_UNAVAILABLE
            ) from error


def text_of(about: WaitNotice, link: str) -> Text:
    """Build the text about a wait or its end."""
    wait, decision, session = about.wait, about.decision, _inert_text(about.session)
    if decision is not None:
        by = f" by {_inert_text(decision.by)}" if decision.by else ""
        ended = "It ended without a decision" if decision.decision == "none" else f"It was {decision.decision}{by}"
        return Text(
            f"Decided: {wait.kind}", (f"{ended} at {decision.at:%Y-%m-%d %H:%M} UTC.", f"Session {session}"), ""
        )
    title = f"{'Reminder: ' if about.times_before else ''}{_KINDS[wait.kind]}"
    return Text(title, (_inert_text(wait.asks), f"Session {session}, until {wait.until:%Y-%m-%d %H:%M} UTC."), link)


def _inert_text(text: str) -> str:
    """Escape each character, and break addresses: Slack and mail gateways fetch them before people decide."""
    return _ADDRESS.sub(r"\g<0> ", exact_text(" ".join(text.split())))


def _slack(text: Text) -> tuple[dict[str, str], bytes]:
    """Build an incoming webhook message in which untrusted text cannot mention people or hide links."""
    escaped = "\n".join(text.lines).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    shown = cut(escaped, _LONGEST_SLACK_TEXT)
    blocks: list[object] = [
        {"type": "section", "text": {"type": "mrkdwn", "text": f"*{text.title}*\n{shown}", "verbatim": True}}
    ]
    if text.link:
        button = {"type": "button", "text": {"type": "plain_text", "text": "Decide"}, "url": text.link}
        blocks.append({"type": "actions", "elements": [button]})
    message = {"text": text.title, "blocks": blocks, "unfurl_links": False, "unfurl_media": False}
    return {"Content-Type": "application/json"}, json.dumps(message).encode()


def _ntfy(text: Text) -> tuple[dict[str, str], bytes]:
    headers = {"Title": text.title, "Content-Type": "text/plain; charset=utf-8"}
    if text.link:
        headers |= {"Click": text.link, "Actions": f"view, Decide, {text.link}"}
    return headers, "\n".join(text.lines).encode()
