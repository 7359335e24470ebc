"""Bad input ends a session at once, for good, naming the field; nothing hangs in a failing workflow task."""

import asyncio
import json
import re
from datetime import timedelta
from decimal import Decimal
from uuid import uuid4

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, WorkflowFailureError
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from chargehand.contracts import Limits, SessionRequest
from chargehand.wire import ErrorType, SignalName, WorkflowType
from tests.environment import SessionEnvironment
from tests.scripted_model import Script, subtask
from tests.workflows.conftest import OpenEnvironment
from workflows.mailbox.contracts import Envelope, GrantRequest

CORPUS = [
    pytest.param(b'{"goal": "cut o', "not JSON", id="truncated"),
    pytest.param(b"null", "input", id="null"),
    pytest.param(b'{"goal": "a goal", "limits": {"bugdet_usd": 1}}', "did you mean 'budget_usd'", id="misspelt budget"),
    pytest.param(b'{"goal": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "input", id="100k deep"),
    pytest.param(
        b'{"goal": "a goal", "delegation": {"session": "s", "run": "r", "depth": 0, "ancestors": [], '
        b'"deadline_at": "2030-01-01T00:00:00Z"}}',
        "delegation: is set by a supervisor only",
        id="delegation",
    ),
    pytest.param(b'{"goal": "a goal", "crew": "pirates"}', "there is no crew 'pirates'", id="unknown crew"),
    pytest.param(b'{"goal": "a goal", "limits": {"max_turns": 999}}', "this installation's ceiling", id="ceiling"),
    pytest.param(
        json.dumps({"goal": "a goal", "documents": ["https://example.org/" + "d" * 1_000] * 30}).encode(),
        "documents: their names have 30,600 characters together",
        id="long addresses",
    ),
    pytest.param(b'{"goal": "a goal", "limits": {"budget_usd": 0.0001}}', "smallest that work", id="too little money"),
]


async def _failure(environment: SessionEnvironment, *values: RawValue) -> ApplicationError:
    """Start a session with raw payloads and wait for its failure."""
    handle = await environment.chargehand.client.start_workflow(
        WorkflowType.SUPERVISOR,
        args=values,
        id=f"bad-{uuid4().hex[:8]}",
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
    """Whatever bytes arrive, the session fails non-retryably with a sentence about them, and no model is called."""
    async with environment(Script().plan(subtask("T1"))) as opened:
        error = await _failure(opened, _raw(data))

    assert error.type in {ErrorType.INVALID_INPUT, ErrorType.LIMIT_TOO_SMALL}
    assert error.non_retryable
    assert named in error.message
    assert opened.model.calls == []


async def test_no_limit_can_be_asked_for_above_its_ceiling(environment: OpenEnvironment) -> None:
    """Each by itself is refused by name, unpaid, as soon as it is above the operator's (S28)."""
    least = Limits(max_turns=4, deadline=timedelta(minutes=1), subtask_deadline=timedelta(minutes=1))
    above = {name: (2 * value if value else 1) for name, value in least if isinstance(value, int | Decimal | timedelta)}
    async with environment(Script().plan(subtask("T1")), ceilings=least) as opened:
        refused = [
            (name, await _failure(opened, _raw(json.dumps({"goal": "a goal", "limits": limits}).encode())))
            for name in above
            for limits in [least.model_copy(update={name: above[name]}).model_dump(mode="json")]
        ]

    assert set(above) == set(Limits.model_fields) - {"on_limit"}
    for name, error in refused:
        assert re.search(rf"limits\.{name}: \S+ is above this installation's ceiling", error.message)
    assert opened.model.calls == []


async def test_nothing_but_a_goal_is_needed(environment: OpenEnvironment) -> None:
    """`{"goal": "…"}` as the Temporal CLI sends it starts a session with all defaults."""

    async with environment(Script().plan(subtask("T1"))) as opened:
        handle = await opened.chargehand.client.start_workflow(
            WorkflowType.SUPERVISOR,
            args=[_raw(json.dumps({"goal": "What is known?"}).encode())],
            id=f"cli-{uuid4().hex[:8]}",
            task_queue=opened.chargehand.task_queue,
        )
        result = await opened.chargehand.session(handle.id).result()

    assert result.answer == "Known."


@pytest.mark.real_server
async def test_a_grant_asked_for_before_the_session_is_open_is_not_lent(
    environment: OpenEnvironment, client: Client
) -> None:
    """Anybody may send this signal at any time; the first task of a session that brings it along goes on."""
    async with environment(Script().plan(subtask("T1"))) as opened:
        session_id = f"early-{uuid4().hex[:8]}"
        await client.start_workflow(
            WorkflowType.SUPERVISOR,
            SessionRequest(goal="What do the documents say?"),
            id=session_id,
            task_queue=opened.chargehand.task_queue,
            start_signal=SignalName.MAILBOX,
            start_signal_args=[
                Envelope(sender="nobody", number=1, token="x", body=GrantRequest(turns=1, usd=Decimal(0)))
            ],
        )
        result = await asyncio.wait_for(opened.chargehand.session(session_id).result(), 30)

    assert result.answer == "Known."
