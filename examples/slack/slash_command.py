"""A Slack slash command, `/ask Which clauses cover water damage?`, that runs a session.

    pip install chargehand starlette uvicorn httpx2
    SLACK_SIGNING_SECRET=… TEMPORAL_ADDRESS=localhost:7233 python slash_command.py

Slack waits three seconds for an answer, so the session is only started, and its report is posted when there is one.
"""

import asyncio
import hashlib
import hmac
import os
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from urllib.parse import parse_qs

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from chargehand import Chargehand, ChargehandError, Limits, SessionRequest

LIMITS = Limits(max_turns=10)
MOST_BYTES = 100_000
MOST_CHARACTERS = 3_000
"""Of an answer in Slack."""
SECONDS_TO_ANSWER = 2.5


def is_from_slack(secret: str, headers: Mapping[str, str], body: bytes, now: float) -> bool:
    """Check Slack's signature, which covers the body and the time; an old one may have been recorded."""
    sent_at = headers.get("x-slack-request-timestamp", "")
    if not (sent_at.isascii() and sent_at.isdigit()) or abs(now - int(sent_at)) > 300:
        return False
    signed = hmac.new(secret.encode(), b"v0:" + sent_at.encode() + b":" + body, hashlib.sha256)
    given = headers.get("x-slack-signature", "")
    return hmac.compare_digest(f"v0={signed.hexdigest()}".encode(), given.encode())


def slack_text(markdown: str) -> str:
    """Escape what Slack would take for a mention or a link: a report may quote strangers."""
    escaped = markdown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return escaped if len(escaped) <= MOST_CHARACTERS else f"{escaped[:MOST_CHARACTERS]}…"


class SlashCommand:
    """Starts a session for each command, and posts its report."""

    def __init__(self, chargehand: Chargehand, secret: str) -> None:
        self._chargehand = chargehand
        self._secret = secret
        self._http = httpx2.AsyncClient(timeout=10)
        self._deliveries: set[asyncio.Task[None]] = set()

    def app(self) -> Starlette:
        """Build the web application."""
        return Starlette(routes=[Route("/slack/ask", self.receive, methods=["POST"])], lifespan=self._lifespan)

    async def receive(self, request: Request) -> Response:
        """Start a session, and answer at once."""
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > MOST_BYTES:
                return PlainTextResponse("Too large.", status_code=413)
        if not is_from_slack(self._secret, request.headers, body, time.time()):
            return PlainTextResponse("The signature is wrong.", status_code=401)
        fields = {name: values[0] for name, values in parse_qs(body.decode(errors="replace")).items()}
        try:
            asked = SessionRequest(goal=fields.get("text", ""), limits=LIMITS)
        except ValueError:
            return _only_to_caller("Ask a question of up to 20,000 characters: `/ask What does the contract say?`")
        try:
            async with asyncio.timeout(SECONDS_TO_ANSWER):
                session = await self._chargehand.start(asked, session_id=f"slack-{fields['trigger_id']}")
        except (ChargehandError, TimeoutError):
            return _only_to_caller("Chargehand cannot be reached. Please try again.")
        delivery = asyncio.create_task(self._deliver(session.id, fields["response_url"]))
        self._deliveries.add(delivery)
        delivery.add_done_callback(self._deliveries.discard)
        return _only_to_caller(f"I am on it. The report will be posted here ({session.id}).")

    async def _deliver(self, session_id: str, response_url: str) -> None:
        """Post the report; Slack takes answers to a command for 30 minutes."""
        try:
            report = await self._chargehand.session(session_id).result()
        except ChargehandError as error:
            text = f"There is no report: {error}"
        else:
            text = "\n".join([report.answer, *(f"[S{n}] {each.ref}" for n, each in enumerate(report.sources, start=1))])
        # Slack would fetch the addresses of a report for previews.
        message = {"text": slack_text(text), "unfurl_links": False, "unfurl_media": False}
        await self._http.post(response_url, json={"response_type": "in_channel"} | message)

    @asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncGenerator[None]:
        yield
        for delivery in self._deliveries:
            delivery.cancel()
        await asyncio.gather(*self._deliveries, return_exceptions=True)
        await self._http.aclose()


def _only_to_caller(text: str) -> Response:
    return JSONResponse({"response_type": "ephemeral", "text": text})


async def main() -> None:
    """Serve until interrupted."""
    command = SlashCommand(await Chargehand.connect(), os.environ["SLACK_SIGNING_SECRET"])
    await uvicorn.Server(uvicorn.Config(command.app(), host="127.0.0.1", port=8080)).serve()


if __name__ == "__main__":
    asyncio.run(main())
