"""What the plug-in adds to a test's worker, and how to make a server forget a workflow."""

from collections.abc import Callable, Coroutine
from typing import Any

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from chargehand.visibility import describe
from chargehand_plugins.tenants.file import Tenants
from chargehand_plugins.tenants.limits import TenantLimits
from chargehand_plugins.tenants.settings import add_ledgers
from tests.waiting import until
from worker.parts import WorkerParts


def allowing(**limits: TenantLimits) -> Callable[[WorkerParts], Coroutine[Any, Any, None]]:
    """Add ledgers of tenants with these limits, by tenant name."""

    async def add(parts: WorkerParts) -> None:
        add_ledgers(parts, Tenants(tenants=limits))

    return add


async def delete_workflow(client: Client, execution: WorkflowExecution) -> None:
    """Delete a workflow from the server, as if the database had been restored without it."""
    asked = DeleteWorkflowExecutionRequest(namespace=client.namespace, workflow_execution=execution)
    await client.workflow_service.delete_workflow_execution(asked)

    async def is_gone() -> bool:
        try:
            await describe(client, execution.workflow_id, execution.run_id)
        except RPCError as error:
            return error.status is RPCStatusCode.NOT_FOUND
        return False

    await until(is_gone, 90)
