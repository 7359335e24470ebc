"""`ListTasks` on sessions: pages of what was started last, by the server's own list. Conversations are not listed."""

from datetime import UTC, datetime
from typing import Any, Final

from a2a.types import a2a_pb2 as a2a
from a2a.utils.errors import InvalidParamsError, UnsupportedOperationError

from chargehand import Chargehand
from chargehand.listing import SessionSummary, sessions_query
from chargehand.temporal_errors import translated

_USUAL_PAGE: Final = 50
_LARGEST_PAGE: Final = 100
_FILTERS: Final[dict[int, dict[str, Any]]] = {
    a2a.TASK_STATE_UNSPECIFIED: {},
    a2a.TASK_STATE_INPUT_REQUIRED: {"waiting": True},
    a2a.TASK_STATE_COMPLETED: {"state": "completed"},
    a2a.TASK_STATE_CANCELED: {"state": "canceled"},
    a2a.TASK_STATE_FAILED: {"state": "failed"},
}
"""How the server's list is filtered by a state of tasks."""
_ENDED: Final = {"completed": a2a.TASK_STATE_COMPLETED, "canceled": a2a.TASK_STATE_CANCELED}


async def listed(
    chargehand: Chargehand, params: a2a.ListTasksRequest
) -> tuple[list[SessionSummary], a2a.ListTasksResponse]:
    """Find the sessions of a page, and what is said of all pages."""
    size = params.page_size if params.HasField("page_size") else _USUAL_PAGE
    if not 1 <= size <= _LARGEST_PAGE:
        raise InvalidParamsError(f"pageSize: must be between 1 and {_LARGEST_PAGE}")
    if params.history_length < 0:
        raise InvalidParamsError("historyLength: must not be negative")
    if params.status not in _FILTERS or params.HasField("status_timestamp_after"):
        offered = ", ".join(a2a.TaskState.Name(state) for state in _FILTERS if state)
        raise UnsupportedOperationError(f"Tasks are listed by contextId, and by a status of {offered}.")
    filters: dict[str, Any] = _FILTERS[params.status] | ({"ids": [params.context_id]} if params.context_id else {})
    before = _time(params.page_token) if params.page_token else None
    found = [each async for each in chargehand.list(size + 1, before=before, **filters)]
    with translated(""):
        total = (await chargehand.client.count_workflows(sessions_query(**filters))).count
    more = found[size - 1].started_at.isoformat() if len(found) > size else ""
    return found[:size], a2a.ListTasksResponse(page_size=size, total_size=total, next_page_token=more)


def state_in_list(summary: SessionSummary) -> a2a.TaskState:
    """Tell the state of a task by the list alone."""
    if summary.ended_at is None:
        return a2a.TASK_STATE_INPUT_REQUIRED if summary.waiting_for else a2a.TASK_STATE_WORKING
    return _ENDED.get(summary.state, a2a.TASK_STATE_FAILED)


def _time(token: str) -> datetime:
    try:
        return datetime.fromisoformat(token).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidParamsError("pageToken: must be the nextPageToken of a list") from error
