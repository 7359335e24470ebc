"""Log redaction: keeps keys and the text of users, models and documents out of logs and core dumps.

Messages of exceptions may hold them: an SDK's has the body of the provider's answer, which may quote the prompt or the
key. The messages are in the session's history, for those who may read it, and in the log at DEBUG.
"""

import logging
import resource
import traceback
from collections.abc import Iterator
from types import TracebackType
from typing import Final

from temporalio.exceptions import ApplicationError
from temporalio.runtime import LoggingConfig, TelemetryFilter

SDK_LOGGING: Final = LoggingConfig(
    filter=f"{TelemetryFilter('WARN', 'ERROR').formatted()},temporalio_sdk_core::worker::workflow=ERROR"
)
"""The default, except for failed workflow tasks: the SDK logs them too, and its core includes the message."""

_LINE: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


def log_discreetly(level: str) -> None:
    """Log to standard error; above DEBUG, exceptions are reduced to their types and tracebacks."""
    logging.basicConfig(level=level, format=_LINE)
    if level != "DEBUG":
        for handler in logging.getLogger().handlers:
            handler.setFormatter(WordlessFormatter(_LINE))


def leave_no_core() -> None:
    """Keep the memory of a process that crashes, with the keys in it, from being written to disk."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


class WordlessFormatter(logging.Formatter):
    """Formats exceptions without their messages."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # the base class's name
        """Drop the task that asyncio appends, with its exception."""
        if record.name == "asyncio":
            record.message = record.message.partition("\n")[0]
        return super().formatMessage(record)

    def formatException(self, ei: _ExcInfo) -> str:  # noqa: N802  # the base class's name
        """Format types and tracebacks, the first cause first."""
        return "\n".join(_traceback_lines(ei[1])) if ei[1] else ""


def _traceback_lines(error: BaseException) -> Iterator[str]:
    chain = [error]
    while (before := _before(chain[-1])) is not None and before not in chain:
        chain.append(before)
    for each in reversed(chain):
        kind = f" {each.type}" if isinstance(each, ApplicationError) and each.type else ""
        yield f"{''.join(traceback.format_tb(each.__traceback__))}{type(each).__qualname__}{kind}"


def _before(error: BaseException) -> BaseException | None:
    return error.__cause__ or (None if error.__suppress_context__ else error.__context__)
