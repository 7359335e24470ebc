"""How sessions start: the workflow's typed signature, its options, and whether an existing id accepts a request."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, ClassVar, Final

from pydantic import ConfigDict
from temporalio import workflow
from temporalio.client import Client
from temporalio.common import Priority
from temporalio.exceptions import ApplicationError

from chargehand.contracts import ConversationRequest, Report, SessionRequest
from chargehand.contracts.base import LARGEST_STORED_BYTES, MOST_STORED_VALUES
from chargehand.contracts.problems import printable
from chargehand.contracts.request import LONGEST_SESSION_ID
from chargehand.errors import AnotherRequest, InvalidInput
from chargehand.listing import GOAL, listing_memo
from chargehand.wire import WorkflowType

_AFTER_THE_DEADLINE: Final = timedelta(days=31)
"""The server ends a session this long after its deadline, which leaves time to wait for people."""


@workflow.defn(name=WorkflowType.SUPERVISOR)
class Supervisor:
    """Input and result of a session; its queries and updates are in `chargehand.messages`."""

    @workflow.run
    async def run(self, request: SessionRequest) -> Report:
        """Run a session."""
        raise NotImplementedError(request)


def start_options(request: SessionRequest) -> dict[str, Any]:
    """Build the SDK's start arguments for a request, started at once or by a schedule."""
    memo = listing_memo(request.goal, request.follows)
    return {
        "static_summary": memo[GOAL],
        "static_details": request.goal if request.goal != memo[GOAL] else None,
        "memo": memo | {"tenant": request.tenant},
        "execution_timeout": request.limits.deadline + _AFTER_THE_DEADLINE,
        "priority": Priority(priority_key=request.priority, fairness_key=request.tenant),
    }


def valid_id(text: str, field: str = "session_id") -> str:
    """Validate an id chosen by a caller, which has to fit into an address of the console."""
    if not text.strip(". ") or "/" in text or not text.isprintable() or len(text) > LONGEST_SESSION_ID:
        needs = f"1 to {LONGEST_SESSION_ID} characters that can be shown, without slashes and not dots alone"
        raise InvalidInput(f"{field}: {printable(text, 40)!r} cannot be used; give {needs}")
    return text


Request = SessionRequest | ConversationRequest


class _Asked(SessionRequest):
    """The request in the newest run of a session, together with state from earlier runs."""

    model_config = ConfigDict(extra="ignore")
    largest_bytes: ClassVar[int] = LARGEST_STORED_BYTES


class _Opened(ConversationRequest):
    """The same for a conversation."""

    model_config = ConfigDict(extra="ignore")
    largest_bytes: ClassVar[int] = LARGEST_STORED_BYTES
    most_values: ClassVar[int] = MOST_STORED_VALUES


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
    (request,) = await client.data_converter.decode(list(about.input.payloads), [written])
    return kind(**{name: getattr(request, name) for name in request.model_fields_set})


async def refuse_another(client: Client, workflow_id: str, request: Request) -> None:
    """Refuse a request whose id belongs to a workflow that was started with another request."""
    try:
        original = await read_request(client, workflow_id)
    except ApplicationError:  # undecodable, and therefore different
        raise AnotherRequest(workflow_id, ["request"]) from None
    refuse_difference(workflow_id, original, request)


def refuse_difference(workflow_id: str, original: Request | None, request: Request) -> None:
    """Refuse a request that differs from the one with which the workflow was started.

    A session's request must be identical; for a conversation, only the given fields count, since its id suffices.
    """
    if original is None or type(original) is not type(request):
        raise AnotherRequest(workflow_id, ["workflow type (a session is no conversation)"])
    goes_on = isinstance(request, ConversationRequest)
    before, now = _values(original), _values(request, exclude_unset=goes_on)
    names = now if goes_on else before | now
    if differing := sorted(name for name in names if before.get(name) != now.get(name)):
        raise AnotherRequest(workflow_id, differing, goes_on=goes_on)


def _values(request: Request, *, exclude_unset: bool = False) -> dict[str, Any]:
    values = request.model_dump(exclude_unset=exclude_unset)
    if "credentials" in values:
        values["credentials"] = sorted(values["credentials"])  # each sealing produces a different text
    parts = {part: values.pop(part, {}) for part in ("limits", "tiers")}
    return values | {f"{part}.{name}": value for part, named in parts.items() for name, value in named.items()}
