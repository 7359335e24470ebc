"""Logs of a worker: one record per line, without keys or the text of users, models and documents.

Exception messages may contain these: an SDK's error has the body of the provider's response, which may quote the prompt
or the key. Messages are in the session's history and, at DEBUG, in the log. A failed attempt produces one record.
"""

import json
import logging
import math
import os
import re
import resource
import socket
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Literal, cast

from temporalio import activity, workflow
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.runtime import LogForwardingConfig, LoggingConfig, TelemetryFilter
from temporalio.worker import ExecuteActivityInput

from activities.around import AroundActivities
from activities.credentials import hide
from activities.current_span import current_trace_id
from activities.metrics import ERRORS, FAILED_ATTEMPTS, count_in_activity
from activities.models.failures import ProviderFault
from chargehand.contracts.problems import shorten
from chargehand.failure_causes import failure_cause, is_explained
from chargehand.wire import SESSIONS

LogFormat = Literal["auto", "json", "text"]
"""`auto` is text on a terminal, and JSON elsewhere."""
SDK_LOGGING: Final = LoggingConfig(
    filter=f"{TelemetryFilter('WARN', 'ERROR').formatted()},temporalio_sdk_core::worker::workflow=ERROR",
    forwarding=LogForwardingConfig(
        logging.getLogger("temporalio.core"), append_target_to_name=False, prepend_target_on_message=False
    ),
)
"""The SDK's default, except for failed workflow tasks, which the SDK also logs, with the message."""

_LINE: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_NAME_ADDRESSES: Final = ("httpx", "httpx2")
"""Loggers that write addresses, which may contain a search, at INFO."""
_LONGEST: Final = 6_000
"""Maximum characters of a message or an exception; log collectors truncate lines at 16 KiB."""
_LONGEST_FIELD: Final = 1_000
"""Maximum characters of any other field."""
_CHILD: Final = re.compile(r"(.+)/[0-9a-f]{12}/([^/]+)(/[0-9a-f]{16}(?:-\w+)?)?")
"""Id of a descendant workflow of a session: session, run, agent or purpose, task."""
_STANDARD: Final = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}
_HOST: Final = socket.gethostname()
_attempts: Final = logging.getLogger("chargehand.attempts")
_LOGGED: Final = "logged_by_chargehand"
_ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


def configure_logging(level: str, form: LogFormat = "auto", *, names_process: bool = False) -> None:
    """Log to standard error; above DEBUG, exceptions are reduced to their types and tracebacks.

    JSON records always name their process.
    """
    line = _LINE.replace(" ", " [%(process)d] ", 1) if names_process else _LINE
    is_json = writes_json(form)
    logging.basicConfig(level=level)
    for handler in logging.getLogger().handlers:
        handler.setFormatter((JsonFormatter if is_json else TextFormatter)(line, redacts=level != "DEBUG"))
    if level != "DEBUG":
        for name in _NAME_ADDRESSES:
            logging.getLogger(name).setLevel(logging.WARNING)
    if is_json:  # where each record has the fields in any case
        workflow.logger.workflow_info_on_message = activity.logger.activity_info_on_message = False
    logging.captureWarnings(capture=True)
    sys.excepthook = _log_uncaught
    threading.excepthook = lambda thread: _log_uncaught(
        thread.exc_type, thread.exc_value or thread.exc_type(), thread.exc_traceback
    )


def writes_json(form: str) -> bool:
    return form == "json" or (form != "text" and not sys.stderr.isatty())


def disable_core_dumps() -> None:
    """Disable core dumps, since the memory of the process contains keys."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


class TextFormatter(logging.Formatter):
    """Formats records for people: one line, followed by the traceback of an exception."""

    def __init__(self, line: str = _LINE, *, redacts: bool = True) -> None:
        """Format records by a pattern; when redacting, exceptions have no messages."""
        super().__init__(line)
        self._redacts = redacts

    def format(self, record: logging.LogRecord) -> str:
        """Format a record without user credentials, at every level."""
        return hide(super().format(record))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # the base class's name
        """Escape control characters, and drop the task with its exception that asyncio appends."""
        record.message = _escape(self._message(record))
        return super().formatMessage(record)

    def formatException(self, ei: _ExcInfo) -> str:  # noqa: N802  # the base class's name
        if not self._redacts:
            return super().formatException(ei)
        return "\n".join(_traceback_lines(ei[1])) if ei[1] else ""

    def _message(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        if record.name == "asyncio" and self._redacts:
            message = message.partition("\n")[0]
        return shorten(message, _LONGEST)


class JsonFormatter(TextFormatter):
    """Formats each record as a JSON object on one line, with its correlation fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record; ASCII JSON never has control characters."""
        extra = {name: value for name, value in vars(record).items() if name not in _STANDARD and name[0] != "_"}
        fields = {
            **{name: _plain(value) for name, value in extra.items() if _is_plain(value)},
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": self._message(record),
            "worker": f"{record.process}@{_HOST}",
            **correlation(record),
        }
        if record.exc_info:
            fields = _explanation(record.exc_info[1]) | fields
            fields["exception"] = self.formatException(record.exc_info)[-_LONGEST:]
        return hide(json.dumps(fields))


def correlation(record: logging.LogRecord) -> dict[str, Any]:
    """Return the session, workflow, activity and trace of a record, if any."""
    fields: dict[str, Any] = {}
    if activity.in_activity():
        doing = activity.info()
        fields = {
            **_of_workflow(doing.workflow_id or "", doing.workflow_run_id or "", doing.workflow_type or ""),
            "activity": doing.activity_type,
            "activity_id": doing.activity_id,
            "attempt": doing.attempt,
            "tenant": doing.priority.fairness_key,
        }
    elif workflow.in_workflow():
        info = workflow.info()
        fields = {
            **_of_workflow(info.workflow_id, info.run_id, info.workflow_type),
            "attempt": info.attempt,
            "tenant": info.priority.fairness_key,
        }
    elif failed := cast("dict[str, Any]", getattr(record, "temporal_workflow", {})):
        # A workflow task that the SDK abandoned is logged outside the workflow.
        fields = {
            **_of_workflow(failed["workflow_id"], failed["run_id"], failed["workflow_type"]),
            "attempt": failed["attempt"],
        }
    if trace := current_trace_id():
        fields["trace_id"] = trace
    return {name: value for name, value in fields.items() if value is not None}


def _of_workflow(workflow_id: str, run_id: str, workflow_type: str) -> dict[str, str]:
    fields = {"workflow_id": workflow_id, "run_id": run_id, "workflow_type": workflow_type}
    if child := _CHILD.fullmatch(workflow_id):
        fields |= {"session": child[1], **({"agent": child[2]} if child[3] else {})}
    elif workflow_type in SESSIONS:
        fields["session"] = workflow_id
    return fields


def _is_plain(value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(isinstance(each, str | int) for each in value)  # pyright: ignore[reportUnknownVariableType]  # of any log record
    return value is None or isinstance(value, str | int | float)


def _plain(value: object) -> object:
    """Return a value unchanged, or as text if it is long or not valid JSON."""
    text = str(value)
    if len(text) > _LONGEST_FIELD:
        return shorten(text, _LONGEST_FIELD)
    return text if isinstance(value, float) and not math.isfinite(value) else value


def _escape(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def _log_uncaught(kind: type[BaseException], error: BaseException, place: TracebackType | None) -> None:
    logging.getLogger("chargehand.worker").critical("uncaught exception", exc_info=(kind, error, place))


def _traceback_lines(error: BaseException) -> Iterator[str]:
    for each in reversed(_chain(error)):
        kind = f" {each.type}" if isinstance(each, ApplicationError) and each.type else ""
        if isinstance(each, OSError) and each.errno:
            kind = f": {os.strerror(each.errno)}"  # the system's own words
        yield f"{''.join(traceback.format_tb(each.__traceback__))}{type(each).__qualname__}{kind}"


def _chain(error: BaseException) -> list[BaseException]:
    chain = [error]
    while (before := _before(chain[-1])) is not None and before not in chain:
        chain.append(before)
    return chain


def _explanation(error: BaseException | None) -> dict[str, Any]:
    """Return the cause and the remedy of the outermost error that has some, for records of any logger."""
    kinds = map(_kind_of, _chain(error) if error else ())
    explained = next(filter(is_explained, kinds), "")
    return failure_cause(explained).model_dump(exclude_defaults=True) if explained else {}


def _before(error: BaseException) -> BaseException | None:
    return error.__cause__ or (None if error.__suppress_context__ else error.__context__)


class LogFailedAttempts(AroundActivities):
    """Logs and counts failed attempts in place of the SDK, which does not know their trace or provider."""

    def __init__(self) -> None:
        logging.getLogger("temporalio.activity").addFilter(_is_new)

    async def attempt(self, _: ExecuteActivityInput, run: Callable[[], Awaitable[Any]]) -> Any:
        try:
            return await run()
        except Exception as error:
            if not isinstance(error, ApplicationError) or error.category is not ApplicationErrorCategory.BENIGN:
                _log(error)
            raise


def _log(error: Exception) -> None:
    kind = _kind_of(error)
    details = error.details if isinstance(error, ApplicationError) else ()
    fault = next((each for each in details if isinstance(each, ProviderFault)), ProviderFault(provider=""))
    cause = failure_cause(kind, status=fault.status, provider=fault.provider, model=fault.model)
    count_in_activity(FAILED_ATTEMPTS, error=ERRORS.of(kind))
    what = " ".join(filter(None, (kind, str(fault.status or ""), fault.model)))
    _attempts.warning("attempt failed: %s", what, exc_info=error, extra=cause.model_dump(exclude_defaults=True))
    setattr(error, _LOGGED, True)


def _kind_of(error: BaseException) -> str:
    if isinstance(error, ApplicationError):
        return error.type or type(error).__name__
    names = [each.__name__ for each in type(error).__mro__]
    return next(filter(is_explained, names), names[0])


def _is_new(record: logging.LogRecord) -> bool:
    return not (record.exc_info and getattr(record.exc_info[1], _LOGGED, False))
