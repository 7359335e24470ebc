"""Follow a session to its end: show its status, put its questions, and outlast an absent server or worker."""

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final, NoReturn

from chargehand import ChargehandError, NotReachable, Question, Report, Session, SessionEnded, SessionNotFound, Status
from chargehand_cli.connection import Connection
from chargehand_cli.live_tree import Progress, choose_progress
from chargehand_cli.rendering.escaping import one_safe_line, safe_text
from chargehand_cli.terminal import say

_PATIENCE_SECONDS: Final = 60
"""How long to wait for an answer before giving up; the session itself goes on waiting."""
_REMARK_AFTER_SECONDS: Final = 5
_CANCEL_SECONDS: Final = 15
_PROMPT: Final = "Your answer (leave empty to skip): "


async def follow(connection: Connection, session_id: str, *, quiet: bool) -> Report:
    """Show a session until it ends; on a terminal, put its questions to the user.

    Raises:
        SessionEnded: it ended without a report.
        NotReachable: there was no answer for a minute, or the embedded worker keeps exiting.
    """
    progress = choose_progress(session_id, quiet=quiet)
    is_interactive = sys.stdin.isatty() and sys.stderr.isatty() and not quiet
    prompt = QuestionPrompt(connection.session(session_id), progress) if is_interactive else None
    with progress:
        result = asyncio.create_task(_result(connection, session_id))
        tasks = (
            result,
            asyncio.create_task(_poll_status(connection, session_id, progress, prompt)),
            asyncio.create_task(_watch_embedded(connection)),
        )
        try:
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            report = await (result if result in ended else ended.pop())
            # The final states, so that no subtask stays on screen as running.
            progress.update(
                Status(session=report.session, goal=report.goal, state="finished", subtasks=report.subtasks)
            )
            return report
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if prompt:
                await prompt.close()


async def cancel(connection: Connection, session_id: str) -> bool:
    """Cancel a session and wait briefly for its end; False if it is still running."""
    try:
        async with asyncio.timeout(_CANCEL_SECONDS):
            await connection.session(session_id).cancel()
            await connection.session(session_id).result()
    except SessionEnded:
        return True
    except (ChargehandError, TimeoutError):
        return False
    return True


def user_action(status: Status) -> str:
    """Describe what a session is waiting for its user to do; empty if it is not waiting."""
    session = status.session
    if status.state == "awaiting_approval":
        return f"Awaiting approval. Show the plan: `chargehand plan {session}`; approve it: add --approve"
    if status.state == "paused":
        return (
            f"Paused at a limit. Continue: `chargehand raise {session} --turns N --budget USD`; "
            f"write the report now: `chargehand finish {session}`"
        )
    if status.calls:
        which = f" {status.calls[0].id}" if len(status.calls) > 1 else ""
        return (
            f"A tool call awaits approval. Show: `chargehand calls {session}`; approve: `… {session}{which} --approve`"
        )
    if status.questions:
        which = f" --subtask {one_safe_line(status.questions[0].subtask, 20)}" if len(status.questions) > 1 else ""
        return f"Awaiting an answer: `chargehand answer {session}{which} TEXT`"
    return ""


async def _result(connection: Connection, session_id: str) -> Report:
    """Wait for the report however often the server is away; `_poll_status` decides when to give up."""
    while True:
        try:
            return await connection.session(session_id).result()
        except NotReachable:
            await asyncio.sleep(connection.polling_seconds)


async def _poll_status(
    connection: Connection, session_id: str, progress: Progress, prompt: "QuestionPrompt | None"
) -> NoReturn:
    answered_at = time.monotonic()
    while True:
        try:
            async with asyncio.timeout(_REMARK_AFTER_SECONDS):
                status = await connection.session(session_id).status()
            progress.update(status)
            progress.remark(user_action(status))
            if prompt:
                await prompt.update(status.questions)
            answered_at = time.monotonic()
        except SessionNotFound:
            raise
        except (ChargehandError, TimeoutError) as error:
            silent = time.monotonic() - answered_at
            if silent > _PATIENCE_SECONDS:
                raise NotReachable(_no_answer(connection, session_id)) from error
            is_silence = isinstance(error, NotReachable | TimeoutError)
            if silent > _REMARK_AFTER_SECONDS or not is_silence:
                progress.remark("waiting: no worker answers" if is_silence else one_safe_line(str(error), 300))
        await asyncio.sleep(connection.polling_seconds)


async def _watch_embedded(connection: Connection) -> NoReturn:
    while True:
        await connection.mend()
        connection.check_worker()
        await asyncio.sleep(connection.polling_seconds)


def _no_answer(connection: Connection, session_id: str) -> str:
    return (
        f"No answer for {_PATIENCE_SECONDS} s: the Temporal server is unreachable, or no worker polls task queue "
        f"'{connection.location.task_queue}'. The session resumes when they are back: `chargehand watch {session_id}`. "
        "To find the cause: `chargehand doctor`."
    )


async def read_line() -> str:
    """Read a line from the terminal without blocking the event loop; empty at end of file."""
    loop = asyncio.get_running_loop()
    line: asyncio.Future[bytes] = loop.create_future()
    descriptor = sys.stdin.fileno()
    # A terminal delivers line by line; Python's own buffer would swallow the lines after this one.
    loop.add_reader(descriptor, lambda: line.done() or line.set_result(os.read(descriptor, 4_096)))
    try:
        return (await line).decode(errors="replace").strip()
    finally:
        loop.remove_reader(descriptor)


class QuestionPrompt:
    """Puts a session's questions to the user one after another, each once and only while it is open."""

    def __init__(self, session: Session, progress: Progress, read: Callable[[], Awaitable[str]] = read_line) -> None:
        """Answer for a session that `progress` shows."""
        self._session = session
        self._progress = progress
        self._read = read
        self._seen: set[tuple[str, datetime]] = set()
        self._current: tuple[Question, asyncio.Task[None]] | None = None

    async def update(self, questions: Sequence[Question]) -> None:
        """Take the questions that are open now: withdraw a prompt whose question has closed, then put the next one."""
        if self._current and (self._current[1].done() or self._current[0] not in questions):
            await self.close()
        if self._current:
            return
        for question in questions:
            if (question.subtask, question.open_until) not in self._seen:
                self._seen.add((question.subtask, question.open_until))
                self._current = (question, asyncio.create_task(self._prompt(question)))
                return

    async def close(self) -> None:
        """Withdraw the prompt."""
        if self._current:
            _, task = self._current
            self._current = None
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _prompt(self, question: Question) -> None:
        with self._progress.hidden():
            subtask = one_safe_line(question.subtask)
            say(f"{subtask} ({one_safe_line(question.agent)}) asks:")
            say(f"  {safe_text(question.text)}")
            sys.stderr.write(_PROMPT)
            sys.stderr.flush()
            try:
                text = await self._read()
            except asyncio.CancelledError:
                say(f"\n{subtask} is no longer waiting for an answer.")
                raise
            if not text:
                say(f"Skipped. To answer later: `chargehand answer {self._session.id} --subtask {subtask} TEXT`")
                return
            try:
                await self._session.answer(question.subtask, text)
            except ChargehandError as error:
                say(f"The answer was not accepted: {error}")
