"""Where a command works: which server, worker and directories; and what is loaded before it is needed."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from chargehand import NotReachable, Report, Trace
from chargehand_cli.embedded.state import WorkerCommand
from chargehand_cli.location import Location, LocationOptions, NoWorkerProgram, find_location
from chargehand_cli.session_files import SessionFiles, keep, kept_report, program
from tests.unit.cli.reports import report, trace

_FILE = "worker_main.py"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / _FILE).touch()
    return folder


def locate(
    home: Path,
    project: Path | None = None,
    environment: Mapping[str, str] | None = None,
    *,
    has_package: bool = False,
    here: Path | None = None,
    **options: Any,
) -> Location:
    """Find the location of a command, without a checkout unless one is named."""
    where = {"here": here or home, "project": project or home}
    return find_location(LocationOptions(**options), environment or {}, home, **where, has_package=has_package)


def test_a_project_runs_an_embedded_server(project: Path, tmp_path: Path) -> None:
    location = locate(tmp_path, project)

    state = project / ".chargehand"
    assert location.is_embedded
    assert (location.state, location.artifacts, location.task_queue) == (state, str(state / "artifacts"), "chargehand")
    assert location.temporal == Path(sys.executable).parent / "temporal"
    settings = {
        "CHARGEHAND_STATE_DIR": str(state),
        "CHARGEHAND_ARTIFACTS": str(state / "artifacts"),
        "CHARGEHAND_TASK_QUEUE": "chargehand",
        "CHARGEHAND_STORAGE": str(state / "payloads"),
    }
    assert location.worker == WorkerCommand((sys.executable, str(project / _FILE)), tmp_path, settings)


def test_the_worker_setting_is_split_like_a_shell_command(project: Path, tmp_path: Path) -> None:
    """`CHARGEHAND_WORKER` names another program; without it the worker's package is run, never a file of the folder."""
    environment = {"CHARGEHAND_WORKER": "python '/other place/worker_main.py' --fast"}
    located = [
        locate(tmp_path, project, environment),
        locate(tmp_path, None, environment),
        locate(tmp_path, has_package=True),
    ]

    named = ("python", "/other place/worker_main.py", "--fast")
    package = (sys.executable, "-P", "-m", "chargehand_worker")
    assert [each.worker.command for each in located if each.worker] == [named, named, package]
    with pytest.raises(NotReachable, match="CHARGEHAND_WORKER is not a command line"):
        locate(tmp_path, project, {"CHARGEHAND_WORKER": "'"})


def test_options_take_precedence_over_the_environment(project: Path, tmp_path: Path) -> None:
    """Environment variables override the defaults."""
    environment = {f"CHARGEHAND_{name}": f"/set/{name}" for name in ("STATE_DIR", "ARTIFACTS", "TASK_QUEUE")}
    typed: dict[str, Any] = {"state": Path("/typed/state"), "artifacts": "s3://typed/artifacts", "task_queue": "typed"}
    found = [locate(tmp_path, project, environment, **options) for options in ({}, typed)]

    assert [(each.state, each.artifacts, each.task_queue) for each in found] == [
        (Path("/set/STATE_DIR"), "/set/ARTIFACTS", "/set/TASK_QUEUE"),
        (Path("/typed/state"), "s3://typed/artifacts", "typed"),
    ]


def test_a_configured_server_is_used_even_in_a_project(project: Path, tmp_path: Path) -> None:
    """However the server is named, the disk of its workers is unknown."""
    named = [{name: "t"} for name in ("TEMPORAL_ADDRESS", "TEMPORAL_PROFILE", "TEMPORAL_CONFIG_FILE")]
    located = [locate(tmp_path, project, address="t:7233"), *(locate(tmp_path, project, each) for each in named)]

    assert [each.configured_by for each in located] == ["--address", *(name for each in named for name in each)]
    assert {(each.is_embedded, each.artifacts, each.storage) for each in located} == {(False, None, None)}


def test_an_address_in_temporals_default_profile_selects_the_server(project: Path, tmp_path: Path) -> None:
    file = tmp_path / "config" / "temporalio" / "temporal.toml"
    file.parent.mkdir(parents=True)
    found: list[str] = []
    for content in (
        '[profile.other]\naddress = "t:7233"\n',
        '[profile.default]\naddress = "t:7233"\n',
        "a = " + "[" * 9_000,
    ):
        file.write_text(content)
        found.append(locate(tmp_path, project, {"XDG_CONFIG_HOME": str(tmp_path / "config")}).configured_by)

    file.unlink()
    os.mkfifo(file)
    found.append(locate(tmp_path, project, {"XDG_CONFIG_HOME": str(tmp_path / "config")}).configured_by)
    assert found == ["", str(file), "", ""]


def test_the_nearest_chargehand_folder_holds_the_state(project: Path, tmp_path: Path) -> None:
    """A project's `.chargehand` serves any folder in it; a standalone client uses the user's state directory."""
    here = tmp_path / "mine" / "crews"
    here.mkdir(parents=True)
    (tmp_path / "mine" / ".chargehand").mkdir()
    alone = locate(tmp_path, None, {"XDG_STATE_HOME": "/home/u/state"}, address="t:7233")

    assert locate(tmp_path, project, here=here).state == tmp_path / "mine" / ".chargehand"
    assert alone.state == Path("/home/u/state/chargehand")
    with pytest.raises(NoWorkerProgram, match=r"no worker to replay with: pip install 'chargehand\[worker\]'"):
        alone.require_worker("replay with")


def test_without_server_and_worker_the_error_says_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(NoWorkerProgram, match=r"set CHARGEHAND_WORKER .*--address HOST:PORT, TEMPORAL_ADDRESS"):
        locate(tmp_path)


@pytest.mark.parametrize("on_path", [True, False])
@pytest.mark.parametrize("called", ["chargehand", ".venv/bin/chargehand", "/elsewhere/bin/chargehand", "main.py"])
def test_messages_name_the_command_as_the_user_can_run_it(
    called: str, *, on_path: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "chargehand").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path) if on_path else os.devnull)
    here = Path.cwd() / called if called.startswith(".venv") else Path(called)
    monkeypatch.setattr("sys.argv", [str(here)])

    by_path = called.endswith("/chargehand") and not on_path
    assert program() == (called if by_path else "chargehand")


@pytest.mark.slow
def test_imports_load_no_slow_modules_that_they_do_not_need() -> None:
    cases: list[tuple[str, set[str]]] = [
        (
            "import chargehand.wire, chargehand.payloads.errors; from chargehand import ErrorType, NotReachable",
            {"temporalio", "pydantic"},
        ),
        ("from chargehand import Report", {"temporalio"}),
        # Until the command handles Ctrl-C, it loads hardly anything.
        ("import chargehand.command", {"typing", "importlib.metadata", "re", "chargehand.errors"}),
        (
            "import chargehand_cli.embedded.keeper, chargehand_cli.embedded.user",
            {"temporalio", "pydantic", "asyncio", "rich"},
        ),
        ("import chargehand_cli.live_session, chargehand.upload", {"jinja2", "boto3", "botocore", "google.cloud"}),
        (
            "from chargehand_cli.main import execute; execute(['run', '--help'])",
            {"temporalio", "chargehand.contracts", "rich", "starlette", "uvicorn", "jinja2"},
        ),
    ]
    for statement, slow in cases:
        program = f"import sys; {statement}; print(sorted({slow} & set(sys.modules)))"
        loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
        assert loaded.endswith("[]\n")


def test_saved_session_files_can_be_read_back(tmp_path: Path) -> None:
    """Report and trace are JSON, next to a page and Markdown, and only their owner can read them."""
    kept = keep(tmp_path, report(), trace())

    assert kept_report(tmp_path, "session-1") == report()
    assert Report.model_validate_json(kept.report.read_bytes()) == report()
    assert Trace.model_validate_json(kept.trace.read_bytes()) == trace()
    assert kept.page.read_text().startswith("<!doctype html>")
    assert kept.markdown.read_text().startswith("They are **tested**")
    assert kept.folder.stat().st_mode & 0o077 == 0


def test_no_session_id_escapes_the_sessions_folder(tmp_path: Path) -> None:
    for session_id in ("../../etc", "a/b", "..", ".", "a\0b", "ü" * 500):
        folder = SessionFiles(tmp_path, session_id).folder
        folder.mkdir(parents=True)
        assert folder.resolve().parent == tmp_path / "sessions"
