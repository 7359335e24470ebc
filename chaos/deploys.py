"""Deploys while sessions are in flight: named builds, and an unnamed change that does not replay."""

import asyncio
import sys
import time
from pathlib import Path
from random import Random
from typing import Final

from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.client import Client, WorkflowHistory

from chaos import books
from chaos.harness import Harness, Outcome, brief, open_harness, script
from chaos.operators import temporal
from chaos.result import Demand, Result, Scale
from chaos.unattended import doctor
from chargehand.errors import ChargehandError
from chargehand_plugins.operations.replay import histories_of_tree
from tests.scripted_provider import Respond, ScriptedReply, ScriptedRequest
from tests.waiting import until

_DEPLOYMENT: Final = "chargehand"
_LATER: Final = (sys.executable, "-m", "chaos.later_worker")
_HELD: Final = "held"
"""Prefix of the ids of sessions whose agents' answers are held back."""
_RECOVERED_WITHIN: Final = 60.0
_PATIENCE: Final = 300.0


class _Gate:
    """A script that answers the agents of chosen sessions only after it is opened."""

    def __init__(self, respond: Respond) -> None:
        self._respond = respond
        self._waiting: set[str] = set()
        self.opened = asyncio.Event()

    async def __call__(self, request: ScriptedRequest) -> ScriptedReply:
        session = books.session_of(request)
        if request.answer == "WorkAnswer" and session.startswith(_HELD):
            self._waiting.add(session)
            await self.opened.wait()
        reply = self._respond(request)
        assert isinstance(reply, ScriptedReply)
        return reply

    async def holds(self, sessions: int) -> None:
        """Wait until one agent waits in each of this many sessions."""

        async def are_held() -> bool:
            return len(self._waiting) >= sessions

        await until(are_held, _PATIENCE)


async def deploys(scale: Scale, random: Random, folder: Path) -> Result:  # noqa: ARG001  # nothing is random here
    """Deploy v2 next to v1 and roll it back, with sessions of each in flight: some in a call, most at approval."""
    held, asked = {"short": (1, 2), "full": (7, 60), "nightly": (7, 160)}[scale]
    phases = ("v1", "v2", "v1")
    count = len(phases) * (held + asked)
    began = time.monotonic()
    running: dict[str, asyncio.Task[Outcome]] = {}
    builds: dict[str, str] = {}
    undecided: list[str] = []
    gate = _Gate(brief())
    async with open_harness(folder, gate) as harness:
        await harness.worker(CHARGEHAND_DEPLOYMENT=_DEPLOYMENT, CHARGEHAND_BUILD_ID="v1")
        await harness.worker(_LATER, CHARGEHAND_DEPLOYMENT=_DEPLOYMENT, CHARGEHAND_BUILD_ID="v2")
        for phase, build in enumerate(phases):
            await _make_current(harness, build)
            harness.fault()
            in_calls = [f"{_HELD}-{phase}-{number}" for number in range(held)]
            before_people = [f"asked-{phase}-{number}" for number in range(asked)]
            for session in (*in_calls, *before_people):
                approval = "plan" if session in before_people else "none"
                running[session] = asyncio.create_task(harness.session(session, 600, approval=approval))
                builds[session] = build
            await gate.holds((phase + 1) * held)
            for session in before_people:
                await _awaits_approval(harness, session)
            undecided += before_people
        in_flight = sum(not task.done() for task in running.values())
        gate.opened.set()
        for session in undecided:
            await harness.chargehand.session(session).approve()
        outcomes = await asyncio.gather(*running.values())
        result = harness.judge(
            "Deploy and rollback",
            f"v1, v2, then v1 again made current; {count} open sessions stay on their builds",
            outcomes,
            began,
            Demand(faults=len(phases), successes=count),
        )
        client = harness.chargehand.client
        histories = {session: await session_histories(client, session) for session in builds}
    strayed = [session for session, build in builds.items() if builds_of(histories[session]) != {build}]
    failed = [session for session in builds if _failed_tasks(histories[session])]
    result.require(in_flight == count, f"only {in_flight} of {count} sessions were in flight at the last switch")
    result.require(not strayed, f"{len(strayed)} sessions did not stay on the build that they began on: {strayed[:3]}")
    result.require(not failed, f"{len(failed)} sessions had failed workflow tasks: {failed[:3]}")
    harness.require_no_other_calls(result)
    result.figures = {"sessions begun on v1, v2, v1": ", ".join(3 * [str(held + asked)])}
    return result


async def unguarded_change(scale: Scale, random: Random, folder: Path) -> Result:  # noqa: ARG001  # nothing is random here
    """Without builds, replace the worker with one that decides differently, then with the old one."""
    count = {"short": 2, "full": 20, "nightly": 100}[scale]
    began = time.monotonic()
    gate = _Gate(script())
    async with open_harness(folder, gate) as harness:
        old = await harness.worker()
        running = [asyncio.create_task(harness.session(f"{_HELD}-{number}", 300)) for number in range(count)]
        await gate.holds(count)
        harness.fault()
        await old.kill()
        changed = await harness.worker(_LATER)
        client = harness.chargehand.client

        async def all_parked() -> bool:
            return all([_failed_tasks(await session_histories(client, f"{_HELD}-{number}")) for number in range(count)])

        await until(all_parked, _PATIENCE)
        code, said = await doctor(harness)
        await changed.kill()
        back_at = time.monotonic()
        gate.opened.set()
        await old.start()
        outcomes = await asyncio.gather(*running)
        recovered = time.monotonic() - back_at
        result = harness.judge(
            "Change that does not replay",
            f"a worker with other decisions blocks {count} sessions; then the old one returns",
            outcomes,
            began,
            Demand(faults=1, successes=count),
        )
        causes = {cause for each in outcomes for cause in _failed_tasks(await session_histories(client, each.session))}
    unreplayable = WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_NON_DETERMINISTIC_ERROR
    result.require(causes == {unreplayable}, f"workflow tasks failed for other causes too: {causes}")
    # In the server's words once it has counted enough failures, or else by the task's current attempt.
    is_named = "does not get on" in said or "is stuck: its workflow task" in said
    result.require(code != 0 and is_named, f"doctor says (exit {code}): {said[-300:]}")
    result.require(recovered <= _RECOVERED_WITHIN, f"all went on only after {recovered:.0f} s")
    result.figures = {"all done after, s": f"{recovered:.1f}"}
    harness.require_no_other_calls(result)
    return result


async def _make_current(harness: Harness, build: str) -> None:
    """Start new sessions on a build, as an operator would."""
    named = ["--deployment-name", _DEPLOYMENT, "--build-id", build, "--yes"]

    async def is_current() -> bool:
        try:
            await temporal(harness, "worker", "deployment", "set-current-version", *named)
        except RuntimeError:
            return False  # the server does not know the build yet
        return True

    await until(is_current, 60)


async def _awaits_approval(harness: Harness, session: str) -> None:
    async def awaits() -> bool:
        try:
            return (await harness.chargehand.session(session).status()).state == "awaiting_approval"
        except ChargehandError:
            return False  # not begun yet

    await until(awaits, _PATIENCE)


async def session_histories(client: Client, session: str) -> list[WorkflowHistory]:
    """Fetch the histories of a session and all its descendants."""
    return [history async for history in histories_of_tree(client, session)]


def builds_of(histories: list[WorkflowHistory]) -> set[str]:
    """Return the builds that workflows ran on; empty for none."""
    return {
        event.workflow_task_completed_event_attributes.deployment_version.build_id
        for history in histories
        for event in history.events
        if event.HasField("workflow_task_completed_event_attributes")
    }


def _failed_tasks(histories: list[WorkflowHistory]) -> list[WorkflowTaskFailedCause.ValueType]:
    return [
        event.workflow_task_failed_event_attributes.cause
        for history in histories
        for event in history.events
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
    ]
