"""Notifications over real HTTP and SMTP on loopback: who is told what, when, and with which link."""

import json
import socketserver
import threading
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email import message_from_string

from pydantic import SecretStr
from temporalio.testing import ActivityEnvironment

from chargehand.contracts import Wait
from chargehand_plugins.notifications.channels import Mail, NotificationActivities
from chargehand_plugins.notifications.settings import NotificationSettings, steps_of
from chargehand_plugins.webhooks.activity import WaitNotice, WebhookNotice
from chargehand_plugins.webhooks.links import Links
from tests.loopback_http import LoopbackHandler, serve_http

NOW = datetime.now(UTC)
WAIT = Wait(id="c1", kind="call", asks="refund: <!channel> 7", since=NOW, until=NOW + timedelta(hours=1))
LINKS = Links("https://console.example", b"a key of twenty-four bytes")


@contextmanager
def mail_server() -> Generator[tuple[str, list[str]]]:
    """Take e-mail by SMTP, without TLS."""
    taken: list[str] = []

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 here\r\n")
            while line := self.rfile.readline().strip().upper():
                if line == b"DATA":
                    self.wfile.write(b"354 go on\r\n")
                    taken.append(b"".join(iter(self.rfile.readline, b".\r\n")).decode())
                self.wfile.write(b"221 bye\r\n" if line == b"QUIT" else b"250 ok\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield f"smtp://127.0.0.1:{server.server_address[1]}", taken
        server.shutdown()


async def test_each_channel_is_told_what_is_asked_with_a_link() -> None:
    """Slack gets a button and no mention that a model wrote, ntfy an action, and an e-mail the link in its text."""
    posted: dict[str, tuple[str, bytes]] = {}

    class Handler(LoopbackHandler):
        def reply(self) -> None:
            posted[self.path] = self.headers.get("Actions", ""), self.body()
            self.answer(200)

    with serve_http(Handler) as url, mail_server() as (server, mails):
        to = {
            "slack-1": f"slack:{url}/slack",
            "ntfy-2": f"ntfy:{url}/topic",
            "mailto:a@b.example": "mailto:a@b.example",
        }
        internal = frozenset({url.removeprefix("http://")})
        activities = NotificationActivities(to, LINKS, Mail(server, "desk@b.example"), internal)
        for channel in to:
            notice = WebhookNotice(id="1", channel=channel, about=WaitNotice(session="s", wait=WAIT), at=NOW)
            await ActivityEnvironment().run(activities.send_notice, notice)

    link = {channel: LINKS.make("s", WAIT, channel) for channel in to}
    text, actions = json.loads(posted["/slack"][1])["blocks"]
    assert "&lt;!channel&gt;" in text["text"]["text"]
    assert actions["elements"][0]["url"] == link["slack-1"]
    assert posted["/topic"][0] == f"view, Decide, {link['ntfy-2']}"
    [mail] = map(message_from_string, mails)
    assert (mail["To"], mail["Subject"]) == ("a@b.example", "A tool call awaits approval")
    body = mail.get_payload(decode=True)
    assert isinstance(body, bytes)
    assert link["mailto:a@b.example"].encode() in body


def test_a_link_is_read_only_as_it_was_made_and_until_it_expires() -> None:
    """Neither another signature, nor another key, nor a later time opens it."""
    token = LINKS.make("s", WAIT, "slack-1").rpartition("/")[2]
    link = LINKS.read(token, NOW)

    assert link is not None
    assert (link.session, link.wait, link.sent_to) == ("s", "c1", "slack-1")
    assert LINKS.read(f"A{token}", NOW) is None
    assert LINKS.read(token, WAIT.until) is None
    assert Links("", b"another key of that length").read(token, NOW) is None
    assert Links("").read(token, NOW) is None


def test_reminders_and_a_second_address_follow_in_time() -> None:
    """The first address is told at once and reminded three times, the second after its time."""
    first, second = (SecretStr(f"mailto:{name}@b.example") for name in ("first", "second"))
    again = timedelta(minutes=20)
    steps = steps_of(NotificationSettings(notify=(first,), notify_later=(second,), notify_again_every=again))

    assert {(step.channel.partition("@")[0], step.after) for step in steps} == {
        *(("mailto:first", number * again) for number in range(4)),
        ("mailto:second", timedelta(hours=1)),
    }
