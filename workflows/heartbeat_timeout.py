"""Another heartbeat timeout than `options.HEARTBEAT_TIMEOUT`, where heartbeats cost money or the network is slow."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.worker import (
    Interceptor,
    StartActivityInput,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
)


class SetHeartbeatTimeout(Interceptor):
    """Sets the heartbeat timeout of activities that have one.

    Timeouts are not compared in a replay, so a worker may start with another one.
    """

    def __init__(self, timeout: timedelta) -> None:
        self._timeout = timeout

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,  # noqa: A002, ARG002  # the SDK's own name
    ) -> type[WorkflowInboundInterceptor]:
        """Return the interceptor of workflows."""
        timeout = self._timeout

        class Outbound(WorkflowOutboundInterceptor):
            def start_activity(self, input: StartActivityInput) -> workflow.ActivityHandle[Any]:  # noqa: A002  # as above
                if input.heartbeat_timeout is not None:
                    return super().start_activity(replace(input, heartbeat_timeout=timeout))
                return super().start_activity(input)

        class Inbound(WorkflowInboundInterceptor):
            def init(self, outbound: WorkflowOutboundInterceptor) -> None:
                super().init(Outbound(outbound))

        return Inbound
