"""The activity that reads how long the oldest task of a Temporal task queue waits."""

from temporalio import activity
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue, TaskQueueStats
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client

from activities.contracts.session import Backlog, BacklogRequest
from chargehand.wire import ActivityType


class BacklogActivities:
    @activity.defn(name=ActivityType.READ_BACKLOG)
    async def read_backlog(self, request: BacklogRequest) -> Backlog:
        """Read the age of a queue's oldest activity task; 0 if none waits."""
        stats = await queue_stats(activity.client(), request.queue, TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY)
        return Backlog(age=stats.approximate_backlog_age.ToTimedelta())


async def queue_stats(client: Client, queue: str, kind: "TaskQueueType.ValueType") -> TaskQueueStats:
    """Ask the server how many tasks of a kind wait on a queue, and how long the oldest does."""
    request = DescribeTaskQueueRequest(
        namespace=client.namespace, task_queue=TaskQueue(name=queue), task_queue_type=kind, report_stats=True
    )
    return (await client.workflow_service.describe_task_queue(request)).stats
