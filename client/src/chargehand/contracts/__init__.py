"""The typed values that cross Chargehand's boundaries."""

from chargehand.contracts.base import Contract, Dollars, TypedByPeople, round_up_dollars, without_control_characters
from chargehand.contracts.outcome import (
    Confidence,
    Escalation,
    Failure,
    FailureReason,
    Finding,
    Outcome,
    Partial,
    Source,
    SpendLine,
    Success,
    Usage,
)
from chargehand.contracts.plan import Plan, PlanDecision, Strategy, Subtask
from chargehand.contracts.report import (
    Contradiction,
    LimitUse,
    Report,
    SessionState,
    Status,
    StopReason,
    SubtaskRecord,
    SubtaskState,
    Timing,
)
from chargehand.contracts.request import Delegation, Limits, SessionRequest, Tier, Tiers
from chargehand.contracts.trace import Step, Trace

__all__ = [
    "Confidence",
    "Contract",
    "Contradiction",
    "Delegation",
    "Dollars",
    "Escalation",
    "Failure",
    "FailureReason",
    "Finding",
    "LimitUse",
    "Limits",
    "Outcome",
    "Partial",
    "Plan",
    "PlanDecision",
    "Report",
    "SessionRequest",
    "SessionState",
    "Source",
    "SpendLine",
    "Status",
    "Step",
    "StopReason",
    "Strategy",
    "Subtask",
    "SubtaskRecord",
    "SubtaskState",
    "Success",
    "Tier",
    "Tiers",
    "Timing",
    "Trace",
    "TypedByPeople",
    "Usage",
    "round_up_dollars",
    "without_control_characters",
]
