"""The typed values that cross Chargehand's boundaries. `__all__` is the one list of the public ones."""

# Public contracts are built from these; `as` marks what workers share and callers do not need.
from chargehand.contracts import steering
from chargehand.contracts.authority import Authority as Authority
from chargehand.contracts.authority import Capability as Capability
from chargehand.contracts.authority import Obligation as Obligation
from chargehand.contracts.authority import PolicyMode as PolicyMode
from chargehand.contracts.authority import ToolRule as ToolRule
from chargehand.contracts.authority import Watched as Watched
from chargehand.contracts.base import Contract as Contract
from chargehand.contracts.base import Dollars as Dollars
from chargehand.contracts.base import JsonSchema as JsonSchema
from chargehand.contracts.base import Message as Message
from chargehand.contracts.base import TypedByPeople as TypedByPeople
from chargehand.contracts.base import left_out as left_out
from chargehand.contracts.base import round_up_dollars as round_up_dollars
from chargehand.contracts.base import without_control_characters as without_control_characters
from chargehand.contracts.calls import PendingCall
from chargehand.contracts.events import (
    CallEvent,
    EndEvent,
    Event,
    PlanEvent,
    PlannedSubtask,
    QuestionEvent,
    SpendEvent,
    StateEvent,
    SubtaskEvent,
    TextEvent,
    ToolEvent,
    TurnEvent,
)
from chargehand.contracts.events import LiveText as LiveText
from chargehand.contracts.outcome import (
    Artifact,
    Escalation,
    Failure,
    Finding,
    Issue,
    Outcome,
    Partial,
    Source,
    SpendLine,
    Success,
    Usage,
)
from chargehand.contracts.outcome import Confidence as Confidence
from chargehand.contracts.outcome import FailureReason as FailureReason
from chargehand.contracts.outcome import Severity as Severity
from chargehand.contracts.outcome import Verification as Verification
from chargehand.contracts.plan import Plan, Subtask
from chargehand.contracts.plan import Strategy as Strategy
from chargehand.contracts.report import (
    Claim,
    Contradiction,
    EarlierSession,
    EditRecord,
    Grade,
    LimitUse,
    Question,
    Report,
    Route,
    Status,
    SubtaskRecord,
    Timing,
)
from chargehand.contracts.report import CrewVersion as CrewVersion
from chargehand.contracts.report import SessionState as SessionState
from chargehand.contracts.report import StopReason as StopReason
from chargehand.contracts.report import SubtaskState as SubtaskState
from chargehand.contracts.request import Delegation as Delegation
from chargehand.contracts.request import Effort as Effort
from chargehand.contracts.request import Limits, SessionRequest, Tier, Tiers
from chargehand.contracts.steering import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]  # the list is its own
from chargehand.contracts.tenant import QueuedSession, TenantLimits, TenantUsage
from chargehand.contracts.trace import Recorded as Recorded
from chargehand.contracts.trace import Step, Trace
from chargehand.contracts.verification import ClaimCheck, QuoteCheck, VerificationReport, VerificationRequest

__all__: list[str] = [
    "Artifact",
    "CallEvent",
    "Claim",
    "ClaimCheck",
    "Contradiction",
    "EarlierSession",
    "EditRecord",
    "EndEvent",
    "Escalation",
    "Event",
    "Failure",
    "Finding",
    "Grade",
    "Issue",
    "LimitUse",
    "Limits",
    "Outcome",
    "Partial",
    "PendingCall",
    "Plan",
    "PlanEvent",
    "PlannedSubtask",
    "Question",
    "QuestionEvent",
    "QueuedSession",
    "QuoteCheck",
    "Report",
    "Route",
    "SessionRequest",
    "Source",
    "SpendEvent",
    "SpendLine",
    "StateEvent",
    "Status",
    "Step",
    "Subtask",
    "SubtaskEvent",
    "SubtaskRecord",
    "Success",
    "TenantLimits",
    "TenantUsage",
    "TextEvent",
    "Tier",
    "Tiers",
    "Timing",
    "ToolEvent",
    "Trace",
    "TurnEvent",
    "Usage",
    "VerificationReport",
    "VerificationRequest",
]
__all__ += steering.__all__
