"""Chargehand: durable multi-agent sessions on Temporal, as other services use them.

Start with `Chargehand.connect()` and `SessionRequest`. Names are loaded when they are first used, so that importing one
part of the package does not load Temporal and pydantic for all of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from chargehand.client import Chargehand, Session, SessionSummary
    from chargehand.contracts import (
        Answer,
        Artifact,
        Contradiction,
        Escalation,
        Failure,
        Finding,
        Issue,
        Limits,
        LimitUse,
        Outcome,
        Partial,
        Plan,
        PlanDecision,
        Question,
        RaisedLimits,
        Report,
        SessionRequest,
        Source,
        SpendLine,
        Status,
        Step,
        Subtask,
        SubtaskRecord,
        Success,
        Tier,
        Tiers,
        Timing,
        Trace,
        Usage,
    )
    from chargehand.converter import data_converter
    from chargehand.errors import (
        ChargehandError,
        NotReachable,
        SessionCancelled,
        SessionEnded,
        SessionFailed,
        SessionNotFound,
        SessionTerminated,
    )
    from chargehand.wire import TASK_QUEUE, ErrorType

__all__ = [
    "TASK_QUEUE",
    "Answer",
    "Artifact",
    "Chargehand",
    "ChargehandError",
    "Contradiction",
    "ErrorType",
    "Escalation",
    "Failure",
    "Finding",
    "Issue",
    "LimitUse",
    "Limits",
    "NotReachable",
    "Outcome",
    "Partial",
    "Plan",
    "PlanDecision",
    "Question",
    "RaisedLimits",
    "Report",
    "Session",
    "SessionCancelled",
    "SessionEnded",
    "SessionFailed",
    "SessionNotFound",
    "SessionRequest",
    "SessionSummary",
    "SessionTerminated",
    "Source",
    "SpendLine",
    "Status",
    "Step",
    "Subtask",
    "SubtaskRecord",
    "Success",
    "Tier",
    "Tiers",
    "Timing",
    "Trace",
    "Usage",
    "data_converter",
]

_ELSEWHERE: Final = {
    "Chargehand": "client",
    "Session": "client",
    "SessionSummary": "client",
    "data_converter": "converter",
    "ChargehandError": "errors",
    "NotReachable": "errors",
    "SessionCancelled": "errors",
    "SessionEnded": "errors",
    "SessionFailed": "errors",
    "SessionNotFound": "errors",
    "SessionTerminated": "errors",
    "ErrorType": "wire",
    "TASK_QUEUE": "wire",
}
"""Modules of the names that are no contracts."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'chargehand' has no attribute '{name}'")
    value: object = getattr(import_module(f"chargehand.{_ELSEWHERE.get(name, 'contracts')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
