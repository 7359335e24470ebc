"""Follow a session to its end: show its status, put its questions, and outlast an absent server or worker."""

import asyncio
import time
from typing import Final, NoReturn

from chargehand import ChargehandError, NotReachable, Report, SessionEnded, SessionNotFound, Status
from chargehand_cli.connection import Connection
from chargehand_cli.live_tree import Progress, choose_progress
from chargehand_cli.prompts import Prompts
from chargehand_cli.rendering.escaping import one_safe_line
from chargehand_cli.session_files import state_at, status_of
from chargehand_cli.terminal import can_ask

_PATIENCE_SECONDS: Final = 60
"""How long to wait for an answer before giving up; the session itself goes on waiting."""
_REMARK_AFTER_SECONDS: Final = 5
_QUIET_SECONDS: Final = 2.0
"""How often to read the status while nothing changes."""
_SHARE: Final = 4
"""How many times longer than a status takes to read it is left alone: that of long work takes some time."""
_CANCEL_SECONDS: Final = 15


async def follow(connection: Connection, session_id: str, *, quiet: bool) -> Report:
    """Show a session until it ends; on a terminal, put its questions to the user.

    Raises:
        SessionEnded: it ended without a report.
        NotReachable: there was no answer for a minute, or the embedded worker keeps exiting.
    """
    progress = choose_progress(session_id, url=connection.session_url(session_id) or "", quiet=quiet)
    prompts = Prompts(connection.session(session_id), progress) if can_ask() and not quiet else None
    with progress:
        result = asyncio.create_task(_result(connection, session_id))
        tasks = (
            result,
            asyncio.create_task(_poll_status(connection, session_id, progress, prompts)),
            asyncio.create_task(_watch_embedded(connection)),
        )
        try:
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            report = await (result if result in ended else ended.pop())
            # The final states, so that no subtask stays on screen as running.
            progress.update(status_of(report))
            progress.remark("")
            return report
        except SessionEnded as ending:
            progress.end(state_at(ending))
            raise
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if prompts:
                await prompts.close()


async def cancel(connection: Connection, session_id: str) -> bool:
    """Cancel a session and wait briefly for its end; False if it is still running."""
    try:
        await connection.session(session_id).cancel()
    except ChargehandError:
        return False
    return await ends_soon(connection, session_id)


async def ends_soon(connection: Connection, session_id: str) -> bool:
    """Wait briefly for the end of a cancelled session; False if it is still running."""
    try:
        async with asyncio.timeout(_CANCEL_SECONDS):
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
    connection: Connection, session_id: str, progress: Progress, prompts: Prompts | None
) -> NoReturn:
    """Show the status, and read it less often while nothing changes."""
    answered_at, pause, latest = time.monotonic(), connection.polling_seconds, None
    while True:
        began_at = time.monotonic()
        try:
            async with asyncio.timeout(_REMARK_AFTER_SECONDS):
                status = await connection.session(session_id).status()
            answered_at = time.monotonic()
            progress.update(status)
            progress.remark(user_action(status))
            if prompts:
                await prompts.update(status)
            pause = 2 * pause if status == latest else connection.polling_seconds
            pause, latest = min(max(pause, _SHARE * (answered_at - began_at)), _QUIET_SECONDS), status
        except SessionNotFound:
            raise
        except (ChargehandError, TimeoutError) as error:
            silent = time.monotonic() - answered_at
            if silent > _PATIENCE_SECONDS:
                raise NotReachable(_no_answer(connection, session_id)) from error
            is_silence = isinstance(error, NotReachable | TimeoutError)
            if silent > _REMARK_AFTER_SECONDS or not is_silence:
                progress.remark("waiting: no worker answers" if is_silence else one_safe_line(str(error), 300))
        await asyncio.sleep(pause)


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
