"""Wire names: they are used on the wire, in histories and in other people's code.

Renaming a Python class or function never renames any of them. An entry that has been released is never reused for
something else.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

TASK_QUEUE: Final = "chargehand"
NEXUS_SERVICE: Final = "Chargehand"


class WorkflowType(StrEnum):
    SUPERVISOR = "Supervisor"
    CONVERSATION = "Conversation"
    SUBTASK = "Subtask"
    VERIFICATION = "Verification"
    WEBHOOK = "Webhook"
    TENANT = "Tenant"


SESSIONS: Final = frozenset({WorkflowType.SUPERVISOR, WorkflowType.CONVERSATION})
"""Types of workflows that run a session or a conversation."""


class ActivityType(StrEnum):
    OPEN_SESSION = "open_session"
    ADD_AGENTS = "add_agents"
    TAKE_TURN = "take_turn"
    USE_TOOL = "use_tool"
    CHECK_CALL = "check_call"
    RECORD_DECISION = "record_decision"
    AWAIT_DUPLICATE = "await_duplicate"
    READ_BACKLOG = "read_backlog"
    WRITE_REVIEW = "write_review"
    VERIFY_REPORT = "verify_report"
    CALL_WEBHOOK = "call_webhook"
    SEND_NOTICE = "send_notice"
    FIND_ENDED = "find_ended"
    COUNT_SPENT = "count_spent"


class SignalName(StrEnum):
    """Signals between a supervisor and its children or its tenant's ledger."""

    MAILBOX = "mailbox"
    SET_LIMITS = "set_limits"
    COUNT_ANEW = "count_anew"


class SearchAttribute(StrEnum):
    """Search attributes of root sessions."""

    STATE = "ChargehandState"
    CREW = "ChargehandCrew"
    TENANT = "ChargehandTenant"
    THREAD = "ChargehandThread"
    STOP_REASON = "ChargehandStopReason"
    DOLLARS = "ChargehandDollars"
    TURNS = "ChargehandTurns"


SEARCH_ATTRIBUTE_TYPES: Final[Mapping[SearchAttribute, str]] = {
    **dict.fromkeys(SearchAttribute, "Keyword"),
    SearchAttribute.DOLLARS: "Double",
    SearchAttribute.TURNS: "Int",
}
"""Temporal's type of each search attribute."""


class ErrorType(StrEnum):
    """The `type` of every `ApplicationError` that leaves our code: a fixed vocabulary, free of user text."""

    INVALID_INPUT = "InvalidInput"
    INVALID_PLAN = "InvalidPlan"
    PLAN_REJECTED = "PlanRejected"
    UPDATE_REFUSED = "UpdateRefused"
    NOT_STANDALONE = "NotStandalone"
    LIMIT_TOO_SMALL = "LimitTooSmall"
    TENANT_LIMIT = "TenantLimit"
    RESERVE_TOO_SMALL = "ReserveTooSmall"
    PROVIDER_UNAVAILABLE = "ProviderUnavailable"
    PROVIDER_REFUSED = "ProviderRefused"
    MODEL_DECLINED = "ModelDeclined"
    RATE_LIMITED = "RateLimited"
    ATTEMPT_LOST = "AttemptLost"
    WORKER_LOST = "WorkerLost"
    QUARANTINED = "Quarantined"
    CONVERSATION_MISSING = "ConversationMissing"
    OUTCOME_UNKNOWN = "OutcomeUnknown"
    TOOL_NOT_CALLED = "ToolNotCalled"
    TOOL_UNAVAILABLE = "ToolUnavailable"
    RECEIVER_UNAVAILABLE = "ReceiverUnavailable"
    CREW_UNAVAILABLE = "CrewUnavailable"
    INTERNAL = "Internal"
    PAYLOAD_TOO_LARGE = "PayloadTooLarge"
