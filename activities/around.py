"""Base class for interceptors that wrap each activity attempt."""

from collections.abc import Awaitable, Callable
from typing import Any

from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor


class AroundActivities(Interceptor):
    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002  # the SDK's own name
        return _Intercepted(next, self)

    async def attempt(self, called: ExecuteActivityInput, run: Callable[[], Awaitable[Any]], /) -> Any:
        """Run one attempt of an activity, and return its result."""
        raise NotImplementedError


class _Intercepted(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, around: AroundActivities) -> None:  # noqa: A002  # as above
        super().__init__(next)
        self._around = around

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002  # as above
        return await self._around.attempt(input, lambda: super(_Intercepted, self).execute_activity(input))
