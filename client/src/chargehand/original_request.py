"""The request that a session or conversation was started with, read from its history and compared with another."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from pydantic import ConfigDict
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from chargehand.contracts import ConversationRequest, SessionRequest
from chargehand.errors import AnotherRequest
from chargehand.wire import WorkflowType

Request = SessionRequest | ConversationRequest


class _Asked(SessionRequest):
    """The request in the newest run of a session, together with state from earlier runs."""

    model_config = ConfigDict(extra="ignore")
    largest_bytes: ClassVar[int] = 50 << 20


class _Opened(ConversationRequest):
    """The same for a conversation."""

    model_config = ConfigDict(extra="ignore")
    largest_bytes: ClassVar[int] = 50 << 20
    most_values: ClassVar[int] = 500_000


_KINDS: Final[Mapping[str, tuple[type[Request], type[Request]]]] = {
    WorkflowType.SUPERVISOR: (_Asked, SessionRequest),
    WorkflowType.CONVERSATION: (_Opened, ConversationRequest),
}


async def read_request(client: Client, workflow_id: str) -> Request | None:
    """Read a workflow's request; None if it is neither a session nor a conversation."""
    started = await anext(client.get_workflow_handle(workflow_id).fetch_history_events(page_size=1))
    about = started.workflow_execution_started_event_attributes
    written, kind = _KINDS.get(about.workflow_type.name, (None, None))
    if written is None or kind is None:
        return None
    (asked,) = await client.data_converter.decode(list(about.input.payloads), [written])
    return kind(**{name: getattr(asked, name) for name in asked.model_fields_set})


async def refuse_another(client: Client, workflow_id: str, request: Request) -> None:
    """Refuse a request with the id of a workflow that was started with another request."""
    try:
        original = await read_request(client, workflow_id)
    except ApplicationError:  # undecodable, so it differs
        raise AnotherRequest(workflow_id, ["request"]) from None
    refuse_difference(workflow_id, original, request)


def refuse_difference(workflow_id: str, original: Request | None, request: Request) -> None:
    """Refuse a request that differs from the one that the workflow was started with.

    A session's request must be identical; of a conversation's, only the given fields, since its id suffices.
    """
    if original is None or type(original) is not type(request):
        raise AnotherRequest(workflow_id, ["workflow type"])
    goes_on = isinstance(request, ConversationRequest)
    before, now = _values(original), _values(request, exclude_unset=goes_on)
    names = now if goes_on else before | now
    if differing := sorted(name for name in names if before.get(name) != now.get(name)):
        raise AnotherRequest(workflow_id, differing, goes_on=goes_on)


def _values(request: Request, *, exclude_unset: bool = False) -> dict[str, Any]:
    """List the values of a request by field, with nested ones as `limits.max_turns`."""
    values = request.model_dump(exclude_unset=exclude_unset)
    if "credentials" in values:
        values["credentials"] = sorted(values["credentials"])  # sealing gives another text each time
    parts = {part: values.pop(part, {}) for part in ("limits", "tiers")}
    return values | {f"{part}.{name}": value for part, named in parts.items() for name, value in named.items()}
