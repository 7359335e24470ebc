"""Ask whoever sits at the terminal what a session wants to know, while it is shown."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final

from chargehand.client import Session
from chargehand.contracts import Question
from chargehand.errors import ChargehandError
from chargehand_cli.live_tree import Progress
from chargehand_cli.rendering.escaping import one_safe_line, safe_text
from chargehand_cli.terminal import say
from chargehand_cli.typed_input import build_answer

_PROMPT: Final = "Your answer (empty leaves it open): "


def somebody_can_answer() -> bool:
    """Whether this process has a terminal to ask at, and to read from."""
    return sys.stdin.isatty() and sys.stderr.isatty()


async def read_line() -> str:
    """Read a line from the terminal without holding anything up; empty at its end."""
    loop = asyncio.get_running_loop()
    line: asyncio.Future[bytes] = loop.create_future()
    descriptor = sys.stdin.fileno()
    # A terminal hands lines over one by one; Python's own buffer would swallow the ones after it.
    loop.add_reader(descriptor, lambda: line.done() or line.set_result(os.read(descriptor, 4_096)))
    try:
        return (await line).decode(errors="replace").strip()
    finally:
        loop.remove_reader(descriptor)


class Answering:
    """One question after another; each is asked once, and no longer than it is open."""

    def __init__(self, session: Session, progress: Progress, read: Callable[[], Awaitable[str]] = read_line) -> None:
        """Ask on behalf of a session that `progress` shows."""
        self._session = session
        self._progress = progress
        self._read = read
        self._asked: set[tuple[str, datetime]] = set()
        self._asking: tuple[Question, asyncio.Task[None]] | None = None

    async def notice(self, questions: Sequence[Question]) -> None:
        """Take over what is open now: ask what was not asked, and stop asking what is not open any more."""
        if self._asking and (self._asking[1].done() or self._asking[0] not in questions):
            await self.end()
        if self._asking:
            return
        for question in questions:
            if (question.subtask, question.open_until) not in self._asked:
                self._asked.add((question.subtask, question.open_until))
                self._asking = (question, asyncio.create_task(self._ask(question)))
                return

    async def end(self) -> None:
        """Stop asking."""
        if self._asking:
            _, task = self._asking
            self._asking = None
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _ask(self, question: Question) -> None:
        with self._progress.stepping_aside():
            say(f"{one_safe_line(question.subtask)} ({one_safe_line(question.agent)}) asks:")
            say(f"  {safe_text(question.text)}")
            sys.stderr.write(_PROMPT)
            sys.stderr.flush()
            try:
                text = await self._read()
            except asyncio.CancelledError:
                say(f"\n{one_safe_line(question.subtask)} does not wait for an answer any more.")
                raise
            if not text:
                say(f"Left open; `chargehand answer {self._session.id} --subtask {question.subtask} TEXT` answers it.")
                return
            try:
                await self._session.answer(build_answer(question.subtask, text))
            except ChargehandError as error:
                say(f"The answer was not taken: {error}")
