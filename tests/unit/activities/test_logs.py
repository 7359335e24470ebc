"""What the worker's log records of an exception."""

import asyncio
import dataclasses
import errno
import json
import logging
import math
import os
import re
import socket

import pytest
from temporalio.common import Priority
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from chargehand.errors import BucketError
from chargehand.failure_causes import failure_cause
from chargehand.payloads.errors import KeyMissing
from chargehand.wire import ErrorType
from worker.logs import JsonFormatter, TextFormatter

CANARY = "-".join(["canary", "7f3a"])
"""Built so that it does not occur in any line of code, which the log may quote."""


def _refuse() -> None:
    try:
        int(CANARY)
    except ValueError as error:
        raise ApplicationError(CANARY, CANARY, type=ErrorType.PROVIDER_REFUSED) from error


def _formatted(name: str, message: str, error: BaseException | None = None) -> str:
    told = (type(error), error, error.__traceback__) if error else None
    record = logging.LogRecord(name, logging.WARNING, __file__, 1, message, (), told)
    return TextFormatter("%(levelname)s %(name)s: %(message)s").format(record)


def test_exceptions_are_logged_without_their_messages() -> None:
    """The log has the types and locations of the exception and its causes, root cause first, and our wire name."""
    with pytest.raises(ApplicationError) as caught:
        _refuse()

    told = _formatted("temporalio.activity", "Completing activity as failed", caught.value)

    assert told.startswith("WARNING temporalio.activity: Completing activity as failed\n")
    assert re.findall(r"^(\w+)(?: (\w+))?$", told, re.MULTILINE) == [
        ("ValueError", ""),
        ("ApplicationError", "ProviderRefused"),
    ]
    assert told.count(f'File "{__file__}", line ') == 3
    assert CANARY not in told


def test_an_unretrieved_task_exception_is_logged_without_its_message() -> None:
    """Only asyncio's first line is kept; the others show the whole task, exception included."""
    message = "Task exception was never retrieved\nfuture: <Task finished exception=ValueError('words')>"
    told = _formatted("asyncio", message)

    assert told == "WARNING asyncio: Task exception was never retrieved"


HOSTILE = (
    "ok\n2026-11-22 CRITICAL chargehand.worker: forged\r\x1b[31m red \x1b]8;;http://evil\x07 \u202egnp.exe \u2028"
    ' {"level": "CRITICAL"}'
)
"""A message that could forge lines, terminal colours or links, or reorder text."""


def _record(message: str, **extra: object) -> logging.LogRecord:
    return logging.getLogger("library").makeRecord(
        "library", logging.INFO, __file__, 1, message, (), None, extra={"queue": "q", **extra}
    )


def test_a_message_cannot_forge_records() -> None:
    record = _record(HOSTILE, forged=HOSTILE, secret=object())
    line = JsonFormatter().format(record)
    told = json.loads(line)

    assert line.isprintable()
    assert line.isascii()
    assert (told["level"], told["logger"], told["message"]) == ("INFO", "library", HOSTILE)
    assert (told["queue"], told["forged"]) == ("q", HOSTILE)
    assert "secret" not in told
    assert TextFormatter().format(record).isprintable()


def test_a_log_record_is_standard_json_of_at_most_16_kib() -> None:
    long = "word " * 10_000
    record = _record(long, text=long, texts=[long], rate=math.nan)
    record.exc_info = (ValueError, ExceptionGroup(long, [ValueError(long)]), None)
    line = JsonFormatter(redacts=False).format(record)
    told = json.loads(line, parse_constant=pytest.fail)

    assert len(line) <= 16 * 1024
    assert told["rate"] == "nan"
    assert told["text"].startswith("word word")


async def test_log_records_name_their_session_workflow_and_activity() -> None:
    environment = ActivityEnvironment()
    environment.info = dataclasses.replace(
        environment.info,
        workflow_id="a/b/0123456789ab/reader/0123456789abcdef-large",
        workflow_run_id="run",
        workflow_type="Subtask",
        activity_type="take_turn",
        activity_id="turn-3",
        attempt=2,
        priority=Priority(fairness_key="acme"),
    )

    async def log() -> str:
        return await asyncio.to_thread(JsonFormatter().format, _record("said"))

    told = json.loads(await environment.run(log))

    del told["time"]
    assert told == {
        "level": "INFO",
        "logger": "library",
        "message": "said",
        "queue": "q",
        "worker": f"{os.getpid()}@{socket.gethostname()}",
        "session": "a/b",
        "agent": "reader",
        "workflow_id": "a/b/0123456789ab/reader/0123456789abcdef-large",
        "run_id": "run",
        "workflow_type": "Subtask",
        "activity": "take_turn",
        "activity_id": "turn-3",
        "attempt": 2,
        "tenant": "acme",
    }


def test_a_failed_workflow_task_is_logged_with_its_workflow() -> None:
    """The SDK logs it outside the workflow and passes the identity itself."""
    whose = {"workflow_id": "s/0123456789ab/webhook", "run_id": "run", "workflow_type": "Webhook", "attempt": 5}
    told = json.loads(JsonFormatter().format(_record("Failed activation", temporal_workflow=whose)))

    assert {**whose, "session": "s"}.items() <= told.items()
    assert "cause" not in told
    assert "agent" not in told


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.ENOTDIR])
@pytest.mark.parametrize("kind", [OSError, BucketError, KeyMissing])
def test_log_records_of_every_logger_state_the_cause(code: int, kind: type[Exception]) -> None:
    """Records of failed workflow tasks from the SDK have them too, without the error's own text."""
    wrapped = RuntimeError(CANARY)
    wrapped.__cause__ = OSError(code, CANARY, CANARY)
    if kind is not OSError:
        wrapped.__cause__ = kind(CANARY)
        wrapped.__cause__.__cause__ = OSError(code, CANARY, CANARY)
    record = _record("Failed encoding completion")
    record.exc_info = (RuntimeError, wrapped, None)
    told = json.loads(JsonFormatter().format(record))

    named = "OSError" if kind is OSError else kind.__name__
    assert (told["error_type"], told["remedy"]) == (named, failure_cause(named).remedy)
    assert os.strerror(code) in told["exception"]
    assert CANARY not in json.dumps(told)
