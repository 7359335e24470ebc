"""Metrics of workflows. Replays are not counted."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Final, Literal

from temporalio import workflow
from temporalio.exceptions import ApplicationError, is_cancelled_exception

from activities import metrics
from activities.metrics import MODELS, TENANTS, Metric
from chargehand.contracts import Outcome, Report, Usage
from chargehand.wire import ErrorType

_NANODOLLARS: Final = 10**9
_LIMITS: Final[Mapping[str, str]] = {
    "out_of_turns": "max_turns",
    "out_of_budget": "budget_usd",
    "overcharged": "budget_usd",
    "out_of_rounds": "max_rounds",
    "deadline": "deadline",
    "timeout": "deadline",
    ErrorType.TENANT_LIMIT: "tenant",
}
"""Name of the limit by the stop or failure reason that it causes."""
DEFAULT: Final = "default"
_REFUSED: Final = {ErrorType.INVALID_INPUT, ErrorType.LIMIT_TOO_SMALL, ErrorType.PLAN_REJECTED, ErrorType.TENANT_LIMIT}
"""Errors caused by the request, the tenant's limits, or a person's decision."""
Refusal = Literal["policy", "approval", "leak_check", "loop_guard", "permission"]


def count_start(tenant: str) -> None:
    tenant = TENANTS.of(tenant)
    _count(metrics.SESSIONS_STARTED, tenant=tenant)
    _count(metrics.LOST_GRANTS, 0, tenant=tenant)


def count_report(report: Report, tenant: str) -> None:
    _count(metrics.SESSIONS_ENDED, end=report.stop_reason, tenant=TENANTS.of(tenant))
    _count_limit(report.stop_reason, "session")
    workflow.metric_meter().create_histogram_timedelta(*metrics.SESSION_DURATION).record(report.timing.wall)


def count_error(error: BaseException, tenant: str) -> None:
    kind = (error.type or "") if isinstance(error, ApplicationError) else ""
    end = "cancelled" if is_cancelled_exception(error) else "refused" if kind in _REFUSED else "failed"
    _count(metrics.SESSIONS_ENDED, end=end, tenant=TENANTS.of(tenant))
    _count_limit(kind, "session")


def count_outcome(outcome: Outcome) -> None:
    _count(metrics.SUBTASKS_ENDED, end=outcome.kind)
    if outcome.kind != "success":
        _count_limit(outcome.reason, "subtask")
        if outcome.reason == "duplicate":
            count_refusal("loop_guard")


def count_spend(usage: Usage, model: str, tenant: str | None) -> None:
    model, tenant = MODELS.of(model), TENANTS.of(tenant or DEFAULT)
    _count(metrics.TURNS, usage.turns, model=model, tenant=tenant)
    _count(metrics.COST, int(usage.cost_usd * _NANODOLLARS), model=model, tenant=tenant)
    cached = usage.cached_input_tokens
    for kind, tokens in {
        "uncached_input": usage.input_tokens - cached,
        "cached_input": cached,
        "output": usage.output_tokens,
    }.items():
        _count(metrics.TOKENS, max(tokens, 0), model=model, kind=kind)
    _count(metrics.CACHE_HITS, int(cached > 0), model=model)
    doubtful = usage.possibly_billed_twice_usd
    _count(metrics.DOUBTFUL_CALLS, int(doubtful > 0), model=model)
    _count(metrics.DOUBTFUL_COST, int(doubtful * _NANODOLLARS), model=model)


def count_lost_grant(usd: Decimal) -> None:
    """Count the charge for a child that did not report its spend; part of it may already be counted as cost."""
    tenant = TENANTS.of(workflow.info().priority.fairness_key or DEFAULT)
    _count(metrics.LOST_GRANTS, int(usd * _NANODOLLARS), tenant=tenant)


def count_refusal(kind: Refusal) -> None:
    _count(metrics.REFUSALS, kind=kind)


def _count_limit(reason: str, scope: Literal["session", "subtask"]) -> None:
    if reason in _LIMITS:
        _count(metrics.LIMITS_REACHED, limit=_LIMITS[reason], scope=scope)


def _count(metric: Metric, number: int = 1, **labels: str) -> None:
    metrics.count(workflow.metric_meter(), metric, number, **labels)
