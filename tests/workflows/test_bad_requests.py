"""Bad input, from mistakes to hostile bytes, ends a session at once by a typed error; no workflow task of it fails."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest
from hypothesis import settings as hypothesis_settings
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.client import (
    Client,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowHistoryEventFilterType,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
)
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from activities.contracts.session import LEDGER_PREFIX
from chargehand.contracts import Limits, SessionRequest
from chargehand.messages import CONVERSATION_MESSAGES, MESSAGES, UPDATES
from chargehand.payloads.encryption import Encryption
from chargehand.payloads.storage import PayloadDirectory, Storage
from chargehand.wire import ErrorType, SignalName, WorkflowType
from tests.environment import SessionEnvironment, open_environment
from tests.hostile_payloads import GOOD, KEYS, LARGE, SMALL, payloads
from tests.parameters import first_fast
from tests.scripted_model import Script, subtask
from tests.waiting import eventually, until_state
from tests.workflows.conftest import OpenEnvironment, connect, start_plainly
from workflows.mailbox.contracts import Envelope, GrantRequest

CORPUS = [
    pytest.param(b'{"goal": "a goal", "limits": {"bugdet_usd": 1}}', "did you mean 'budget_usd'", id="misspelt budget"),
    pytest.param(
        b'{"goal": "a goal", "delegation": {"session": "s", "run": "r", "depth": 0, "ancestors": [], '
        b'"deadline_at": "2030-01-01T00:00:00Z"}}',
        "delegation: is set by a supervisor only",
        id="delegation",
    ),
    pytest.param(b'{"goal": "a goal", "crew": "pirates"}', "there is no crew 'pirates'", id="unknown crew"),
    pytest.param(
        json.dumps({"goal": "a goal", "documents": ["https://example.org/" + "d" * 1_000] * 30}).encode(),
        "documents: their names have 30,600 characters together",
        id="long addresses",
    ),
    pytest.param(b'{"goal": "a goal", "limits": {"budget_usd": 0.0001}}', "smallest that work", id="too little money"),
]


async def _failure(environment: SessionEnvironment, *values: RawValue, session: str = "") -> ApplicationError:
    """Start a session with raw payloads and wait for its failure."""
    handle = await environment.chargehand.client.start_workflow(
        WorkflowType.SUPERVISOR,
        args=values,
        id=session or f"bad-{uuid4().hex[:8]}",
        task_queue=environment.chargehand.task_queue,
        result_type=dict,
        # Only so that a session that hangs fails this test instead of stopping it.
        execution_timeout=timedelta(seconds=20),
    )
    with pytest.raises(WorkflowFailureError) as failure:
        await handle.result()
    assert isinstance(failure.value.cause, ApplicationError), failure.value.cause
    return failure.value.cause


def _raw(data: bytes, encoding: bytes = b"json/plain") -> RawValue:
    return RawValue(Payload(metadata={"encoding": encoding}, data=data))


@pytest.mark.parametrize(("data", "named"), CORPUS)
async def test_bad_input_fails_the_session_naming_the_field(
    environment: OpenEnvironment, data: bytes, named: str
) -> None:
    """Any bytes cause a non-retryable failure with a message about them, and no model is called."""
    async with environment(Script().plan(subtask("T1"))) as opened:
        error = await _failure(opened, _raw(data))

    assert error.type in {ErrorType.INVALID_INPUT, ErrorType.LIMIT_TOO_SMALL}
    assert error.non_retryable
    assert named in error.message
    assert opened.model.calls == []


@pytest.mark.real_server
@pytest.mark.parametrize(
    ("data", "tenant"),
    [(b"[1]", ""), (b'{"goal": ""}', ""), (b'{"goal": "a goal", "crew": "pirates", "tenant": "acme"}', "acme")],
)
async def test_a_refused_request_from_a_plain_sdk_client_has_a_status(
    environment: OpenEnvironment, data: bytes, tenant: str
) -> None:
    """It is failed, with the reason; lists show the tenant if the request can be read."""
    name = f"bad-{uuid4().hex[:8]}"
    async with environment(Script().plan(subtask("T1"))) as opened:
        error = await _failure(opened, _raw(data), session=name)
        status = await opened.chargehand.session(name).status()
        listed = await eventually(lambda: _listed(opened, name), lambda found: found != "running")

    assert listed == tenant
    assert (status.state, status.failure and status.failure.error_type) == ("failed", error.type)


async def _listed(opened: SessionEnvironment, name: str) -> str:
    """Return the tenant of an ended session in the list, or `running`."""
    found = [each async for each in opened.chargehand.list() if each.id == name and each.ended_at]
    return found[0].tenant if found else "running"


async def test_limits_above_the_operators_ceilings_are_refused(environment: OpenEnvironment) -> None:
    """Each is refused by name before anything is paid, even when it comes from a profile."""
    least = Limits(max_turns=4, deadline=timedelta(minutes=1), subtask_deadline=timedelta(minutes=1))
    above = {name: (2 * value if value else 1) for name, value in least if isinstance(value, int | Decimal | timedelta)}
    async with environment(Script().plan(subtask("T1")), ceilings=least) as opened:
        refused = [
            (name, await _failure(opened, _raw(json.dumps({"goal": "a goal", "limits": limits}).encode())))
            for name in above
            for limits in [least.model_copy(update={name: above[name]}).model_dump(mode="json")]
        ]

        by_profile = await _failure(opened, _raw(b'{"goal": "a goal", "profile": "deep"}'))

    assert "limits.max_turns: 300 of the profile deep is above this installation's ceiling of 4;" in by_profile.message
    assert set(above) == set(Limits.model_fields) - {"on_limit"}
    for name, error in refused:
        assert re.search(rf"limits\.{name}: \S+ is above this installation's ceiling", error.message)
    assert opened.model.calls == []


@pytest.mark.parametrize("kind", [WorkflowType.SUPERVISOR, WorkflowType.CONVERSATION])
async def test_unusable_workflow_ids_are_refused(environment: OpenEnvironment, kind: WorkflowType) -> None:
    """A session under a ledger's id would block that tenant's ledger; others could have no page."""
    async with environment(Script()) as opened:
        client, queue = opened.chargehand.client, opened.chargehand.task_queue
        ids = (f"{LEDGER_PREFIX}{queue}/acme", ".", "..", "x" * 176)
        causes: list[BaseException] = []
        for id_ in ids:
            with pytest.raises(WorkflowFailureError) as refused:
                await client.execute_workflow(kind, {"goal": "a goal"}, id=id_, task_queue=queue)
            causes.append(refused.value.cause)

    assert [isinstance(each, ApplicationError) and each.type for each in causes] == [ErrorType.INVALID_INPUT] * len(ids)
    assert f"workflow id: '{LEDGER_PREFIX}…' is kept for ledgers" in str(causes[0])
    assert all("start it with 1 to 175 characters, not dots alone" in str(each) for each in causes[1:])


async def test_updates_take_exactly_one_input(environment: OpenEnvironment) -> None:
    """With none (except `interrupt`) or two, each update that takes an input is refused by name."""
    async with environment(Script().plan(subtask("T1"))) as opened:
        session = await opened.chargehand.start(SessionRequest(goal="a goal", approval="plan"))
        for talk, messages in ((session, UPDATES), (await opened.chargehand.converse(), CONVERSATION_MESSAGES)):
            handle = opened.chargehand.client.get_workflow_handle(talk.id)
            for name, count in product((name for name, row in messages.items() if row.takes), (0, 2)):
                if (name, count) == ("interrupt", 0):
                    continue
                with pytest.raises(WorkflowUpdateFailedError) as refused:
                    await handle.execute_update(name, args=[_raw(b"{}")] * count)  # pyright: ignore[reportUnknownMemberType]  # SDK
                assert isinstance(refused.value.cause, ApplicationError)
                expected = f"Invalid {name}: input: one JSON object is expected; {count} were given"
                assert refused.value.cause.message == expected


async def test_a_session_starts_with_only_a_goal(environment: OpenEnvironment) -> None:
    """`{"goal": "…"}`, as the Temporal CLI sends it, gets all defaults."""
    async with environment(Script().plan(subtask("T1"))) as opened:
        session = await start_plainly(opened, _raw(b'{"goal": "What is known?"}'))
        result = await session.result()

    assert result.answer == "Known."


@pytest.mark.real_server
async def test_a_grant_requested_before_the_session_opens_is_ignored(environment: OpenEnvironment) -> None:
    """Anyone can send this signal at any time, even with the start; the session still completes."""
    async with environment(Script().plan(subtask("T1"))) as opened:
        signal = Envelope(sender="nobody", number=1, token="x", body=GrantRequest(turns=1, usd=Decimal(0)))
        early = {"start_signal": SignalName.MAILBOX, "start_signal_args": [signal]}
        session = await start_plainly(opened, SessionRequest(goal="What do the documents say?"), **early)
        result = await session.result()

    assert result.answer == "Known."


_FAILED_TASKS: Final = {EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED, EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT}
_TYPED: Final = {ErrorType.INVALID_INPUT, ErrorType.LIMIT_TOO_SMALL, ErrorType.NOT_STANDALONE}


@dataclass(frozen=True)
class _Opened:
    environment: SessionEnvironment
    anyone: Client
    """Sends arbitrary input."""

    async def start(self, kind: WorkflowType, *payloads: Payload, workflow_id: str = "") -> WorkflowHandle[Any, Any]:
        return await self.anyone.start_workflow(
            kind,
            args=[RawValue(payload) for payload in payloads],
            id=workflow_id or f"hostile-{uuid4().hex[:12]}",
            task_queue=self.environment.chargehand.task_queue,
        )


PROTECTIONS: Final = (
    ("none", "storage", "encryption", "both")
    if hypothesis_settings.get_current_profile_name() == "nightly"
    else ("both", "none")
)


@asynccontextmanager
async def _open(client: Client, folder: Path, protection: str, script: Script) -> AsyncGenerator[_Opened]:
    protected = await connect(
        client,
        Encryption(KEYS, "one") if protection in {"encryption", "both"} else None,
        Storage(PayloadDirectory(folder / "payloads", "default")) if protection in {"storage", "both"} else None,
    )
    async with open_environment(protected, folder, script) as environment:
        yield _Opened(environment, client)


async def _ending(handle: WorkflowHandle[Any, Any]) -> str:
    """Wait for a workflow to end; return the type of its error, or `completed`."""
    closing = handle.fetch_history_events(
        wait_new_event=True, event_filter_type=WorkflowHistoryEventFilterType.CLOSE_EVENT
    )
    last = await asyncio.wait_for(anext(closing), 90)
    tasks = Counter([event.event_type async for event in handle.fetch_history_events()])
    assert not _FAILED_TASKS & tasks.keys()
    if last.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED:
        return "completed"
    failure = last.workflow_execution_failed_event_attributes.failure
    assert tasks[EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED] == 1
    assert failure.application_failure_info.non_retryable
    assert failure.message.isprintable()
    assert len(failure.message) < 5_000
    return failure.application_failure_info.type


@pytest.mark.parametrize("protection", first_fast(PROTECTIONS, 1, pytest.mark.nightly))
async def test_workflows_with_hostile_input_end_at_once(client: Client, tmp_path: Path, protection: str) -> None:
    """Either type, started with any payload, is refused in its first task or completes."""
    async with _open(client, tmp_path, protection, Script().plan(subtask("T1"))) as opened:
        for kind in WorkflowType:
            chosen = payloads(LARGE if protection == "none" else SMALL, 6)
            endings = Counter[str]()
            for first in range(0, len(chosen), 50):  # starting more at once only makes them wait for each other
                started = [await opened.start(kind, payload) for payload in chosen[first : first + 50]]
                endings.update([await _ending(handle) for handle in started])

            assert endings.keys() <= {*_TYPED, "completed"}
            assert endings[ErrorType.INVALID_INPUT] > len(chosen) // 2


@pytest.mark.parametrize("count", first_fast([2_000, 0, 2, 5_000]))
async def test_workflows_with_the_wrong_number_of_inputs_are_refused(
    client: Client, tmp_path: Path, count: int
) -> None:
    """No payload and thousands of payloads are refused in the first workflow task."""
    async with _open(client, tmp_path, "none", Script()) as opened:
        for content in (GOOD, b"[" * 20):
            values = [Payload(metadata={"encoding": b"json/plain"}, data=content)] * count
            ended = [await _ending(await opened.start(kind, *values)) for kind in WorkflowType]
            assert {*ended} == {ErrorType.INVALID_INPUT}


@pytest.mark.parametrize("workflow_id", first_fast(["€" * 330, "€" * 333, "a" * 176, "a" * 1_000, "/" * 500], 2))
async def test_a_session_id_too_long_for_child_ids_is_refused(client: Client, tmp_path: Path, workflow_id: str) -> None:
    """Temporal accepts such an id, but the subtasks' ids would be too long for it or its database."""
    async with _open(client, tmp_path, "none", Script()) as opened:
        payload = Payload(metadata={"encoding": b"json/plain"}, data=GOOD)
        handle = await opened.start(WorkflowType.SUPERVISOR, payload, workflow_id=workflow_id)

        assert await _ending(handle) == ErrorType.INVALID_INPUT


@pytest.mark.parametrize("character", first_fast(["😀", "€", "a"]))
async def test_sessions_with_the_longest_accepted_id_run(client: Client, tmp_path: Path, character: str) -> None:
    """Their subtasks' ids fit into 255 characters and 1,000 bytes."""
    script = Script().plan(subtask("T1"), subtask("T2"))
    async with _open(client, tmp_path, "none", script) as opened:
        workflow_id = f"{uuid4().hex}{character * 143}"
        request = SessionRequest(goal="What is known?")
        report = await (await opened.environment.chargehand.start(request, session_id=workflow_id)).result()

    assert report.stop_reason == "completed"
    assert all(each.workflow_id and len(each.workflow_id) <= 255 for each in report.subtasks)


async def _send(handle: WorkflowHandle[Any, Any], name: str, payload: Payload, turn: asyncio.Semaphore) -> None:
    value = RawValue(payload)
    async with turn:
        try:
            if name in set(SignalName):
                await handle.signal(name, value)
            elif name in {"status", "plan"}:
                await handle.query(name, value, result_type=RawValue)
            else:
                await handle.execute_update(  # pyright: ignore[reportUnknownMemberType]  # the SDK's overloads
                    name, value, result_type=RawValue
                )
        except (WorkflowUpdateFailedError, WorkflowQueryFailedError, RPCError):
            pass  # refused, as most members are


@pytest.mark.parametrize("protection", first_fast(PROTECTIONS))
async def test_hostile_messages_change_nothing(client: Client, tmp_path: Path, protection: str) -> None:
    """A session that receives any payload by any signal, update and query still completes."""
    async with _open(client, tmp_path, protection, Script().plan(subtask("T1"))) as opened:
        session = await opened.environment.chargehand.start(SessionRequest(goal="What is known?", approval="plan"))
        await until_state(session, "awaiting_approval")
        handle, turn = opened.anyone.get_workflow_handle(session.id), asyncio.Semaphore(5)
        chosen = payloads(SMALL, 6)
        for name in (*SignalName, *MESSAGES):
            if name != "finish_now":
                await asyncio.gather(*(_send(handle, name, payload, turn) for payload in chosen))
        await session.approve()
        result = await asyncio.wait_for(session.result(), 90)
        events = {event.event_type async for event in handle.fetch_history_events()}

    assert result.stop_reason == "completed"
    assert not _FAILED_TASKS & events
