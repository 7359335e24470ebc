"""An operator pauses a workflow for a while."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from uuid import uuid4

from temporalio.api.workflowservice.v1 import PauseWorkflowExecutionRequest, UnpauseWorkflowExecutionRequest
from temporalio.client import Client


@asynccontextmanager
async def paused(client: Client, workflow_id: str) -> AsyncGenerator[None]:
    """Keep a workflow paused meanwhile, as `temporal workflow pause` does."""
    named = {"namespace": client.namespace, "workflow_id": workflow_id, "reason": "a test"}
    await client.workflow_service.pause_workflow_execution(
        PauseWorkflowExecutionRequest(**named, request_id=str(uuid4()))
    )
    try:
        yield
    finally:
        await client.workflow_service.unpause_workflow_execution(
            UnpauseWorkflowExecutionRequest(**named, request_id=str(uuid4()))
        )
