"""A webhook that starts a session for each delivery, and one only, however often it is delivered again.

    pip install chargehand starlette uvicorn
    WEBHOOK_SECRET=… CHARGEHAND_ARTIFACTS=/shared/artifacts TEMPORAL_ADDRESS=localhost:7233 python receiver.py

The headers are GitHub's; most senders have their like. The event is handed over as a document: what a stranger wrote
into it is read as data, while the goal is yours.
"""

import asyncio
import hashlib
import hmac
import os
import re

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from chargehand import Chargehand, ChargehandError, Limits, SessionRequest

SIGNATURE = "x-hub-signature-256"
DELIVERY = "x-github-delivery"
REQUEST = SessionRequest(
    goal="Summarise the event in event.txt for the team: what happened, and what should be done about it?",
    limits=Limits(max_turns=10),
)
MOST_BYTES = 1_000_000


class Receiver:
    """Starts a session for each delivery."""

    def __init__(self, chargehand: Chargehand, secret: str) -> None:
        self._chargehand = chargehand
        self._secret = secret

    def app(self) -> Starlette:
        """Build the web application."""
        return Starlette(routes=[Route("/webhook", self.receive, methods=["POST"])])

    async def receive(self, request: Request) -> Response:
        """Check who sends, start the session, and answer with its id."""
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > MOST_BYTES:
                return PlainTextResponse("Too large.", status_code=413)
        signed = f"sha256={hmac.new(self._secret.encode(), body, hashlib.sha256).hexdigest()}"
        if not hmac.compare_digest(signed.encode(), request.headers.get(SIGNATURE, "").encode()):
            return PlainTextResponse("The signature is wrong.", status_code=401)
        delivery = request.headers.get(DELIVERY, "")
        if not re.fullmatch(r"[A-Za-z0-9-]{8,100}", delivery):
            return PlainTextResponse(f"{DELIVERY} has to name the delivery.", status_code=400)
        try:
            session = await self._chargehand.start(
                REQUEST, documents=[("event.txt", body)], session_id=f"webhook-{delivery}"
            )
        except ChargehandError:
            # The sender sends it again.
            return PlainTextResponse("The session could not be started.", status_code=503)
        return JSONResponse({"session": session.id}, status_code=202)


async def main() -> None:
    """Serve until interrupted."""
    receiver = Receiver(
        await Chargehand.connect(artifacts=os.environ["CHARGEHAND_ARTIFACTS"]), os.environ["WEBHOOK_SECRET"]
    )
    await uvicorn.Server(uvicorn.Config(receiver.app(), host="127.0.0.1", port=8080)).serve()


if __name__ == "__main__":
    asyncio.run(main())
