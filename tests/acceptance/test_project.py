"""A user's project: created by `init`, changed as in the tutorial, tested, and served by `worker`."""

import json
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import yaml

from activities.crews.files import load_crews
from chargehand import SessionRequest
from chargehand_cli.terminal import Exit
from tests.acceptance.commands import command_environment, run_command

TUTORIAL = Path(__file__).resolve().parents[2] / "docs" / "tutorial" / "first-project.md"


def made(folder: Path) -> Path:
    result = run_command(["init", folder], command_environment())

    assert result.code == Exit.DONE, result.said
    return folder


def tutorial(language: str) -> list[str]:
    """List the tutorial's blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", TUTORIAL.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def append(file: Path, text: str) -> None:
    with file.open("a", encoding="utf-8") as writing:
        writing.write(text)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tutorial's project with its second tool."""
    folder = made(tmp_path_factory.mktemp("projects") / "my-crew")
    tool, test, _ = tutorial("python")
    append(folder / "my_crew_tools.py", tool)
    append(folder / "test_my_crew.py", test)
    crew = folder / "crews" / "my-crew.toml"
    text = crew.read_text("utf-8").replace('tools = ["stock_level", "reserve"]\n', tutorial("toml")[0])
    crew.write_text(text, encoding="utf-8")
    return folder


def test_new_project_contains_no_template_name(tmp_path: Path) -> None:
    """The Dockerfile and the mounted folders match what the compose files refer to."""
    project = made(tmp_path / "stock-desk")

    files = {str(file.relative_to(project)): file.read_text("utf-8") for file in project.rglob("*") if file.is_file()}
    added = yaml.safe_load(files["docker-compose.override.yml"])["services"]
    base = yaml.safe_load(files["docker-compose.yml"])["services"]
    assert [name for name, text in files.items() if re.search(r"my.crew|(?<![.\d])0\.0\.0(?![.\d])", name + text)] == []
    own = {"CHARGEHAND_CREWS": "/app/crews", "CHARGEHAND_PLUGINS": "stock_desk_tools"}
    assert added["worker"]["environment"] == own
    assert {"WORKDIR /app", "COPY crews crews", "COPY *.py ./"} <= {*files["Dockerfile"].splitlines()}
    mounted = {each.partition(":")[0] for service in base.values() for each in service.get("volumes", [])}
    assert all((project / each).is_dir() for each in mounted if each.startswith("./"))


def test_init_refuses_invalid_or_existing_project_names(project: Path) -> None:
    """Both exit with code 2."""
    taken = run_command(["init", project], command_environment())
    wrong = run_command(["init", project.parent / "Stock Desk"], command_environment())

    assert (taken.code, wrong.code) == (Exit.BAD_INPUT, Exit.BAD_INPUT)
    assert "exists already; choose another name" in taken.said
    assert "small letters" in wrong.said


def test_generated_project_tests_pass(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The template's and the tutorial's tests run with the crew as the tutorial changes it."""
    monkeypatch.syspath_prepend(str(project))  # pyright: ignore[reportUnknownMemberType]  # pytest's
    tests = vars(import_module("test_my_crew"))

    ran = [name for name, test in tests.items() if name.startswith("test_") and test() is None]

    assert len(ran) == 3


def test_worker_command_passes_its_options_as_environment(project: Path, tmp_path: Path) -> None:
    """`chargehand worker` replaces itself with the worker program; the options become its settings."""
    program = tmp_path / "worker.py"
    program.write_text("import json, os; print(json.dumps([os.getpid(), dict(os.environ)]))", encoding="utf-8")
    options = ("--address", "temporal:7233", "--crews", "crews", "--plugin", "my_crew_tools", "--plugin", "others")
    options += ("--processes", "3")

    with subprocess.Popen(
        [sys.executable, "-m", "chargehand_cli.main", "worker", *options],
        cwd=project,
        env=command_environment(CHARGEHAND_WORKER=f"{sys.executable} {program}"),
        stdout=subprocess.PIPE,
    ) as running:
        out, _ = running.communicate(timeout=60)

    pid, environment = json.loads(out)
    assert pid == running.pid
    names = ("CHARGEHAND_CREWS", "CHARGEHAND_PLUGINS", "CHARGEHAND_PROCESSES", "TEMPORAL_ADDRESS")
    own = [str(project / "crews"), "my_crew_tools,others", "3", "temporal:7233"]
    assert [environment[name] for name in names] == own


def test_tutorial_mcp_server_makes_a_valid_crew(project: Path, tmp_path: Path) -> None:
    """The crew loads with the tables that the tutorial appends."""
    file = tmp_path / "my-crew.toml"
    shutil.copyfile(project / "crews" / "my-crew.toml", file)
    append(file, tutorial("toml")[1])
    names = ("stock_level", "reserve", "delivery_days", "search_documents", "read_document", "orders_order_status")

    crew = load_crews([tmp_path], {name: ["reads_private"] for name in names})["my-crew"]

    assert [agent.name for agent in crew.agents] == ["clerk", "reader", "dispatcher"]
    assert [server.name for server in crew.mcp] == ["orders"]


def test_worker_with_a_missing_crews_folder_is_refused(tmp_path: Path) -> None:
    """The missing folder is reported before anything starts."""
    refused = run_command(["worker", "--crews", tmp_path / "nowhere"], command_environment())

    assert refused.code == Exit.BAD_INPUT
    assert "--crews: there is no folder" in refused.said


def test_tutorial_output_schema_is_accepted() -> None:
    """A session request accepts the JSON schema that the tutorial shows."""
    (schema,) = tutorial("json")

    assert SessionRequest(goal="How many?", output_schema=json.loads(schema)).output_schema
