"""Names and attributes of OpenTelemetry spans, by the semantic conventions for generative AI.

Both the workers' live spans and `chargehand trace --format otlp` use them.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

SCOPE: Final = "chargehand"
"""The instrumentation scope of all spans, and the default service name without `OTEL_SERVICE_NAME`."""
SUPERVISOR: Final = "supervisor"
OPERATIONS: Final[Mapping[str, str]] = {
    "session": "invoke_agent",
    "plan": "plan",
    "subtask": "invoke_agent",
    "turn": "chat",
    "tool": "execute_tool",
}
"""The operation name by kind of step."""
PLANNING: Final = frozenset({"route", "design", "plan"})
"""Purposes of planning turns."""


class SpanAttribute(StrEnum):
    """Span attributes; those under `chargehand.` are our own."""

    OPERATION = "gen_ai.operation.name"
    CONVERSATION = "gen_ai.conversation.id"
    """The root session."""
    AGENT = "gen_ai.agent.name"
    PROVIDER = "gen_ai.provider.name"
    REQUEST_MODEL = "gen_ai.request.model"
    REQUEST_TOKENS = "gen_ai.request.max_tokens"
    RESPONSE_MODEL = "gen_ai.response.model"
    INPUT_TOKENS = "gen_ai.usage.input_tokens"
    OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
    CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
    SYSTEM = "gen_ai.system_instructions"
    """Text of users, like messages, arguments and results: only where an operator asks for it."""
    INPUT_MESSAGES = "gen_ai.input.messages"
    OUTPUT_MESSAGES = "gen_ai.output.messages"
    TOOL = "gen_ai.tool.name"
    TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
    TOOL_RESULT = "gen_ai.tool.call.result"
    ERROR = "error.type"
    STEP_KIND = "chargehand.step.kind"
    STEP_NAME = "chargehand.step.name"
    SUBTASK = "chargehand.subtask"
    TASK_HASH = "chargehand.task_hash"
    PURPOSE = "chargehand.purpose"
    PLAN = "chargehand.plan"
    ROUTE_REASON = "chargehand.route.reason"
    ATTEMPT = "chargehand.attempt"
    """The number of an activity's attempt."""
    ATTEMPTS = "chargehand.attempts"
    WORKER = "chargehand.worker"
    COST_USD = "chargehand.cost_usd"
    """Of a turn."""
    FROM_JOURNAL = "chargehand.from_journal"
    """Whether a turn made no call because it recovered the reply of an earlier attempt whose worker was lost."""
    STOP_REASON = "chargehand.stop_reason"
    """Why a session or a turn stopped."""
    OUTCOME = "chargehand.outcome"
    """How a subtask ended."""
    SESSION_COST_USD = "chargehand.session.cost_usd"
    """The total cost of a session according to its report."""
    SESSION_TURNS = "chargehand.session.turns"
    CREW = "chargehand.crew"
    TEMPORAL_ID = "temporal.id"
    """The workflow's id; for an activity, followed by `#` and the activity's id."""
    TEMPORAL_RUN = "temporal.run_id"


def span_name(kind: str, about: str) -> str:
    """Build a span name of low cardinality: `chat claude-sonnet-5-5`, `execute_tool search`."""
    return f"{OPERATIONS.get(kind, kind)} {about}".strip()
