"""Live updates of a session's page: fragments, sent whenever something has happened."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Final

from chargehand import ChargehandError
from chargehand.history.follow import watch
from chargehand.history.projection import Projection
from chargehand.history.tree import describe_running
from chargehand.temporal_errors import translated
from chargehand_cli.rendering.escaping import safe_text
from chargehand_plugins.console.backend import Backend
from chargehand_plugins.console.streams import message
from chargehand_plugins.console.views import Page, SessionView, key_of, view_session

_PAUSE_SECONDS: Final = 0.5
"""Minimum interval between readings of the session; its past is read after this time without events."""
_BEAT_SECONDS: Final = 5
"""Interval of keep-alives and of checks for retries and missing workers."""


async def stream_views(backend: Backend, page: Page) -> AsyncGenerator[str]:
    """Yield changed parts of the page, and the report's text while it is written."""
    await backend.session(page.session_id)  # another tenant's session is not accessible
    news = _News(backend, page.session_id)
    following = asyncio.create_task(news.listen())
    sent: dict[str, str] = {}
    try:
        while await news.past():
            yield message("", "beat")
        while True:
            has_ended = news.has_ended
            if news.work is not None:
                with translated(page.session_id):
                    await describe_running(backend.connect().client, news.work)
            view = await view_session(backend, page.session_id, news.work)
            for fragment in _changed(page, view, sent):
                yield fragment
            if not view.is_open:
                yield message("", "end")
                return
            await asyncio.sleep(_PAUSE_SECONDS)
            for text in await news.wait(is_over=has_ended):
                yield text
            yield message("", "beat")
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError, ChargehandError):
            await following


def _changed(page: Page, view: SessionView, sent: dict[str, str]) -> list[str]:
    parts = page.parts(view)
    keys = {name: key_of(html) for name, html in parts.items()}
    changed = [name for name, key in keys.items() if sent.get(name) != key]
    sent.update(keys)
    return [message(json.dumps({"id": name, "key": keys[name], "html": parts[name]}), "part") for name in changed]


class _News:
    """A session's events, reduced to texts, a change flag, and the resulting projection."""

    def __init__(self, backend: Backend, session_id: str) -> None:
        self._backend = backend
        self._session_id = session_id
        self._texts: list[str] = []
        self._changed = asyncio.Event()
        self._read_at = time.monotonic()
        self.work: Projection | None = None
        self.has_ended = False

    async def listen(self) -> None:
        try:
            with translated(self._session_id):
                async with aclosing(
                    watch(self._backend.connect().client, self._session_id, has_contents=True)
                ) as events:
                    async for event, work in events:
                        self.work, self._read_at = work, time.monotonic()
                        if event.kind == "text":
                            part = {"draft": event.draft, "offset": event.offset, "text": safe_text(event.text)}
                            self._texts.append(message(json.dumps(part), "text"))
                        self._changed.set()
        finally:
            self.has_ended = True
            self._changed.set()

    async def past(self) -> bool:
        """Wait at most a second until past events are read; return whether more remain."""
        began_at = time.monotonic()
        while not self.has_ended and (now := time.monotonic()) - self._read_at < _PAUSE_SECONDS:
            if now - began_at > 1:
                return True
            await asyncio.sleep(_PAUSE_SECONDS / 5)
        return False

    async def wait(self, *, is_over: bool) -> list[str]:
        """Wait for events or a timeout; return the texts."""
        with suppress(TimeoutError):
            async with asyncio.timeout(1 if is_over else _BEAT_SECONDS):
                await (asyncio.sleep(1) if is_over else self._changed.wait())
        self._changed.clear()
        texts, self._texts = self._texts, []
        return texts
