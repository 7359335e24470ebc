"""Nonsensical messages to running sessions."""

import asyncio
import json
import statistics
import time
from pathlib import Path
from random import Random
from typing import Final
from uuid import uuid4

from temporalio.api.common.v1 import Payload, Payloads, WorkflowExecution
from temporalio.api.query.v1 import WorkflowQuery
from temporalio.api.workflowservice.v1 import QueryWorkflowRequest, SignalWorkflowExecutionRequest
from temporalio.client import WorkflowUpdateFailedError
from temporalio.common import RawValue
from temporalio.service import RPCError

from chaos.harness import Harness, Outcome, open_harness, script
from chaos.kills import Holding
from chaos.result import Demand, Result, Scale
from chargehand.messages import UPDATES
from chargehand.wire import SignalName


async def senseless_messages(scale: Scale, random: Random, folder: Path) -> Result:
    """Send a session signals, updates and queries with random contents while it works."""
    count = {"short": 60, "full": 1_000, "nightly": 10_000}[scale]
    began = time.monotonic()
    outcomes: list[Outcome] = []
    waits: list[float] = []
    rounds = -(-count // 300)
    sent = [_message(random) for _ in range(count)]
    (folder / "messages.json").write_text(json.dumps([_told(message) for message in sent], indent=1))
    async with open_harness(folder) as harness:
        await harness.worker()
        for number in range(rounds):
            session = f"fuzz-{number}"
            harness.provider.respond = script(0.5)
            holding = Holding("part 1 of", script(0.1))
            harness.provider.respond = holding
            running = asyncio.create_task(harness.session(session, 120))
            await asyncio.wait_for(holding.held.wait(), 60)
            for message in sent[number::rounds]:
                await _send(harness, session, message)
                harness.faults += 1
                if harness.faults % 10 == 0:
                    asked_at = time.monotonic()
                    await harness.chargehand.session(session).status()
                    waits.append(time.monotonic() - asked_at)
            # The held call ends with its worker.
            await harness.workers[0].restart()
            outcomes.append(await running)
        result = harness.judge(
            "Senseless messages",
            "known and unknown signals, updates and queries with random contents during a call",
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
"""Kind, name, contents and encoding."""

_NAMES: Final = {
    "signal": [SignalName.MAILBOX, "nobody_knows_this", "__temporal_x"],
    # Except those that are valid with any contents.
    "update": [
        *(name for name, row in UPDATES.items() if row.takes and name != "interrupt"),
        "nobody_knows_this",
    ],
    "query": ["status", "plan", "nobody_knows_this", "__stack_trace"],
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


async def _send(harness: Harness, session: str, message: Message) -> None:
    kind, name, contents, encoding = message
    payload = Payload(metadata={"encoding": encoding.encode()}, data=contents)
    client = harness.chargehand.client
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
        pass  # refused, as it should be; a session that no longer answers shows in its status
