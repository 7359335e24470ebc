"""The TypeScript example, built by `npm`, against workers that encrypt: it steers a session to its report."""

import asyncio
import base64
import json
import os
import shutil
from pathlib import Path

import pytest
from temporalio.client import Client

from chargehand.converter import data_converter
from chargehand.payloads.encryption import Encryption
from tests.environment import open_environment
from tests.scripted_model import Script, answer, report, topics, use

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "typescript"
KEY = bytes(range(32))
QUESTION = answer("", status="ambiguous_input").model_copy(update={"message": "Which year?"})
MEANT = "The latest one that the documents name."

pytestmark = pytest.mark.typescript


@pytest.fixture(scope="module", autouse=True)
def _built() -> None:
    if not shutil.which("node") or not (EXAMPLE / "dist" / "example.mjs").is_file():
        pytest.skip("the example is not built: `npm ci && npm run build` in examples/typescript")


async def test_the_example_runs_a_session_from_its_plan_to_its_report(client: Client, tmp_path: Path) -> None:
    """It edits the plan, answers a question, raises the limit at which the session pauses, and prints the report."""
    script = (
        Script()
        .plan(*topics(3))
        .work("", *(use("search_documents", about=number) for number in range(3)), answer("Known."))
        .work("T2", QUESTION)
        .work(MEANT, use("search_documents"), answer("Known for the latest year."))
        .synthesis(report("All of it."))
    )
    encrypted = Client(
        client.service_client,
        namespace=client.namespace,
        data_converter=data_converter(Encryption({"2026-11": KEY}, "2026-11")),
    )
    async with open_environment(encrypted, tmp_path, script) as opened:
        running = await asyncio.create_subprocess_exec(
            *("node", str(EXAMPLE / "dist" / "example.mjs"), "What is known?", "typescript-1"),
            env={
                "PATH": os.environ["PATH"],
                "TEMPORAL_ADDRESS": client.service_client.config.target_host,
                "CHARGEHAND_TASK_QUEUE": opened.chargehand.task_queue,
                "CHARGEHAND_ENCRYPTION_KEYS": json.dumps({"2026-11": base64.b64encode(KEY).decode()}),
                "CHARGEHAND_ENCRYPTION_KEY_ID": "2026-11",
            },
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, said = await asyncio.wait_for(running.communicate(), 60)
        assert running.returncode == 0, said.decode()
        session = opened.chargehand.session("typescript-1")
        status, written = await session.status(), await session.result()

    assert out.decode().startswith(f"{written.answer}\n")
    assert status.plan is not None
    assert status.plan.final_instruction == "Three sentences at most."
    assert [record.state for record in written.subtasks] == ["success"] * 3
    assert {"awaiting_approval", "paused", "finished"} <= {line.split(":")[0] for line in said.decode().splitlines()}
