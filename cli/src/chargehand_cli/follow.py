"""Follow a session to its end, whatever happens to the server and the worker meanwhile."""

import asyncio
import time
from collections.abc import Sequence
from typing import Final, NoReturn

from chargehand.contracts import Question, Report, SessionState, Status
from chargehand.errors import ChargehandError, NotReachable, SessionEnded, SessionNotFound
from chargehand_cli.connection import Connection
from chargehand_cli.live_tree import Progress
from chargehand_cli.question_prompt import Answering
from chargehand_cli.rendering.escaping import one_safe_line

_PATIENCE_SECONDS: Final = 60
"""How long nobody may answer before it is given up; the session itself waits for ever."""
_REMARK_AFTER_SECONDS: Final = 5
_CANCEL_SECONDS: Final = 15


async def follow(
    connection: Connection, session_id: str, progress: Progress, answering: Answering | None = None
) -> Report:
    """Show a session until it ends; with `answering`, whoever sits at the terminal is asked what it asks.

    Raises:
        SessionEnded: it ended without a report.
        NotReachable: nobody has answered for a minute, or the embedded worker does not stay up.
    """
    with progress:
        result = asyncio.create_task(_result(connection, session_id))
        watching = asyncio.create_task(_watch(connection, session_id, progress, answering))
        minding = asyncio.create_task(_mind(connection))
        tasks = (result, watching, minding)
        try:
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            report = await (result if result in ended else ended.pop())
            progress.update(_final_status(report))
            return report
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if answering:
                await answering.end()


async def cancel(connection: Connection, session_id: str) -> bool:
    """Ask a session to stop and wait for its end for a short while; False if it has not ended by then."""
    try:
        async with asyncio.timeout(_CANCEL_SECONDS):
            await connection.session(session_id).cancel()
            await connection.session(session_id).result()
    except SessionEnded:
        return True
    except (ChargehandError, TimeoutError):
        return False
    return True


def asked_of(session_id: str, state: SessionState, questions: Sequence[Question] = ()) -> str:
    """Say what a session in this state waits for a person to do; nothing if it does not."""
    match state:
        case "awaiting_approval":
            return f"waits for you: `chargehand plan {session_id}` shows the plan, with --approve it is carried out"
        case "paused":
            return (
                f"waits for you: a limit is reached; `chargehand raise {session_id} --turns N --budget USD` lets it "
                f"go on, `chargehand finish {session_id}` ends it with a report"
            )
        case _ if questions:
            which = f" --subtask {one_safe_line(questions[0].subtask, 20)}" if len(questions) > 1 else ""
            return f"waits for you: `chargehand answer {session_id}{which} TEXT` decides what was asked"
        case _:
            return ""


async def _result(connection: Connection, session_id: str) -> Report:
    """Wait for the report through every absence of the server; `_watch` says when it is enough."""
    while True:
        try:
            return await connection.session(session_id).result()
        except NotReachable:
            await asyncio.sleep(connection.polling_seconds)


async def _watch(connection: Connection, session_id: str, progress: Progress, answering: Answering | None) -> NoReturn:
    answered_at = time.monotonic()
    while True:
        try:
            async with asyncio.timeout(_REMARK_AFTER_SECONDS):
                status = await connection.session(session_id).status()
            progress.update(status)
            progress.remark(asked_of(session_id, status.state, status.questions))
            if answering:
                await answering.notice(status.questions)
            answered_at = time.monotonic()
        except SessionNotFound:
            raise
        except (ChargehandError, TimeoutError) as error:
            silent = time.monotonic() - answered_at
            if silent > _PATIENCE_SECONDS:
                raise NotReachable(_gave_up(connection, session_id)) from error
            if silent > _REMARK_AFTER_SECONDS or not isinstance(error, NotReachable | TimeoutError):
                progress.remark(_remark(error))
        await asyncio.sleep(connection.polling_seconds)


async def _mind(connection: Connection) -> NoReturn:
    """Look after the embedded server and its worker."""
    while True:
        await connection.mend()
        connection.check_worker()
        await asyncio.sleep(connection.polling_seconds)


def _final_status(report: Report) -> Status:
    """Say how it all ended, so that nothing is left shown as running."""
    return Status(session=report.session, goal=report.goal, state="finished", subtasks=report.subtasks)


def _remark(error: Exception) -> str:
    if isinstance(error, NotReachable | TimeoutError):
        return "no worker answers; waiting"
    return one_safe_line(str(error), 300)


def _gave_up(connection: Connection, session_id: str) -> str:
    return (
        f"Nobody has answered for {_PATIENCE_SECONDS} s: the Temporal server is away, or no worker polls the task "
        f"queue '{connection.place.task_queue}'. The session waits and goes on by itself; "
        f"see it with `chargehand watch {session_id}`, and find the cause with `chargehand doctor`."
    )
