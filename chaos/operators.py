"""What operators do by hand with the `temporal` program: cancel, terminate, reset, pause, change options.

The buttons of the Web UI make the same calls.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

from chaos import books
from chaos.harness import Harness, Outcome, is_as_without_faults, open_harness, script
from chaos.kills import Holding
from chaos.result import Demand, Result, Scale
from chargehand.contracts import SessionRequest
from chargehand.errors import SessionEnded
from chargehand_cli.embedded.program import find_temporal
from tests.scripted_provider import Respond, ScriptedReply, ScriptedRequest

_LATEST_CALL: Final = 2.0
"""Seconds after a stop in which a call may still arrive, because it was already on its way."""
_CLOSED_WITHIN: Final = 10.0


class _AtTheNth:
    """A script that signals its n-th request, and delays its answer to it."""

    def __init__(self, number: int, respond: Respond) -> None:
        self._left = number
        self._respond = respond
        self.reached = asyncio.Event()

    def __call__(self, request: ScriptedRequest) -> ScriptedReply:
        self._left -= 1
        reply = self._respond(request)
        assert isinstance(reply, ScriptedReply)
        if self._left == 0:
            self.reached.set()
            return reply.after(5)
        return reply


async def stopped_at_each_stage(scale: Scale, random: Random, folder: Path) -> Result:
    """Cancel and terminate sessions at every stage: while planning, working, reporting, and in between."""
    stages = {"short": [1, 2], "full": [1, 2, 3, 5, 6], "nightly": [1, 2, 3, 4, 5, 6] * 5}[scale]
    began = time.monotonic()
    result = Result("Cancelled and terminated", "cancelled or terminated at the n-th model call")
    closing: list[float] = []
    async with open_harness(folder) as harness:
        await harness.worker()
        for way in ("cancel", "terminate"):
            for place, environment in enumerate(stages):
                stopping = _Stopping(f"{way}-{place}-{environment}", way, environment, random.uniform(0, 0.3))
                closing.append(await _stop_one(harness, stopping, result))
        calm = await harness.session("calm-after-all")
    result.faults = harness.faults
    result.seconds = time.monotonic() - began
    result.figures = {"slowest end, s": f"{max(closing):.1f}"}
    result.require(calm.report and is_as_without_faults(calm.report), "a session after all that is not as usual")
    result.demand(Demand(faults=2 * len(stages), successes=2 * len(stages)))
    return result


@dataclass(frozen=True)
class _Stopping:
    session: str
    way: str
    """The CLI's word."""
    environment: int
    wait: float
    """Seconds to wait after the call with that number."""


async def _stop_one(harness: Harness, stopping: _Stopping, result: Result) -> float:
    """Stop a session; return the seconds until no part of it was running."""
    session = stopping.session
    nth = _AtTheNth(stopping.environment, script(0.4))
    harness.provider.respond = nth
    request = SessionRequest(goal=f"Look into all parts of the matter {session}.")
    started = await harness.chargehand.start(request, session_id=session)
    await asyncio.wait_for(nth.reached.wait(), 60)
    await asyncio.sleep(stopping.wait)
    harness.fault()
    stopped_at = time.time()
    await temporal(harness, "workflow", stopping.way, "--workflow-id", session)
    result.sessions += 1
    try:
        await asyncio.wait_for(started.result(), _CLOSED_WITHIN)
        result.problems.append(f"{session} went on to a report")
    except SessionEnded:
        result.successes += 1
    except TimeoutError:
        result.stuck += 1
    while await _running(harness, session):
        if time.time() > stopped_at + _CLOSED_WITHIN:
            result.problems.append(f"{session}: something of it still ran after {_CLOSED_WITHIN:.0f} s")
            break
        await asyncio.sleep(0.2)
    took = time.time() - stopped_at
    late = [
        each.request.arrived_at - stopped_at
        for each in harness.provider.exchanges
        if books.session_of(each.request) == session and each.request.arrived_at > stopped_at + _LATEST_CALL
    ]
    result.require(not late, f"{session}: calls were made {late} s after it was stopped")
    return took


async def _running(harness: Harness, session: str) -> int:
    query = f"WorkflowId STARTS_WITH '{session}' AND ExecutionStatus = 'Running'"
    return (await harness.chargehand.client.count_workflows(query)).count


async def by_hand(scale: Scale, random: Random, folder: Path) -> Result:  # noqa: ARG001  # nothing is random here
    """Pause, unpause, reset and change activities and workflows by hand during a model call."""
    rounds = {"short": 1, "full": 1, "nightly": 10}[scale]
    actions = list(_ACTIONS.items())[: 2 if scale == "short" else None] * rounds
    began = time.monotonic()
    outcomes: list[Outcome] = []
    async with open_harness(folder) as harness:
        await harness.worker()
        for number, (name, act) in enumerate(actions):
            session = f"{name}-{number}"
            holding = Holding("part 1 of", script(0.05))
            harness.provider.respond = holding
            running = asyncio.create_task(harness.session(session, 60))
            await asyncio.wait_for(holding.held.wait(), 60)
            harness.fault()
            key = _key_of_held(harness)
            await act(harness, session, key.split(":")[0], key.split(":")[2])
            outcomes.append(await running)
        result = harness.judge(
            "Paused and changed by hand",
            f"from the CLI during a call: {', '.join(_ACTIONS)}",
            outcomes,
            began,
            Demand(faults=len(actions), successes=len(actions)),
        )
    result.require(result.extra_calls <= result.in_flight, f"{result.extra_calls} extra calls")
    return result


async def reset_by_hand(scale: Scale, random: Random, folder: Path) -> Result:  # noqa: ARG001  # nothing is random here
    """Reset completed sessions to each of their workflow tasks: nothing is paid again, the report stays the same."""
    count = {"short": 2, "full": 6, "nightly": 40}[scale]
    began = time.monotonic()
    async with open_harness(folder) as harness:
        await harness.worker()
        outcomes = await harness.sessions(1, at_once=1)
        paid = harness.provider.charges
        run, points = await _reset_points(harness, "s-0000")
        for number in range(count):
            point = points[number % len(points)]
            harness.fault()
            named = ["--workflow-id", "s-0000", "--run-id", run, "--event-id", str(point)]
            await temporal(harness, "workflow", "reset", *named, "--reason", "chaos")
            report = await asyncio.wait_for(harness.chargehand.session("s-0000").result(), 60)
            outcomes.append(Outcome("s-0000", 0, report))
        again = harness.provider.charges - paid
        result = harness.judge(
            "Reset",
            "completed session reset to workflow tasks along its history",
            outcomes,
            began,
            Demand(faults=count, successes=count + 1),
        )
    result.figures = {"model calls after": str(again)}
    result.require(again == 0, f"{again} calls were paid after the resets")
    return result


async def _reset_points(harness: Harness, session: str) -> tuple[str, list[int]]:
    history = await harness.chargehand.client.get_workflow_handle(session).fetch_history()
    tasks = [event.event_id for event in history.events if event.HasField("workflow_task_completed_event_attributes")]
    return history.run_id, tasks[1:]


def _key_of_held(harness: Harness) -> str:
    held = next(
        each
        for each in reversed(harness.provider.exchanges)
        if each.reply is not None and each.reply.delay > 1_000 and not each.hung_up
    )
    return held.request.headers["idempotency-key"]


async def _pause_activity(harness: Harness, _: str, workflow: str, step: str) -> None:
    named = ["--workflow-id", workflow, "--activity-id", step]
    await temporal(harness, "activity", "pause", *named, "--identity", "chaos")
    await asyncio.sleep(3)
    await temporal(harness, "activity", "unpause", *named, "--identity", "chaos")


async def _reset_activity(harness: Harness, _: str, workflow: str, step: str) -> None:
    # A call in progress continues until its attempt ends; killing its worker ends it.
    await temporal(harness, "activity", "reset", "--workflow-id", workflow, "--activity-id", step)
    await harness.workers[0].restart()


async def _change_options(harness: Harness, _: str, workflow: str, step: str) -> None:
    options = ["--start-to-close-timeout", "600s", "--retry-maximum-attempts", "100", "--heartbeat-timeout", "2s"]
    await temporal(harness, "activity", "update-options", "--workflow-id", workflow, "--activity-id", step, *options)
    await harness.workers[0].restart()


async def _pause_workflow(harness: Harness, session: str, workflow: str, __: str) -> None:
    for each in (session, workflow):
        await temporal(harness, "workflow", "pause", "--workflow-id", each, "--reason", "chaos")
    await harness.workers[0].restart()
    await asyncio.sleep(3)
    for each in (session, workflow):
        await temporal(harness, "workflow", "unpause", "--workflow-id", each, "--reason", "chaos")


_ACTIONS: Final[dict[str, Callable[[Harness, str, str, str], Awaitable[None]]]] = {
    "activity-pause": _pause_activity,
    "activity-reset": _reset_activity,
    "activity-update-options": _change_options,
    "workflow-pause": _pause_workflow,
}


async def temporal(harness: Harness, *arguments: str) -> Any:
    """Run the `temporal` program against the harness's server; return its JSON, if any."""
    process = await asyncio.create_subprocess_exec(
        str(find_temporal()),
        *arguments,
        "--address",
        harness.server.address,
        "--output",
        "json",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"temporal {' '.join(arguments[:2])} failed: {errors.decode()[-300:]}")
    try:
        return json.loads(output) if output.strip() else None
    except ValueError:
        return None
