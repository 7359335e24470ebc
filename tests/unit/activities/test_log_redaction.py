"""What the worker's log keeps of an exception."""

import logging
import re

import pytest
from temporalio.exceptions import ApplicationError

from activities.log_redaction import RedactingFormatter
from chargehand.wire import ErrorType

CANARY = "-".join(["canary", "7f3a"])
"""Not as it stands in a line of code, which the log may quote."""


def _refuse() -> None:
    try:
        int(CANARY)
    except ValueError as error:
        raise ApplicationError(CANARY, CANARY, type=ErrorType.PROVIDER_REFUSED) from error


def _formatted(name: str, message: str, error: BaseException | None = None) -> str:
    told = (type(error), error, error.__traceback__) if error else None
    record = logging.LogRecord(name, logging.WARNING, __file__, 1, message, (), told)
    return RedactingFormatter("%(levelname)s %(name)s: %(message)s").format(record)


def test_an_exception_is_told_without_its_words() -> None:
    """Types and places of it and of its causes, the first cause first; a type of ours with its name on the wire."""
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


def test_a_forgotten_task_is_told_without_its_words() -> None:
    """What asyncio writes below its first line is the task as a whole, exception included."""
    message = "Task exception was never retrieved\nfuture: <Task finished exception=ValueError('words')>"

    told = _formatted("asyncio", message)

    assert told == "WARNING asyncio: Task exception was never retrieved"
