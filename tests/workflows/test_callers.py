"""Who may take turns and use tools: sessions run by this installation's own workers, and no others."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import pytest
from temporalio import activity, workflow
from temporalio.client import ActivityFailureError, Client, WorkflowFailureError
from temporalio.common import RawValue, RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, ChildWorkflowError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from activities import caller_check
from chargehand.contracts import Limits, Report, SessionRequest
from chargehand.wire import ActivityType, ErrorType, WorkflowType
from chargehand_plugins.code_review.activity import CodeReviewActivities
from chargehand_plugins.notifications.channels import NotificationActivities
from chargehand_plugins.tenants.activities import TenantActivities
from chargehand_plugins.webhooks.activity import WebhookActivities, WebhookRules
from chargehand_plugins.webhooks.links import Links
from tests.environment import TOOLS, Backends, SessionEnvironment
from tests.scripted_model import Script, ScriptedModel, ScriptedTool, answer, found, report, topics, use
from tests.unit.strategies import example
from tests.workflows.conftest import OpenEnvironment
from workflows import registry
from workflows.options import ActivityLimits

pytestmark = pytest.mark.real_server

ONCE, _TIME = RetryPolicy(maximum_attempts=1), timedelta(seconds=20)
LIMITS = ActivityLimits(start_to_close_timeout=_TIME, heartbeat_timeout=_TIME, retry_policy=ONCE)
SPEND: tuple[dict[str, Any], ...] = (
    {},
    {"max_input_tokens": 10**9, "max_output_tokens": 10**6},
    {"session": "another", "after_reset": True},
)
"""What a turn may spend, according to its caller."""


@workflow.defn(dynamic=True)
class Stranger:
    """A workflow of any type on a separate task queue; its input says what it starts."""

    @workflow.run
    async def run(self, arguments: Sequence[RawValue]) -> str:
        what = workflow.payload_converter().from_payload(arguments[0].payload, dict[str, Any])
        if "next" in what:
            workflow.continue_as_new(what["input"], workflow=what["next"], task_queue=what["queue"])
        try:
            if "activity" in what:
                await workflow.execute_activity(what["activity"], what["input"], task_queue=what["queue"], **LIMITS)
            else:
                await workflow.execute_child_workflow(
                    what["child"], what["input"], task_queue=what["queue"], retry_policy=ONCE
                )
        except (ActivityError, ChildWorkflowError) as error:
            return str(error.cause.type) if isinstance(error.cause, ApplicationError) else repr(error.cause)
        return "done"


@asynccontextmanager
async def open_strangers(client: Client) -> AsyncGenerator[str]:
    """Run a stranger's worker; gives its task queue."""
    queue = f"strangers-{uuid4().hex[:8]}"
    async with Worker(client, task_queue=queue, workflows=[Stranger], workflow_runner=UnsandboxedWorkflowRunner()):
        yield queue


_TENANTS = TenantActivities(cast("Any", None))
OF_PLUGINS: tuple[Callable[..., Any], ...] = (
    WebhookActivities(WebhookRules(frozenset({"hooks.example"}), b"a secret of twenty-four bytes")).call_webhook,
    NotificationActivities({}, Links("")).send_notice,
    CodeReviewActivities(cast("Any", None), cast("Any", None)).write_review,
    _TENANTS.find_ended,
    _TENANTS.count_spent,
)


@cache
def asked() -> list[tuple[ActivityType, dict[str, Any]]]:
    """Forge each activity's input: anything that it can read, and some of the costliest turns and sessions."""
    tools = {name: ScriptedTool(name, found("a", "b")) for name in TOOLS}
    own = Backends(ScriptedModel(Script()), {**tools}).activities(Path(), Limits())
    definition_of: Callable[..., Any] = cast("Any", activity)._Definition.must_from_callable
    definitions = [definition_of(each) for each in (*own, *OF_PLUGINS)]
    kinds: dict[ActivityType, Any] = {ActivityType(each.name): each.arg_types[0] for each in definitions}
    valid = [(kind, example(taken).model_dump(mode="json")) for kind, taken in kinds.items()]
    worst = {
        ActivityType.TAKE_TURN: SPEND,
        ActivityType.OPEN_SESSION: ({"request": {"goal": "Spend money."}}, {"request": delegated()}),
    }
    return [(kind, each | more) for kind, each in valid for more in worst.get(kind, ({},))]


def delegated() -> dict[str, Any]:
    ends = datetime.now(UTC) + timedelta(hours=1)
    by = {"session": "s", "run": "r", "depth": 1, "ancestors": (), "deadline_at": ends.isoformat()}
    return {"goal": "Spend money.", "delegation": by}


def subtask(turns: int, usd: float) -> dict[str, Any]:
    """Forge a subtask with a grant."""
    agent = {"name": "reader", "description": "reads", "tier": "small", "prompt_bytes": 1}
    prices = [{"input_usd_per_million": "1", "output_usd_per_million": "5"}]
    own = {"subtask": {"id": "T1", "agent": "reader", "instruction": "Read everything."}, "agent": agent}
    lent = {"grant": {"turns": turns, "usd": usd}, "model": {"provider": "p", "name": "m", "prices": prices}}
    return {"session": "s", "goal": "g", "crew": "research", "max_rounds": 10} | own | lent


async def ends(client: Client, strangers: str, types: tuple[str, ...], tasks: list[dict[str, Any]]) -> Counter[str]:
    """Have workflows of each type do each of these tasks; count how they ended."""
    runs = [
        client.execute_workflow(name, what, id=f"stranger-{uuid4().hex}", task_queue=strangers, result_type=str)
        for name, what in product(types, tasks)
    ]
    return Counter(await asyncio.gather(*runs))


def nothing_was_used(opened: SessionEnvironment) -> bool:
    return not opened.model.calls and not any(tool.calls for tool in opened.tools.values())


async def test_activities_refuse_workflows_of_other_queues(environment: OpenEnvironment, client: Client) -> None:
    """Neither the workflow type nor the budget that it claims makes a difference."""
    async with environment(Script(), added=OF_PLUGINS) as opened, open_strangers(client) as strangers:
        queue = opened.chargehand.task_queue
        tasks = [{"activity": kind, "input": forged, "queue": queue} for kind, forged in asked()]
        ended = await ends(client, strangers, (WorkflowType.SUPERVISOR,), tasks)
        ended += await ends(client, strangers, ("Other",), tasks[:1])

    assert {kind for kind, _ in asked()} == {*ActivityType}
    assert ended == {ErrorType.NOT_STANDALONE: len(tasks) + 1}
    assert nothing_was_used(opened)


async def test_child_workflows_of_foreign_callers_spend_nothing(environment: OpenEnvironment, client: Client) -> None:
    """Started by any workflow type on another queue, with any grant, our code runs but nothing is paid."""
    forged = [(WorkflowType.SUBTASK, subtask(turns, usd)) for turns, usd in product((20, 1_000), (2, 1_000))]
    forged.append((WorkflowType.SUPERVISOR, delegated()))
    async with environment(Script()) as opened, open_strangers(client) as strangers:
        queue = opened.chargehand.task_queue
        tasks = [{"child": kind, "input": request, "queue": queue} for kind, request in forged]
        ended = await ends(client, strangers, ("Supervisor", "Subtask", "Other"), tasks)

    assert sum(ended.values()) == len(tasks) * 3
    assert ended[ErrorType.NOT_STANDALONE] >= 3
    assert nothing_was_used(opened)


async def test_standalone_activities_and_subtasks_are_refused(environment: OpenEnvironment, client: Client) -> None:
    """An activity or subtask workflow that a client starts itself is refused before anything is called."""
    async with environment(Script(), added=OF_PLUGINS) as opened:
        queue = opened.chargehand.task_queue
        time: dict[str, Any] = {"task_queue": queue, "start_to_close_timeout": timedelta(seconds=10)}
        called = [client.execute_activity(kind, forged, id=uuid4().hex, **time) for kind, forged in asked()]
        failures = [await failure_of(each) for each in called]
        by_hand = client.execute_workflow(WorkflowType.SUBTASK, subtask(100, 100), id=uuid4().hex, task_queue=queue)
        failures.append(await failure_of(by_hand))

    assert set(failures) == {ErrorType.NOT_STANDALONE}
    assert nothing_was_used(opened)


async def failure_of(started: Awaitable[object]) -> str | None:
    with pytest.raises((ActivityFailureError, WorkflowFailureError)) as failure:
        await started
    assert isinstance(failure.value.cause, ApplicationError)
    return failure.value.cause.type


async def test_any_workflow_may_start_a_session_as_its_child(environment: OpenEnvironment, client: Client) -> None:
    """Its limits apply as for any other session."""
    script = Script().plan(*topics(1)).on("work", answer("Known."))
    async with environment(script) as opened, open_strangers(client) as strangers:
        child = {"child": "Supervisor", "input": {"goal": "What is known?"}, "queue": opened.chargehand.task_queue}
        ended = await ends(client, strangers, ("Other",), [child])

    assert ended == {"done": 1}
    assert len(opened.model.calls) == 2


@pytest.mark.parametrize(("carried_out", "questions"), [("here", []), ("elsewhere", [1] * 4)])
async def test_the_caller_check_asks_the_server_once_per_run(
    environment: OpenEnvironment, monkeypatch: pytest.MonkeyPatch, carried_out: str, questions: list[int]
) -> None:
    """The number of turns and tools does not matter, and runs of the same worker need no request."""
    if carried_out == "elsewhere":
        monkeypatch.setattr(registry, "recognise", print)
    asked: Counter[tuple[str, str]] = Counter()
    real = caller_check.describe

    async def describe(client: Client, workflow_id: str, run_id: str, patience: timedelta) -> Any:
        asked[workflow_id, run_id] += 1
        return await real(client, workflow_id, run_id, patience)

    monkeypatch.setattr(caller_check, "describe", describe)
    tools = use("search_documents", "search", "query_data")
    script = Script().plan(*topics(3)).on("work", lambda call: answer("Known.") if call.messages[1:] else tools)
    request = SessionRequest(goal="What is known?", review="never", limits=Limits(max_parallel=3))
    async with environment(script.on("synthesis", report("Known."))) as opened:
        result: Report = await opened.run(request)

    assert result.answer == "Known."
    assert list(asked.values()) == questions
