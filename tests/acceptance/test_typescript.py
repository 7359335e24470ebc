"""Chargehand from TypeScript: an example that steers an encrypted session, and generators of clients."""

import asyncio
import base64
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
from temporalio.client import Client

from chargehand.converter import data_converter
from chargehand.payloads.encryption import Encryption
from chargehand_plugins.console.api import OPERATIONS, PREFIX
from chargehand_plugins.console.openapi import openapi_document
from tests.environment import open_environment
from tests.scripted_model import Script, answer, report, topics, use
from tests.unit.contracts.schema_files import schemas

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "typescript"
GENERATORS: Final = Path(__file__).parent / "generators"
KEY = bytes(range(32))
QUESTION = answer("", status="ambiguous_input").model_copy(update={"message": "Which year?"})
MEANT = "The latest one that the documents name."

pytestmark = pytest.mark.typescript


@pytest.fixture(scope="module")
def built() -> None:
    """Skip where the example has not been built."""
    if not shutil.which("node") or not (EXAMPLE / "dist" / "example.mjs").is_file():
        pytest.skip("the example is not built: `npm ci && npm run build` in examples/typescript")


@pytest.mark.usefixtures("built")
async def test_the_example_runs_a_session_from_its_plan_to_its_report(client: Client, tmp_path: Path) -> None:
    """It edits the plan, answers a question, raises the limit that paused the session, and prints the report."""
    searches = [use("search_documents", about=number) for number in range(3)]
    script = Script().plan(*topics(3)).work("", *searches, answer("Known.")).work("T2", QUESTION)
    script = script.work(MEANT, use("search_documents"), answer("Known for the latest year."))
    script = script.synthesis(report("All of it."))
    converter = data_converter(Encryption({"2026-11": KEY}, "2026-11"))
    encrypted = Client(client.service_client, namespace=client.namespace, data_converter=converter)
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
        out, said = await running.communicate()
        assert running.returncode == 0, said.decode()
        session = opened.chargehand.session("typescript-1")
        status, written = await session.status(), await session.result()

    assert out.decode().startswith(f"{written.answer}\n")
    assert status.plan is not None
    assert status.plan.final_instruction == "Three sentences at most."
    assert [record.state for record in written.subtasks] == ["success"] * 3
    assert {"awaiting_approval", "paused", "finished"} <= {line.split(":")[0] for line in said.decode().splitlines()}


def run(*command: str | Path) -> str:
    """Run a program of the generators, which `npm ci` installs, and return all its output."""
    ran = subprocess.run(command, cwd=GENERATORS, capture_output=True, text=True, timeout=120, check=False)

    said = ran.stdout + ran.stderr
    assert ran.returncode == 0, said
    return said


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return openapi_document(OPERATIONS, PREFIX, "http://127.0.0.1:8234")


@pytest.mark.skipif(not (GENERATORS / "node_modules").is_dir(), reason="`npm ci` in tests/acceptance/generators")
class TestGenerators:
    def test_generated_types_are_complete_and_type_check(self, document: dict[str, Any], tmp_path: Path) -> None:
        """openapi-typescript warns of nothing and omits nothing, and its output passes `tsc --strict`."""
        programs = GENERATORS / "node_modules" / ".bin"
        file, module = tmp_path / "openapi.json", tmp_path / "api.ts"
        file.write_text(json.dumps(document))
        said = run(programs / "openapi-typescript", file, "--output", module)
        run(programs / "tsc", "--strict", "--noEmit", module)
        written = module.read_text()
        components = document["components"]["schemas"]
        operations = [f'operations["{each.name}"]' for each in OPERATIONS]

        assert "warn" not in said.lower()
        assert [each for each in operations if each not in written] == []
        assert [name for name in components if f"        {name}: unknown;" in written] == ["JsonValue"]
        assert [name for name in components if f"        {name}: " not in written] == []

    def test_schemas_compile_in_strict_mode(self, document: dict[str, Any], tmp_path: Path) -> None:
        """Ajv knows every keyword in the schemas of messages and of HTTP components."""
        of_http = {name: {"$ref": f"#/components/schemas/{name}"} for name in document["components"]["schemas"]}
        components = {"components": document["components"]}
        file = tmp_path / "schemas.json"
        file.write_text(
            json.dumps(schemas() | {f"HTTP {name}": {**each, **components} for name, each in of_http.items()})
        )

        run("node", "compile_schemas.mjs", file)
