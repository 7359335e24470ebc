"""A record in the log for each failed attempt at an activity: what failed, and what to do."""

import logging
from typing import Any, Final

from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from activities.metrics import ERRORS, FAILED_ATTEMPTS, count_in_activity
from activities.models.failures import ProviderFault
from chargehand.failure_causes import failure_cause

_logger: Final = logging.getLogger("chargehand.attempts")
_LOGGED: Final = "logged_by_chargehand"


class LogFailedAttempts(Interceptor):
    """Logs and counts failed attempts, in place of the SDK, which knows neither trace nor provider."""

    def __init__(self) -> None:
        logging.getLogger("temporalio.activity").addFilter(_is_new)

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002  # the SDK's own name
        return _LoggedActivities(next)


class _LoggedActivities(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002  # as above
        try:
            return await super().execute_activity(input)
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
    _logger.warning("attempt failed: %s", what, exc_info=error, extra=cause.model_dump(exclude_defaults=True))
    setattr(error, _LOGGED, True)


def _kind_of(error: Exception) -> str:
    if isinstance(error, ApplicationError):
        return error.type or type(error).__name__
    return "OSError" if isinstance(error, OSError) else type(error).__name__


def _is_new(record: logging.LogRecord) -> bool:
    return not (record.exc_info and getattr(record.exc_info[1], _LOGGED, False))
