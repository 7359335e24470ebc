"""The activity that reads how long the oldest task of a Temporal task queue waits."""

from datetime import timedelta

from temporalio import activity
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest

from activities.contracts.session import Backlog, BacklogRequest
from chargehand.wire import ActivityType


class BacklogActivities:
    """Reads backlogs from the server."""

    @activity.defn(name=ActivityType.READ_BACKLOG)
    async def read_backlog(self, request: BacklogRequest) -> Backlog:
        """Read the age of a queue's oldest activity task; 0 if none waits."""
        client = activity.client()
        asked = DescribeTaskQueueRequest(
            namespace=client.namespace,
            task_queue=TaskQueue(name=request.queue),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
            report_stats=True,
        )
        answer = await client.workflow_service.describe_task_queue(asked)
        return Backlog(age=answer.stats.approximate_backlog_age.ToTimedelta() or timedelta(0))
