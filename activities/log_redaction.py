"""Log redaction: keeps keys and the text of users, models and documents out of logs and core dumps.

Exception messages may contain them: an SDK's error holds the body of the provider's answer, which may quote the prompt
or the key. The messages are in the session's history and, at DEBUG, in the log.
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


def configure_logging(level: str) -> None:
    """Log to standard error; above DEBUG, exceptions are reduced to their types and tracebacks."""
    logging.basicConfig(level=level, format=_LINE)
    if level != "DEBUG":
        for handler in logging.getLogger().handlers:
            handler.setFormatter(RedactingFormatter(_LINE))


def disable_core_dumps() -> None:
    """Disable core dumps, since the memory of the process contains keys."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


class RedactingFormatter(logging.Formatter):
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
