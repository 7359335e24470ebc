"""Routes instead of plans: by rule, by a model and by load; each with its reason in report and trace."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.client import Client

from activities.turn_kinds.plan import RouteAnswer, RouteDraft
from chargehand.contracts import Limits, Route, SessionRequest
from chargehand.history.tree import read_trace
from chargehand.wire import ActivityType
from tests.crew_files import READS_THE_WEB, crew_folder
from tests.scripted_model import Script, answer, refuse, subtask
from tests.workflows.conftest import OpenEnvironment, RunSession

SETTINGS = """confidence_threshold = 40
[routing]
otherwise = "{}"
fallback = "clerk"
[[routing.rules]]
match = ["*invoice*", "refund *"]
agents = ["billing", "clerk"]
then = "writer"
"""

SCOUT = f'tools = ["search"]\n{READS_THE_WEB}'


def desk(
    folder: Path, otherwise: str = "plan", queue: str = "idle", backup: str = 'agent = "clerk"', **more: str
) -> tuple[Path]:
    slow = f'slow = {{ after = 0.001, queue = "{queue}", {backup} }}'
    settings = SETTINGS.format(otherwise)
    return (crew_folder(folder, "desk", settings, clerk="", billing=slow, writer="", **more),)


def routed(*routes: tuple[str, str], confidence: int = 90) -> RouteAnswer:
    drafts = [
        RouteDraft(agent=agent, instruction=f"Answer what is asked about {about}.", reason=f"it is about {about}")
        for agent, about in routes
    ]
    return RouteAnswer(routes=drafts, confidence=confidence)


def asked(goal: str) -> SessionRequest:
    return SessionRequest(goal=goal, crew="desk")


@pytest.mark.real_server
async def test_a_rule_takes_no_model_turn(environment: OpenEnvironment, tmp_path: Path) -> None:
    """The rule's agents work in parallel, and the last one gets their outcomes."""
    script = Script().work("", answer("Found."), agent="billing").work("", answer("Dear customer."), agent="writer")
    async with environment(script, own_crews=desk(tmp_path)) as opened:
        result = await opened.run(asked("Where is my INVOICE of May?"))
        trace = await read_trace(opened.chargehand.client, result.session)

    assert [(call.task.kind, call.agent) for call in opened.model.calls[-1:]] == [("work", "writer")]
    assert sorted(call.agent for call in opened.model.calls) == ["billing", "clerk", "writer"]
    assert result.answer.startswith("Dear customer.")
    reason = "the request matches *invoice*"
    agents = ("billing", "clerk", "writer")
    assert result.routes == tuple(Route(by="rule", agent=agent, reason=reason) for agent in agents)
    steps = [step.name for step in trace.steps if step.kind == "route"]
    assert steps == [f"by rule: {agent} ({reason})" for agent in agents]


async def test_a_router_model_names_a_primary_and_a_secondary_agent(run: RunSession, tmp_path: Path) -> None:
    """The secondary starts after the primary and sees its outcome; each has a reason."""
    script = Script().on("route", routed(("billing", "the payment"), ("writer", "the letter")))
    result, opened = await run(script, asked("I have paid twice, write me a letter"), own_crews=desk(tmp_path, "model"))

    assert [call.task.kind for call in opened.model.calls][:3] == ["route", "work", "work"]
    assert [(record.agent, record.depends_on) for record in result.subtasks] == [("billing", ()), ("writer", ("T1",))]
    assert [(route.by, route.agent, route.reason) for route in result.routes] == [
        ("model", "billing", "it is about the payment"),
        ("model", "writer", "it is about the letter"),
    ]


@pytest.mark.parametrize(
    ("turn", "reasons"),
    [
        pytest.param(
            routed(("pirate", "the ship")),
            [
                "dropped: subtask T1: there is no agent 'pirate'; the agents are billing, clerk, supervisor, writer",
                "the router's first route was not usable",
            ],
            id="unknown agent",
        ),
        pytest.param(
            routed(("billing", "it"), confidence=39), ["the router's confidence of 39 is below 40"], id="unsure"
        ),
        pytest.param(routed(), ["the router named no agent"], id="no agent"),
        pytest.param(refuse, ["the router's answer was not usable: refused"], id="refused"),
        pytest.param(answer("Never mind."), ["the router's answer was not usable: "], id="another shape"),
    ],
)
async def test_an_unusable_route_costs_one_turn(
    run: RunSession, tmp_path: Path, turn: object, reasons: list[str]
) -> None:
    """Whatever is wrong with the router's answer, the fallback route gets the request."""
    script = Script().on("route", turn)  # pyright: ignore[reportArgumentType]  # of parametrize
    result, opened = await run(script, asked("What is this about, please?"), own_crews=desk(tmp_path, "model"))

    assert [call.task.kind for call in opened.model.calls] == ["route", "work"]
    assert [record.agent for record in result.subtasks] == ["clerk"]
    found = [route.reason for route in result.routes]
    assert len(found) == len(reasons)
    assert all(reason.startswith(begin) for reason, begin in zip(found, reasons, strict=True))
    assert [(route.by, route.used) for route in result.routes][-1] == ("fallback", True)
    assert result.wasted.turns == 1


async def test_an_unusable_secondary_route_leaves_the_primary(run: RunSession, tmp_path: Path) -> None:
    """It is dropped with its reason, and the primary is followed."""
    script = Script().on("route", routed(("billing", "the payment"), ("pirate", "the ship")))
    goal = "I have paid twice, and there is a ship"
    result, opened = await run(script, asked(goal), own_crews=desk(tmp_path, "model"))

    assert [call.task.kind for call in opened.model.calls] == ["route", "work"]
    assert [(route.agent, route.used) for route in result.routes] == [("pirate", False), ("billing", True)]


async def test_a_rule_that_exceeds_the_limits_is_dropped(run: RunSession, tmp_path: Path) -> None:
    """If its agents need more turns than there are, the fallback route is used."""
    request = SessionRequest(goal="Where is my invoice of May?", crew="desk", limits=Limits(max_turns=3))
    result, _ = await run(Script(), request, own_crews=desk(tmp_path))

    assert [record.agent for record in result.subtasks] == ["clerk"]
    assert [(route.by, route.used) for route in result.routes] == [("rule", False)] * 3 + [("fallback", True)]


@asynccontextmanager
async def backlog(client: Client, queue: str) -> AsyncGenerator[None]:
    """Have a task wait on a queue that no worker polls."""
    waiting = await client.start_activity(
        ActivityType.READ_BACKLOG, id=queue, task_queue=queue, schedule_to_close_timeout=timedelta(minutes=1)
    )
    try:
        yield
    finally:
        await waiting.terminate()


@pytest.mark.real_server
@pytest.mark.parametrize(("backup", "used"), [('agent = "clerk"', "clerk medium"), ('tier = "large"', "billing large")])
async def test_a_slow_queue_brings_in_the_backup(
    environment: OpenEnvironment, tmp_path: Path, client: Client, backup: str, used: str
) -> None:
    """While the oldest task of an agent's queue waits too long, the backup agent or tier is used."""
    queue = used.replace(" ", "-")
    script = Script().plan(subtask("T1", "billing"))
    async with (
        backlog(client, queue),
        environment(script, own_crews=desk(tmp_path, queue=queue, backup=backup)) as opened,
    ):
        result = await opened.run(asked("What do I owe you now?"))

    [call] = opened.model.of_kind("work")
    assert f"{call.agent} {call.model.removeprefix('scripted-')}" == used
    [route] = result.routes
    assert route.by == "load"
    assert f"the oldest task of queue {queue} waits" in route.reason


@pytest.mark.real_server
async def test_a_backup_that_reaches_out_is_not_used_in_an_approved_plan(
    environment: OpenEnvironment, tmp_path: Path, client: Client
) -> None:
    """Approving an agent that reaches no host does not approve one that does, however slow the first is."""
    crews = desk(tmp_path, queue="approved", backup='agent = "scout"', scout=SCOUT)
    request = asked("What do I owe you now?").model_copy(update={"approval": "plan"})
    async with (
        backlog(client, "approved"),
        environment(Script().plan(subtask("T1", "billing")), own_crews=crews) as opened,
    ):
        session = await opened.start(request, until="awaiting_approval")
        await session.approve()
        result = await session.result()

    assert [record.agent for record in result.subtasks] == ["billing"]
    assert [call.agent for call in opened.model.of_kind("work")] == ["billing"]
    assert [(route.agent, route.used) for route in result.routes] == [("scout", False)]
