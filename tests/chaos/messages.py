"""Messages that make no sense, work that nobody knows, and queues where nobody is."""

import asyncio
import json
import os
import statistics
import sys
import time
from pathlib import Path
from random import Random
from typing import Any, Final
from uuid import uuid4

from temporalio.api.common.v1 import Payload, Payloads, WorkflowExecution
from temporalio.api.query.v1 import WorkflowQuery
from temporalio.api.workflowservice.v1 import QueryWorkflowRequest, SignalWorkflowExecutionRequest
from temporalio.client import WorkflowUpdateFailedError
from temporalio.common import RawValue
from temporalio.service import RPCError

from chargehand.wire import QueryName, SignalName, UpdateName
from tests.chaos.ground import ROOT, Ground, Outcome, open_ground, script
from tests.chaos.kills import Holding
from tests.chaos.operators import temporal
from tests.chaos.result import Demand, Result, Scale

_NAMED_WITHIN: Final = 30.0
_REPORTED_WITHIN: Final = 120.0


async def senseless_messages(scale: Scale, random: Random, folder: Path) -> Result:
    """Send a session signals, updates and queries with random contents while it works."""
    count = {"short": 60, "full": 600, "nightly": 10_000}[scale]
    began = time.monotonic()
    outcomes: list[Outcome] = []
    waits: list[float] = []
    rounds = -(-count // 300)
    sent = [_message(random) for _ in range(count)]
    (folder / "messages.json").write_text(json.dumps([_told(message) for message in sent], indent=1))
    async with open_ground(folder) as ground:
        await ground.worker()
        for number in range(rounds):
            session = f"fuzz-{number}"
            ground.provider.respond = script(0.5)
            holding = Holding("part 1 of", script(0.1))
            ground.provider.respond = holding
            running = asyncio.create_task(ground.session(session, 120))
            await asyncio.wait_for(holding.held.wait(), 60)
            for message in sent[number::rounds]:
                await _send(ground, session, message)
                ground.faults += 1
                if ground.faults % 10 == 0:
                    asked_at = time.monotonic()
                    await ground.chargehand.session(session).status()
                    waits.append(time.monotonic() - asked_at)
            # The call that is held ends with its worker.
            await ground.workers[0].restart()
            outcomes.append(await running)
        result = ground.judge(
            "F24 senseless messages",
            "signals, updates and queries, known and unknown, with random contents, to sessions in a call",
            outcomes,
            began,
            Demand(faults=count, successes=rounds),
        )
    slow = sum(wait > 1 for wait in waits)
    result.figures = {"status query under fire, s": f"median {statistics.median(waits):.3f}, worst {max(waits):.2f}"}
    result.require(slow <= len(waits) // 100, f"{slow} of {len(waits)} status queries took more than a second")
    result.require(result.extra_calls <= rounds, f"{result.extra_calls} extra calls")
    return result


Message = tuple[str, str, bytes, str]
"""Kind, name, contents and their encoding."""

_NAMES: Final = {
    "signal": [SignalName.ASK_LEASE, SignalName.GRANT_LEASE, "nobody_knows_this", "__temporal_x"],
    # Not `finish_now`, which makes sense whatever comes with it.
    "update": [UpdateName.DECIDE_PLAN, UpdateName.RAISE_LIMITS, UpdateName.ANSWER, "nobody_knows_this"],
    "query": [QueryName.STATUS, QueryName.PLAN, "nobody_knows_this", "__stack_trace"],
}
_CONTENTS: Final = (
    b"",
    b"null",
    b"{}",
    b"[]",
    b'{"max_turns": -1}',
    b'{"budget_usd": 1e999}',
    b'{"budget_usd": NaN}',
    b'{"decision": "approve"}',
    b'{"subtask": "T9", "text": ""}',
    b'{"workflow_id": 7, "amount": "all"}',
    b'"' + b"x" * 20_000 + b'"',
    b"[" * 5_000,
    b"\xff\xfe\x00",
    b'{"a": 1, "a": 2}',
)
_ENCODINGS: Final = ("json/plain", "binary/null", "binary/plain", "json/protobuf", "nobody/knows")


def _message(random: Random) -> Message:
    kind = random.choice(sorted(_NAMES))
    contents = random.choice([*_CONTENTS, random.randbytes(random.randrange(200))])
    return kind, str(random.choice(_NAMES[kind])), contents, random.choice(_ENCODINGS)


def _told(message: Message) -> dict[str, str]:
    kind, name, contents, encoding = message
    return {"kind": kind, "name": name, "contents": contents.hex(), "encoding": encoding}


async def _send(ground: Ground, session: str, message: Message) -> None:
    kind, name, contents, encoding = message
    payload = Payload(metadata={"encoding": encoding.encode()}, data=contents)
    client = ground.chargehand.client
    execution = WorkflowExecution(workflow_id=session)
    try:
        async with asyncio.timeout(10):
            match kind:
                case "signal":
                    await client.workflow_service.signal_workflow_execution(
                        SignalWorkflowExecutionRequest(
                            namespace="default",
                            workflow_execution=execution,
                            signal_name=name,
                            input=Payloads(payloads=[payload]),
                            request_id=str(uuid4()),
                        )
                    )
                case "query":
                    await client.workflow_service.query_workflow(
                        QueryWorkflowRequest(
                            namespace="default",
                            execution=execution,
                            query=WorkflowQuery(query_type=name, query_args=Payloads(payloads=[payload])),
                        )
                    )
                case _:
                    handle = client.get_workflow_handle(session)
                    await handle.execute_update(name, RawValue(payload))  # pyright: ignore[reportUnknownMemberType]  # the SDK's overloads
    except (RPCError, WorkflowUpdateFailedError, TimeoutError):
        pass  # refused, as it should be; a session that does not answer any more shows in its status


async def nobody_knows(scale: Scale, random: Random, folder: Path) -> Result:  # noqa: ARG001  # nothing is random here
    """Start workflows of a type that no worker knows among ordinary sessions, and ask `doctor` about them."""
    poison, count = {"short": (1, 10), "full": (3, 100), "nightly": (10, 300)}[scale]
    began = time.monotonic()
    async with open_ground(folder) as ground:
        await ground.worker()
        calm = await ground.sessions(count // 2, at_once=4, prefix="calm")
        poisoned_at = time.monotonic()
        for number in range(poison):
            started = ["workflow", "start", "--type", "Supervisr", "--task-queue", "chaos", "--input", "{}"]
            await temporal(ground, *started, "--workflow-id", f"poison-{number}")
            ground.fault()
        looking = asyncio.create_task(_until_named(ground, "poison-0", poisoned_at))
        reporting = asyncio.create_task(_until_reported(ground, poison, poisoned_at))
        outcomes = await ground.sessions(count, at_once=4, prefix="beside")
        named, said = await looking
        reported = await reporting
        result = ground.judge(
            "F38 F39 unknown types among ordinary sessions",
            f"{poison} workflows of a type that nobody knows among {count} sessions",
            [*calm, *outcomes],
            began,
            Demand(faults=poison, successes=len(calm) + count),
        )
    before, beside = (statistics.median(each.seconds for each in some) for some in (calm, outcomes))
    result.figures = {
        "median session without and beside them, s": f"{before:.2f}, {beside:.2f}",
        "named by `chargehand doctor` after, s": "not" if named is None else f"{named:.0f}",
        "`TemporalReportedProblems` set after, s": "not" if reported is None else f"{reported:.0f}",
    }
    result.require(named is not None and named <= _NAMED_WITHIN, "doctor did not name them in time")
    (folder / "doctor.txt").write_text(said)
    # Twice, since other programs of the machine come and go between the two halves.
    result.require(beside <= 2 * before, f"sessions beside them took {beside:.2f} s instead of {before:.2f} s")
    return result


async def nobody_there(scale: Scale, random: Random, folder: Path) -> Result:  # noqa: ARG001  # nothing is random here
    """Start a session on a queue without a worker; `doctor` says so, and it goes on when one comes."""
    count = {"short": 1, "full": 5, "nightly": 20}[scale]
    began = time.monotonic()
    async with open_ground(folder) as ground:
        running = asyncio.create_task(ground.sessions(count, at_once=count))
        ground.fault()
        told = time.monotonic()
        code, said = await doctor(ground)
        told = time.monotonic() - told
        await ground.worker()
        outcomes = await running
        result = ground.judge(
            "F40 no worker at all",
            "sessions started before there was any worker",
            outcomes,
            began,
            Demand(faults=1, successes=count),
        )
    result.figures = {"`chargehand doctor` said so after, s": f"{told:.1f}"}
    result.require(code != 0 and "No worker polls" in said, f"doctor says (exit {code}): {said[-300:]}")
    result.require(told <= _NAMED_WITHIN, f"doctor took {told:.0f} s")
    return result


async def _until_named(ground: Ground, workflow: str, since: float) -> tuple[float | None, str]:
    said = ""
    while time.monotonic() - since < 2 * _NAMED_WITHIN:
        _, said = await doctor(ground)
        if any(workflow in line and line.startswith("✘") for line in said.splitlines()):
            return time.monotonic() - since, said
        await asyncio.sleep(1)
    return None, said


async def _until_reported(ground: Ground, count: int, since: float) -> float | None:
    query = "TemporalReportedProblems IS NOT NULL"
    while time.monotonic() - since < _REPORTED_WITHIN:
        if (await ground.chargehand.client.count_workflows(query)).count >= count:
            return time.monotonic() - since
        await asyncio.sleep(1)
    return None


async def doctor(ground: Ground) -> tuple[int, str]:
    """Run `chargehand doctor` as a user would, against the ground's server."""
    kept: dict[str, Any] = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).parent / "chargehand"),
        "doctor",
        "--address",
        ground.server.address,
        "--task-queue",
        ground.chargehand.task_queue,
        cwd=ROOT,
        env=kept,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode(errors="replace")
