"""A project of one's own: made by `init`, tested, and served by `worker`."""

import asyncio
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest
import yaml
from temporalio.client import Client

from chargehand import Chargehand, SessionRequest
from chargehand_cli.terminal import Exit
from tests.acceptance.commands import Commands, command_environment, run_command


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("projects") / "stock-desk"
    made = run_command(["init", folder], command_environment())

    assert made.code == Exit.DONE, made.said
    return folder


def test_a_new_project_is_whole(project: Path) -> None:
    """Everything has its name, its own tests pass, and its image has what the compose files ask for."""
    tests = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:hypothesispytest"],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )

    files = {str(file.relative_to(project)): file for file in project.rglob("*") if file.suffix != ".pyc"}
    texts = [file.read_text(encoding="utf-8") for file in files.values() if file.is_file()]
    added = yaml.safe_load(files["docker-compose.override.yml"].read_text(encoding="utf-8"))["services"]
    base = yaml.safe_load(files["docker-compose.yml"].read_text(encoding="utf-8"))["services"]
    image = files["Dockerfile"].read_text(encoding="utf-8")
    assert tests.returncode == 0, tests.stdout
    assert [
        text for text in texts if "my-crew" in text or "my_crew" in text or "0.0.0" in text.replace("0.0.0.0", "")
    ] == []
    assert {*added} == {"worker"} <= {*base}
    assert added["worker"]["environment"] == {"CHARGEHAND_CREWS": "/app/crews", "CHARGEHAND_TOOLS": "stock_desk_tools"}
    assert "WORKDIR /app\n" in image
    assert "COPY stock_desk_tools.py" in image
    mounted = {each.partition(":")[0] for each in base["temporal"]["volumes"]}
    assert all((project / each).is_dir() for each in mounted if each.startswith("./"))


def test_a_name_that_cannot_be_a_crews_or_is_taken_is_refused(project: Path) -> None:
    """Nothing is overwritten."""
    taken = run_command(["init", project], command_environment())
    wrong = run_command(["init", project.parent / "Stock Desk"], command_environment())

    assert (taken.code, wrong.code) == (Exit.BAD_INPUT, Exit.BAD_INPUT)
    assert "File exists" in taken.said
    assert "small letters" in wrong.said


async def test_a_worker_serves_the_crew_and_its_tool(
    client: Client, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`chargehand worker` is the worker program itself, on the server that is named; the crew needs the tool."""
    monkeypatch.chdir(project)
    queue = f"project-{uuid4().hex[:8]}"
    command = Commands(client, "--task-queue", queue, "--state-dir", tmp_path / "state")
    running = await command.begin("worker", "--crews", "crews", "--tools", "stock_desk_tools")
    try:
        session = await Chargehand(client, queue).start(SessionRequest(goal="What is there?", crew="stock-desk"))
        report = await asyncio.wait_for(session.result(), 60)
    finally:
        running.terminate()
        _, said = await running.communicate()

    assert {each.agent for each in report.subtasks} <= {"clerk", "reader"}
    assert running.returncode == 0, said.decode()


def test_a_worker_without_its_crews_is_refused(tmp_path: Path) -> None:
    """A folder that is not there is named before anything starts."""
    refused = run_command(["worker", "--crews", tmp_path / "nowhere"], command_environment())

    assert refused.code == Exit.BAD_INPUT
    assert "--crews: there is no folder" in refused.said
