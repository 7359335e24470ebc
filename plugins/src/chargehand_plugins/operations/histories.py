"""The histories of a whole session, to be replayed."""

from collections.abc import AsyncGenerator, Callable

from temporalio.client import Client, WorkflowHistory
from temporalio.service import RPCError, RPCStatusCode

from chargehand.history.runs import histories


async def histories_of_tree(
    client: Client, workflow_id: str, run_id: str | None = None, missing: Callable[[str], object] = lambda _: None
) -> AsyncGenerator[WorkflowHistory]:
    """Fetch the histories of a workflow and of everything below it, one at a time, since all may be large.

    `missing` is told the id of a child whose history the namespace no longer retains.
    """
    try:
        runs = await histories(client, workflow_id, run_id)
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND or run_id is None:
            raise
        missing(workflow_id)
        return
    for history in runs:
        yield history
    for event in (event for history in runs for event in history.events):
        if event.HasField("child_workflow_execution_started_event_attributes"):
            child = event.child_workflow_execution_started_event_attributes.workflow_execution
            async for below in histories_of_tree(client, child.workflow_id, child.run_id, missing):
                yield below
