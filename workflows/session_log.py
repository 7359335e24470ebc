"""Log records and metrics at the start and end of sessions; none in a replay."""

import asyncio
import logging
from decimal import Decimal
from typing import Any

from temporalio import workflow
from temporalio.exceptions import FailureError, is_cancelled_exception
from temporalio.worker import (
    ExecuteWorkflowInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

from chargehand.contracts import ConversationEnd, Report, SessionRequest
from chargehand.wire import SESSIONS, WorkflowType
from workflows import metrics
from workflows.session_workflow import SessionWorkflow
from workflows.steps.report import cause_of


class ObserveSessions(Interceptor):
    """Logs and counts starts and ends of root sessions, and logs those of conversations."""

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,  # noqa: A002, ARG002  # the SDK's own name
    ) -> type[WorkflowInboundInterceptor]:
        return _ObservedSession


class _ObservedSession(WorkflowInboundInterceptor):
    async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:  # noqa: A002  # as above
        info = workflow.info()
        if info.workflow_type not in SESSIONS or info.parent is not None:
            return await super().execute_workflow(input)
        asked: object = input.args[0] if input.args else None
        tenant = asked.tenant if isinstance(asked, SessionRequest) else metrics.DEFAULT
        is_counted = info.workflow_type == WorkflowType.SUPERVISOR
        if info.continued_run_id is None or info.cron_schedule:
            workflow.logger.info("session started: %s", info.workflow_id)
            if is_counted:
                metrics.count_start(tenant)
        try:
            result: object = await super().execute_workflow(input)
        except (asyncio.CancelledError, FailureError) as error:  # others fail the task, which is retried
            if workflow.in_workflow():  # otherwise the coroutine is discarded with its worker
                _log_error(error)
                if is_counted:
                    metrics.count_error(error, tenant)
            raise
        match result:
            case Report():
                metrics.count_report(result, tenant)
                _log_end(result.stop_reason, result.usage.cost_usd)
            case ConversationEnd():
                _log_end(result.reason, result.usage.cost_usd)
            case _:
                pass
        return result


def _log_error(error: BaseException) -> None:
    running = workflow.instance()
    spent = running.status().spent_usd if isinstance(running, SessionWorkflow) else Decimal(0)
    if is_cancelled_exception(error):
        _log_end("cancelled", spent)
    else:
        _log_end("failed", spent, **cause_of(error).model_dump(exclude_defaults=True))


def _log_end(end: str, dollars: Decimal, **cause: Any) -> None:
    level = logging.WARNING if cause else logging.INFO
    what = f"{end} {cause['error_type']}" if cause else end
    facts = {"end": end, "dollars": float(dollars), **cause}
    workflow.logger.log(level, "session ended: %s: %s", workflow.info().workflow_id, what, extra=facts)
