"""Follow a session to its end: show its status, ask its questions, and survive outages of server and worker."""

import asyncio
import os
import shlex
import tempfile
import time
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import aclosing, suppress
from functools import partial
from pathlib import Path
from typing import Final, NoReturn

from chargehand import (
    ChargehandError,
    NotReachable,
    Plan,
    Question,
    Report,
    Session,
    SessionEnded,
    SessionNotFound,
    Status,
)
from chargehand.history.follow import watch
from chargehand.history.tree import describe_running
from chargehand.temporal_errors import translated
from chargehand_cli.connection import Connection
from chargehand_cli.live_tree import Progress, choose_progress
from chargehand_cli.rendering.escaping import error_text, one_safe_line, safe_text
from chargehand_cli.rendering.progress import plan_lines
from chargehand_cli.run_options import BadRequest, read_plan
from chargehand_cli.session_files import status_of
from chargehand_cli.terminal import can_ask, prompt, read_line, say

_PATIENCE_SECONDS: Final = 60
"""Time to wait for an answer before giving up; the session itself keeps waiting."""
_REMARK_AFTER_SECONDS: Final = 5
_UNCHANGED_SECONDS: Final = 1.0
"""Interval of reading the status while nothing changes."""
_SHARE: Final = 4
"""The interval is at least this multiple of the time to read a status, which grows with the work."""
_SILENCE: Final = "waiting: no worker answers, or the server does not; to find the cause: `chargehand doctor`"
_CANCEL_SECONDS: Final = 15
_DECLINE: Final = "/decline"
_ANSWER: Final = "Your answer (leave empty to skip, /decline to decline): "
_DECISION: Final = "[a]pprove, [e]dit, [r]eject, or leave empty to decide later: "
_EDITOR: Final = "vi"

Put = Callable[[], Awaitable[None]]


async def follow(connection: Connection, session_id: str, *, quiet: bool) -> Report:
    """Show a session until it ends; on a terminal, ask its questions.

    Raises:
        SessionEnded: it ended without a report.
        NotReachable: there was no answer for a minute, or the embedded worker keeps exiting.
    """
    progress = choose_progress(session_id, url=connection.session_url(session_id) or "", quiet=quiet)
    prompts = Prompts(connection.session(session_id), progress) if can_ask() and not quiet else None
    news = asyncio.Event()
    with progress:
        result = asyncio.create_task(_result(connection, session_id))
        tasks = (
            result,
            asyncio.create_task(_poll_status(connection, session_id, progress, prompts, news)),
            asyncio.create_task(connection.keep_running()),
        )
        showing = [] if quiet else [partial(_show_work, news=news), _show_retries]
        shown = [asyncio.create_task(show(connection, session_id, progress)) for show in showing]
        try:
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            report = await (result if result in ended else ended.pop())
            # Show the final states so that no subtask still looks as if it were running.
            progress.update(status_of(report))
            progress.remark("")
            return report
        except SessionEnded:
            with suppress(ChargehandError):
                progress.update(await connection.session(session_id).recorded_status())
            progress.remark("")
            raise
        finally:
            for task in (*tasks, *shown):
                task.cancel()
            await asyncio.gather(*tasks, *shown, return_exceptions=True)
            if prompts:
                await prompts.close()


async def cancel(connection: Connection, session_id: str) -> bool:
    """Cancel a session and wait briefly for its end; False if it is still running."""
    session = connection.session(session_id)
    try:
        await session.cancel()
    except ChargehandError:
        return False
    return await ends_soon(session)


async def ends_soon(session: Session) -> bool:
    """Wait briefly for the end of a cancelled session; False if it is still running."""
    try:
        async with asyncio.timeout(_CANCEL_SECONDS):
            await session.result()
    except SessionEnded:
        return True
    except (ChargehandError, TimeoutError):
        return False
    return True


def user_action(status: Status) -> str:
    """Describe what a session needs from its user; empty if it is not waiting."""
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
    """Wait for the report through outages of the server; `_poll_status` decides when to give up."""
    while True:
        try:
            return await connection.session(session_id).result()
        except NotReachable:
            await asyncio.sleep(connection.polling_seconds)


async def _poll_status(
    connection: Connection, session_id: str, progress: Progress, prompts: "Prompts | None", news: asyncio.Event
) -> NoReturn:
    """Show the status, polling soon after an event and less often while nothing changes."""
    answered_at, pause, latest = time.monotonic(), connection.polling_seconds, None
    while True:
        began_at = time.monotonic()
        news.clear()
        try:
            async with asyncio.timeout(_REMARK_AFTER_SECONDS):
                status = await connection.session(session_id).status()
            answered_at = time.monotonic()
            progress.update(status)
            progress.remark(user_action(status))
            if prompts:
                await prompts.update(status)
            pause = 2 * pause if status == latest else connection.polling_seconds
            pause, latest = min(max(pause, _SHARE * (answered_at - began_at)), _UNCHANGED_SECONDS), status
        except SessionNotFound:
            raise
        except (ChargehandError, TimeoutError) as error:
            silent = time.monotonic() - answered_at
            if silent > _PATIENCE_SECONDS:
                raise NotReachable(
                    f"No answer for {_PATIENCE_SECONDS} s: the Temporal server is unreachable, or no worker polls task "
                    f"queue '{connection.location.task_queue}'. The session resumes when they are back: "
                    f"`chargehand watch {session_id}`. To find the cause: `chargehand doctor`."
                ) from error
            is_silence = isinstance(error, NotReachable | TimeoutError)
            if silent > _REMARK_AFTER_SECONDS or not is_silence:
                progress.remark(_SILENCE if is_silence else one_safe_line(str(error), 300))
        await asyncio.sleep(connection.polling_seconds)
        with suppress(TimeoutError):
            async with asyncio.timeout(pause - connection.polling_seconds):
                await news.wait()


async def _show_work(connection: Connection, session_id: str, progress: Progress, news: asyncio.Event) -> None:
    while True:
        try:
            with translated(session_id):
                async with aclosing(watch(connection.chargehand.client, session_id)) as events:
                    async for event, work in events:
                        progress.note(work)
                        if event.kind != "text":
                            news.set()
        except NotReachable:
            await asyncio.sleep(connection.polling_seconds)
        else:
            return
        finally:
            progress.note(None)


async def _show_retries(connection: Connection, session_id: str, progress: Progress) -> None:
    """Show pending retries, which produce no events."""
    while True:
        await asyncio.sleep(_REMARK_AFTER_SECONDS)
        if progress.work:
            with suppress(ChargehandError), translated(session_id):
                await describe_running(connection.chargehand.client, progress.work)
            progress.note(progress.work)


class Prompts:
    """Prompts the user for one decision at a time, each once and only while the session waits for it."""

    def __init__(self, session: Session, progress: Progress, read: Callable[[], Awaitable[str]] = read_line) -> None:
        """Prompt for a session shown by `progress`."""
        self._session = session
        self._progress = progress
        self._read = read
        self._seen: set[Hashable] = set()
        self._current: tuple[Hashable, asyncio.Task[None]] | None = None
        self._is_withdrawn = False

    async def update(self, status: Status) -> None:
        """Withdraw a prompt that the session no longer waits for, then show the next one."""
        awaited = dict(self._open_prompts(status))
        if self._current and (self._current[1].done() or self._current[0] not in awaited):
            self._is_withdrawn = True
            await self.close()
        if self._current:
            return
        for what, (put, withdrawal) in awaited.items():
            if what not in self._seen:
                self._seen.add(what)
                self._is_withdrawn = False
                self._current = (what, asyncio.create_task(self._put(put, withdrawal)))
                return

    async def close(self) -> None:
        if self._current:
            _, task = self._current
            self._current = None
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def _open_prompts(self, status: Status) -> Iterator[tuple[Hashable, tuple[Put, str]]]:
        """List the open prompts of the session, each with the message for when it is no longer open."""
        if status.state == "awaiting_approval" and status.plan:
            yield "plan", (partial(self._decide, status.plan), "The plan is decided.")
        for question in status.questions:
            withdrawal = f"{one_safe_line(question.subtask)} is no longer waiting for an answer."
            yield (question.subtask, question.open_until), (partial(self._answer, question), withdrawal)

    async def _put(self, put: Put, withdrawal: str) -> None:
        with self._progress.hidden():
            try:
                await put()
            except asyncio.CancelledError:
                say("")  # end the line of the prompt
                if self._is_withdrawn:
                    say(withdrawal)
                raise
            except ChargehandError as error:
                say(f"Not accepted: {error_text(error)}")

    async def _answer(self, question: Question) -> None:
        subtask = one_safe_line(question.subtask)
        say(f"{subtask} ({one_safe_line(question.agent)}) asks:")
        say(f"  {safe_text(question.text)}")
        prompt(_ANSWER)
        while text := await self._read():
            reply, decision = (None, "decline") if text.strip() == _DECLINE else (text, "answer")
            try:
                await self._session.answer(subtask=question.subtask, text=reply, decision=decision)
            except ChargehandError as error:  # such as an answer that does not fit its form
                say(f"Not accepted: {error_text(error)}")
                prompt(_ANSWER)
            else:
                return
        say(f"Skipped. To answer later: `chargehand answer {self._session.id} --subtask {subtask} TEXT`")

    async def _decide(self, plan: Plan) -> None:
        """Prompt for a decision on the plan until it is made, here or elsewhere."""
        original = plan
        while True:
            for line in plan_lines(plan):
                say(line)
            prompt(_DECISION)
            choice = (await self._read())[:1].lower()
            if choice == "e":
                plan = await _edit(plan)
            else:
                break
        if choice == "a":
            await (self._session.approve() if plan == original else self._session.edit(plan))
        elif choice == "r":
            prompt("Reason: ")
            reason = await self._read()
            await self._session.reject(reason)
        else:
            say(f"To decide later: `chargehand plan {self._session.id} --approve`, `--edit FILE` or `--reject REASON`")


async def _edit(plan: Plan) -> Plan:
    """Let the user edit a plan in $VISUAL or $EDITOR; an invalid plan is reported and discarded."""
    with tempfile.TemporaryDirectory(prefix="chargehand-plan-") as folder:
        file = Path(folder) / "plan.json"
        file.write_text(plan.model_dump_json(indent=2) + "\n", encoding="utf-8")
        command = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or _EDITOR)
        try:
            editor = await asyncio.create_subprocess_exec(*command, str(file))
            try:
                failed = await editor.wait()
            except asyncio.CancelledError:
                editor.terminate()
                raise
            if failed:
                say(f"{command[0]} failed; the plan is as it was.")
                return plan
            return read_plan(file)
        except OSError as error:
            say(f"{command[0]} cannot be started: {error.strerror}. Name another editor with EDITOR.")
        except BadRequest as error:
            say(str(error))
    return plan
