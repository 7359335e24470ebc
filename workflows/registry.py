"""The workflows that a worker registers, their runner, and their interceptors: refusals, log records and metrics."""

import asyncio
import logging
from collections.abc import Sequence
from decimal import Decimal
from threading import Lock
from typing import Any, Final

from temporalio import workflow
from temporalio.api.enums.v1 import CommandType
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.converter import StorageDriverStoreContext, StorageDriverWorkflowInfo
from temporalio.exceptions import FailureError, is_cancelled_exception
from temporalio.worker import (
    ExecuteWorkflowInput,
    HandleQueryInput,
    HandleSignalInput,
    HandleUpdateInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInstance,
    WorkflowInstanceDetails,
    WorkflowInterceptorClassInput,
)
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions
from temporalio.workflow import Info

from activities.caller_check import recognise
from activities.contracts.session import OpenSessionRequest
from chargehand.contracts import Contract, ConversationEnd, Report, SessionRequest
from chargehand.converter import invalid_input, non_retryable_error, unreadable
from chargehand.messages import CONVERSATION_MESSAGES, UPDATES
from chargehand.payloads.storage import READ_BY_CLIENTS
from chargehand.plugins import Hook, installed
from chargehand.wire import SESSIONS, ErrorType, WorkflowType
from workflows import metrics
from workflows.conversation import ConversationWorkflow
from workflows.rules.refusal import Refused
from workflows.rules.web_ui import details
from workflows.sdk import CommandInfo, WorkflowActivation, WorkflowActivationCompletion
from workflows.session_workflow import SessionWorkflow
from workflows.steps.report import cause_of
from workflows.subtask import SubtaskWorkflow
from workflows.supervisor import SupervisorWorkflow

_UPDATES: Final = {**UPDATES, **CONVERSATION_MESSAGES}
_EXPECTED: Final = "input: one JSON object is expected; {} were given"
WORKFLOWS: Final[Sequence[type]] = (SupervisorWorkflow, ConversationWorkflow, SubtaskWorkflow)

# Our modules and pydantic are loaded once instead of per workflow start, which halves the worker's load.
_SHARED_MODULES: Final = (
    "pydantic",
    "pydantic_core",
    "annotated_types",
    "typing_extensions",
    # `activities` and `workflows` in a checkout, one package in the wheel.
    *{each.__module__.partition(".")[0] for each in (Contract, OpenSessionRequest, SupervisorWorkflow)},
)
_HOOKS: Final = (
    *(Hook.ROUTE, Hook.BACKUP, Hook.REPORT, Hook.CLAIM_OBJECTIONS, Hook.DISAGREEMENTS, Hook.UNKNOWN_FIGURES),
    *(Hook.WAIT, Hook.SESSION_ENDED, Hook.WORKFLOW_ACTIVATION),
)


def added_workflows(*, with_versioning: bool = False) -> list[type]:
    """Return the workflows of plug-ins; one that changes the build requires Worker Versioning."""
    plugins = installed()
    added = plugins.versioned_workflows if with_versioning else plugins.workflows
    return [extension.load(type) for extension in added]


def workflow_runner() -> SandboxedWorkflowRunner:
    shared = {*_SHARED_MODULES, *installed().in_workflows}
    for hook in _HOOKS:
        installed().functions(hook)  # imported here: the sandbox must not import anything
    return _Sandbox(restrictions=SandboxRestrictions.default.with_passthrough_modules(*shared))


class _Sandbox(SandboxedWorkflowRunner):
    """The SDK's sandbox, entered only for workflow code.

    The SDK enters it up to four times per payload to determine a converter's serialization context. Our converter does
    not depend on it, and these entries would take a quarter of a worker's CPU time. External storage receives the
    storing workflow, or the information that clients read the payload.
    """

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        info = det.info
        recognise(info)
        storing = StorageDriverWorkflowInfo(
            namespace=info.namespace, id=info.workflow_id, run_id=info.run_id, type=info.workflow_type
        )
        return _Instance(super().create_instance(det), StorageDriverStoreContext(target=storing))


class _Instance(WorkflowInstance):
    """A workflow instance whose task runs to its end even after the SDK has abandoned it (docs/decisions/0013).

    The SDK would interrupt the task's thread and meanwhile discard the workflow in another one.
    """

    def __init__(self, sandboxed: WorkflowInstance, storing: StorageDriverStoreContext) -> None:
        self._sandboxed = sandboxed
        self._storing = storing
        self._activating = Lock()

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        with self._activating:
            for before in installed().functions(Hook.WORKFLOW_ACTIVATION):
                before(act)
            for job in act.jobs:
                inputs = job.initialize_workflow.arguments
                if job.HasField("initialize_workflow") and len(inputs) != 1:
                    # `__init__` could not be called; the converter refuses this.
                    inputs.MergeFrom([unreadable(_EXPECTED.format(len(inputs)))])
                    del inputs[:-1]
            return self._sandboxed.activate(act)

    def get_info(self) -> Info:
        return self._sandboxed.get_info()

    def get_thread_id(self) -> None:
        """Return no thread id, so that no thread is interrupted."""

    def get_serialization_context(self, command_info: object) -> None:  # noqa: ARG002  # the SDK's own signature
        return None

    def get_external_store_context(self, command_info: CommandInfo | None) -> StorageDriverStoreContext:
        if command_info is None or (
            command_info.command_type == CommandType.COMMAND_TYPE_COMPLETE_WORKFLOW_EXECUTION
            and self.get_info().workflow_type in SESSIONS
        ):
            return READ_BY_CLIENTS
        return self._storing


class AroundWorkflows(Interceptor):
    """Puts one class of inbound interceptors around all workflows of a worker."""

    def __init__(self, inbound: type[WorkflowInboundInterceptor]) -> None:
        self._inbound = inbound

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,  # noqa: A002, ARG002  # the SDK's own name
    ) -> type[WorkflowInboundInterceptor]:
        return self._inbound


class RefuseBadInput(WorkflowInboundInterceptor):
    """Prevents bad input from failing a workflow's tasks forever.

    Signals with no input or with several are dropped, as the SDK drops those whose input it cannot read, and updates
    are refused. An exception in a handler ends only that message: it is a bug, and is logged.
    Current details are rendered when the Web UI queries them.
    """

    async def handle_query(self, input: HandleQueryInput) -> Any:  # noqa: A002  # the SDK's own name
        """Render a session's details on request only; rendering at every change would be quadratic."""
        answer = await super().handle_query(input)
        session = workflow.instance()
        if isinstance(answer, WorkflowMetadata) and isinstance(session, SessionWorkflow):
            current = details(session.status(), workflow.now())
            return WorkflowMetadata(definition=answer.definition, current_details=current)
        return answer

    async def handle_signal(self, input: HandleSignalInput) -> None:  # noqa: A002  # as above
        try:
            await super().handle_signal(input)
        except FailureError:
            raise
        except Exception:  # noqa: BLE001  # no exception may fail the workflow task forever
            workflow.logger.exception("signal dropped", extra={"signal": input.signal})

    def handle_update_validator(self, input: HandleUpdateInput) -> None:  # noqa: A002  # as above
        _require_input(input)
        try:
            super().handle_update_validator(input)
        except Refused as error:
            raise non_retryable_error(ErrorType.UPDATE_REFUSED, str(error)) from None

    async def handle_update_handler(self, input: HandleUpdateInput) -> Any:  # noqa: A002  # as above
        _require_input(input)  # not every update has a validator
        try:
            return await super().handle_update_handler(input)
        except FailureError:
            raise
        except Refused as error:
            raise non_retryable_error(ErrorType.UPDATE_REFUSED, str(error)) from None
        except Exception as error:  # as above
            workflow.logger.exception("update failed", extra={"update": input.update})
            raise non_retryable_error(
                ErrorType.INTERNAL,
                f"The update failed ({type(error).__name__}); the worker's log says why. The session goes on.",
            ) from error


def _require_input(sent: HandleUpdateInput) -> None:
    row, count = _UPDATES.get(sent.update), len(sent.args)
    optional = row is UPDATES["interrupt"]  # its handler has a default: all subtasks
    if row and row.takes and count != 1 and not (optional and count == 0):
        raise invalid_input(sent.update, [_EXPECTED.format(count)])


class ObserveSessions(WorkflowInboundInterceptor):
    """Logs and counts starts and ends of root sessions, and logs those of conversations."""

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
            if workflow.in_workflow():  # otherwise the coroutine is discarded together with its worker
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


INTERCEPTORS: Final = (AroundWorkflows(ObserveSessions), AroundWorkflows(RefuseBadInput))


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
