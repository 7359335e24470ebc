"""What keeps a session's page up to date: fragments of it, whenever something has happened in the session."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Final

from chargehand import ChargehandError, Session
from chargehand_cli.rendering.escaping import safe_text
from chargehand_plugins.console.backend import Backend
from chargehand_plugins.console.streams import message
from chargehand_plugins.console.views import Page, SessionView, key_of, view_session

_PAUSE_SECONDS: Final = 0.3
"""Between two readings of the status, however much happens."""
_AGAIN_SECONDS: Final = 10
"""When nothing happens: the time that has passed is shown too, and a worker may have come or gone."""


async def stream_views(backend: Backend, page: Page) -> AsyncGenerator[str]:
    """Yield the parts of the page that have changed, and the text of the report while it is written."""
    news = _News()
    following = asyncio.create_task(news.listen(await backend.session(page.session_id)))
    sent: dict[str, str] = {}
    try:
        while True:
            has_ended = news.has_ended
            view = await view_session(backend, page.session_id)
            for fragment in _changed(page, view, sent):
                yield fragment
            if not view.is_open:
                yield message("", "end")
                return
            if not has_ended:
                await asyncio.sleep(_PAUSE_SECONDS)
            for text in await news.wait():
                yield text
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError, ChargehandError):
            await following


def _changed(page: Page, view: SessionView, sent: dict[str, str]) -> list[str]:
    actions = page.actions(view)
    parts = {
        "live": str(page.live(view)),
        "actions": json.dumps({"key": key_of(actions), "html": actions}),
    }
    changed = [message(data, name) for name, data in parts.items() if sent.get(name) != data]
    sent.update(parts)
    return changed


class _News:
    """The events of a session, reduced to texts and to the fact that there were some."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._changed = asyncio.Event()
        self.has_ended = False

    async def listen(self, session: Session) -> None:
        try:
            async for event in session.follow():
                if event.kind == "text":
                    part = {"draft": event.draft, "offset": event.offset, "text": safe_text(event.text)}
                    self._texts.append(message(json.dumps(part), "text"))
                self._changed.set()
        finally:
            self.has_ended = True
            self._changed.set()

    async def wait(self) -> list[str]:
        """Wait for news, or for a while; return the texts."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_AGAIN_SECONDS if not self.has_ended else 1):
                await self._changed.wait()
        if not self.has_ended:
            self._changed.clear()
        texts, self._texts = self._texts, []
        return texts
