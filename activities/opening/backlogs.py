"""The activity that reads how long a task queue's oldest task has been waiting."""

from datetime import UTC, datetime, timedelta
from typing import Final

from temporalio import activity
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import PollerInfo, TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest, DescribeTaskQueueResponse
from temporalio.client import Client

from activities.contracts.session import Backlog, BacklogRequest
from chargehand.wire import ActivityType

_RECENT: Final = timedelta(minutes=2)
"""A poll lasts at most a minute; the server lists stopped workers for five."""


class BacklogActivities:
    @activity.defn(name=ActivityType.READ_BACKLOG)
    async def read_backlog(self, request: BacklogRequest) -> Backlog:
        """Read the age of a queue's oldest activity task; 0 if no task is waiting."""
        described = await describe_queue(activity.client(), request.queue, TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY)
        return Backlog(age=described.stats.approximate_backlog_age.ToTimedelta())


async def describe_queue(client: Client, queue: str, kind: "TaskQueueType.ValueType") -> DescribeTaskQueueResponse:
    """Describe a queue: the number of waiting tasks of a kind, the oldest one's age, and the pollers."""
    request = DescribeTaskQueueRequest(
        namespace=client.namespace, task_queue=TaskQueue(name=queue), task_queue_type=kind, report_stats=True
    )
    return await client.workflow_service.describe_task_queue(request)


def is_recent(poller: PollerInfo) -> bool:
    """Whether a worker has polled recently."""
    return poller.last_access_time.ToDatetime(UTC) >= datetime.now(UTC) - _RECENT
