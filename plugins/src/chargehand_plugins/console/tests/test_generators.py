"""Test and client generators applied to the OpenAPI document of the HTTP API."""

import asyncio
import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Final

import pytest

from chargehand_plugins.console.api import OPERATIONS, PREFIX
from chargehand_plugins.console.openapi import openapi_document
from chargehand_plugins.console.tests.conftest import TOKEN, open_console
from tests.conftest import local_server
from tests.scripted_model import Script, answer, subtask

BIN: Final = Path(sys.executable).parent
CHECKS: Final = "chargehand_plugins.console.tests.schemathesis_checks"
DOCUMENT: Final = openapi_document(OPERATIONS, PREFIX, "http://127.0.0.1:8234")
SCRIPT: Final = Script().plan(subtask("T1")).work("", answer("It is known."))
CONFIG: Final = """
# Own checks say which refusals are rules; this one knows none.
[checks.positive_data_acceptance]
enabled = false
"""
BODIES_ONCE: Final = """
[phases.coverage]
unexpected-methods = ["PUT"]
[[operations]]
include-operation-id = ["startSession", "openConversation"]
phases.coverage.enabled = false
[[operations]]
include-operation-id = ["decidePlan", "conversationDecideCall", "conversationRaiseLimits"]
phases.coverage.enabled = false
"""
"""Excludes starts, since each accepted one runs a session to its end and has many field values to try. Plan subtasks
are covered as plan edits; decisions about calls and limits, by the operations of sessions."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("settings", "drawn"),
    [
        pytest.param(CONFIG + BODIES_ONCE, "1", marks=pytest.mark.slow, id="every body once"),
        pytest.param(CONFIG, "2", marks=pytest.mark.nightly, id="every operation"),
    ],
)
async def test_schemathesis_finds_no_api_violation(tmp_path: Path, settings: str, drawn: str) -> None:
    """In every phase, documented input is accepted, all else is refused, and each response is as documented."""
    config = tmp_path / "schemathesis.toml"
    config.write_text(settings)
    often = 10**6
    # A separate server: the same keys are tried in each run, and would name sessions of an earlier one.
    async with (
        local_server() as client,
        open_console(client, tmp_path, SCRIPT, requests_per_minute=often, starts_per_minute=often) as console,
    ):
        running = await asyncio.create_subprocess_exec(
            *(BIN / "schemathesis", "--config-file", config, "run", f"{console.running.url}{PREFIX}/openapi.json"),
            *("--header", f"Authorization: Bearer {TOKEN}", "--phases", "examples,coverage,fuzzing,stateful"),
            *("--max-examples", drawn, "--generation-deterministic", "--request-timeout", "10"),
            *("--continue-on-failure", "--no-color"),
            env={**os.environ, "SCHEMATHESIS_HOOKS": CHECKS, "NO_PROXY": "*"},
            stdout=asyncio.subprocess.PIPE,
            cwd=tmp_path,
        )
        said, _ = await running.communicate()

    assert running.returncode == 0, said.decode()[-20_000:]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a client that openapi-python-client generated without reporting an omission."""
    folder = tmp_path_factory.mktemp("client")
    (folder / "openapi.json").write_text(json.dumps(DOCUMENT))
    command = [BIN / "openapi-python-client", "generate", "--path", "openapi.json", "--output-path", "out"]
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    generated = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, env=environment)
    assert "arning" not in generated.stdout + generated.stderr
    return folder / "out" / "chargehand_client"


@pytest.mark.slow
def test_openapi_python_client_generates_a_complete_client(client: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It skips no operation, and the generated code imports and has no type error."""
    monkeypatch.syspath_prepend(str(client.parent))  # pyright: ignore[reportUnknownMemberType]  # pytest's
    package = import_module(client.name)
    modules = [import_module(each.name) for each in walk_packages(package.__path__, f"{client.name}.")]
    calls = [each for each in modules if hasattr(each, "asyncio_detailed")]
    models = vars(import_module(f"{client.name}.models"))

    settings = client.parent / "pyrightconfig.json"
    settings.write_text(f'{{"include": ["{client.name}"], "typeCheckingMode": "standard"}}')
    command = [BIN / "basedpyright", "--project", settings, "--pythonpath", sys.executable]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)

    assert len(calls) == len(OPERATIONS)
    assert {"Status", "Plan", "Subtask", "Report"} <= models.keys()
    assert checked.returncode == 0, checked.stdout
