"""Where a command works: which server, worker and directories; and what is loaded before it is needed."""

import subprocess
import sys
from pathlib import Path

import pytest

from chargehand import NotReachable, Report, Trace
from chargehand_cli.location import LocationOptions, NoWorkerProgram, find_location
from chargehand_cli.session_files import SessionFiles, keep, kept_report
from tests.unit.cli.reports import report, trace

_FILE = "worker_main.py"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a worker program."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / _FILE).touch()
    return folder


def test_a_project_runs_an_embedded_server(project: Path, tmp_path: Path) -> None:
    """The program beside this command's virtual environment is the worker, on a state directory beside it."""
    location = find_location(LocationOptions(), {}, tmp_path, here=tmp_path, project=project)

    state = project / ".chargehand"
    assert location.is_embedded
    assert (location.state, location.artifacts, location.task_queue) == (state, str(state / "artifacts"), "chargehand")
    assert location.temporal == Path(sys.executable).parent / "temporal"
    assert location.worker
    assert location.worker.command == (sys.executable, str(project / _FILE))
    assert location.worker.directory == tmp_path
    assert location.worker.environment == {
        "CHARGEHAND_STATE_DIR": str(state),
        "CHARGEHAND_ARTIFACTS": str(state / "artifacts"),
        "CHARGEHAND_TASK_QUEUE": "chargehand",
        "CHARGEHAND_STORAGE": str(state / "payloads"),
    }


def test_another_worker_program_is_a_command_line(project: Path, tmp_path: Path) -> None:
    """CHARGEHAND_WORKER is split as a shell would, and needs no project."""
    environment = {"CHARGEHAND_WORKER": "python '/other place/worker_main.py' --fast"}

    located = [
        find_location(LocationOptions(), environment, tmp_path, here=tmp_path, project=each)
        for each in (project, tmp_path)
    ]

    commands = [each.worker.command for each in located if each.worker]
    assert commands == [("python", "/other place/worker_main.py", "--fast")] * 2
    with pytest.raises(NotReachable, match="CHARGEHAND_WORKER is not a command line"):
        find_location(LocationOptions(), {"CHARGEHAND_WORKER": "'"}, tmp_path, here=tmp_path, project=project)


def test_options_take_precedence_over_the_environment(project: Path, tmp_path: Path) -> None:
    """What is typed wins over what is set, which wins over the defaults."""
    environment = {
        "CHARGEHAND_STATE_DIR": "/set/state",
        "CHARGEHAND_ARTIFACTS": "/set/artifacts",
        "CHARGEHAND_TASK_QUEUE": "set",
    }
    options = LocationOptions(state=Path("/typed/state"), artifacts="s3://typed/artifacts", task_queue="typed")

    found = find_location(LocationOptions(), environment, tmp_path, here=tmp_path, project=project)
    typed = find_location(options, environment, tmp_path, here=tmp_path, project=project)

    assert (found.state, found.artifacts, found.task_queue) == (Path("/set/state"), "/set/artifacts", "set")
    assert (typed.state, typed.artifacts, typed.task_queue) == (Path("/typed/state"), "s3://typed/artifacts", "typed")


def test_a_configured_server_is_used(project: Path, tmp_path: Path) -> None:
    """However a server is named, it is used even in a project, and nothing is known of its workers' disk."""
    cases: list[tuple[str | None, dict[str, str], str]] = [
        ("t:7233", {}, "--address"),
        (None, {"TEMPORAL_ADDRESS": "t:7233"}, "TEMPORAL_ADDRESS"),
        (None, {"TEMPORAL_PROFILE": "cloud"}, "TEMPORAL_PROFILE"),
        (None, {"TEMPORAL_CONFIG_FILE": "/t.toml"}, "TEMPORAL_CONFIG_FILE"),
    ]
    for address, environment, configured_by in cases:
        location = find_location(
            LocationOptions(address=address), environment, tmp_path, here=tmp_path, project=project
        )
        assert (location.is_embedded, location.configured_by) == (False, configured_by)
        assert (location.artifacts, location.storage) == (None, None)


def test_temporals_default_profile_names_a_server(project: Path, tmp_path: Path) -> None:
    """The settings file that Temporal's CLI writes counts if its default profile has an address."""
    file = tmp_path / "config" / "temporalio" / "temporal.toml"
    file.parent.mkdir(parents=True)
    environment = {"XDG_CONFIG_HOME": str(tmp_path / "config")}

    found: list[str] = []
    for content in ('[profile.other]\naddress = "t:7233"\n', '[profile.default]\naddress = "t:7233"\n', "not toml"):
        file.write_text(content)
        found.append(
            find_location(LocationOptions(), environment, tmp_path, here=tmp_path, project=project).configured_by
        )

    assert found == ["", str(file), ""]


def test_an_installed_worker_is_run_by_its_package(tmp_path: Path) -> None:
    """No file of the working directory can take the place of a module of the worker's."""
    location = find_location(LocationOptions(), {}, tmp_path, here=tmp_path, project=tmp_path, has_package=True)

    assert location.worker
    assert location.worker.command == (sys.executable, "-P", "-m", "chargehand_worker")
    assert location.worker.directory == tmp_path


def test_the_state_is_in_the_nearest_folder_for_it(project: Path, tmp_path: Path) -> None:
    """A project that has a `.chargehand` has a server and sessions of its own, from any folder within."""
    here = tmp_path / "mine" / "crews"
    here.mkdir(parents=True)
    (tmp_path / "mine" / ".chargehand").mkdir()

    location = find_location(LocationOptions(), {}, tmp_path, here=here, project=project)

    assert location.state == tmp_path / "mine" / ".chargehand"


def test_without_a_project_the_state_is_where_the_user_keeps_state(tmp_path: Path) -> None:
    """A client that is installed on its own keeps reports in the user's state directory."""
    environment = {"XDG_STATE_HOME": "/home/u/state"}
    options = LocationOptions(address="t:7233")

    location = find_location(options, environment, tmp_path, here=tmp_path, project=tmp_path, has_package=False)

    assert location.state == Path("/home/u/state/chargehand")
    with pytest.raises(NoWorkerProgram, match=r"no worker to replay with: pip install 'chargehand\[worker\]'"):
        location.require_worker("replay with")


def test_neither_a_server_nor_a_worker_says_what_to_do(tmp_path: Path) -> None:
    """The message names the setting of the worker and the ways to name a server."""
    with pytest.raises(NoWorkerProgram, match=r"set CHARGEHAND_WORKER .*--address HOST:PORT, TEMPORAL_ADDRESS"):
        find_location(LocationOptions(), {}, tmp_path, here=tmp_path, project=tmp_path, has_package=False)


@pytest.mark.slow
def test_nothing_slow_is_loaded() -> None:
    """The keeper and its user need the standard library only, following no pages, uploads no bucket's library,
    and help no contracts."""
    cases = [
        ("import chargehand_cli.embedded.keeper", {"temporalio", "pydantic", "asyncio", "rich"}),
        ("import chargehand_cli.embedded.user", {"temporalio", "pydantic", "asyncio", "rich"}),
        ("import chargehand_cli.live_session", {"jinja2"}),
        ("import chargehand.upload", {"boto3", "botocore", "google.cloud"}),
        (
            "from chargehand_cli.main import execute; execute(['run', '--help'])",
            {"temporalio", "chargehand.contracts", "rich", "starlette", "uvicorn", "jinja2"},
        ),
    ]
    for statement, slow in cases:
        program = f"import sys; {statement}; print(sorted({slow} & set(sys.modules)))"
        loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
        assert loaded.endswith("[]\n")


def test_what_is_kept_is_read_back(tmp_path: Path) -> None:
    """Report and trace survive as JSON, beside a page and Markdown, for their owner only."""
    kept = keep(tmp_path, report(), trace())

    assert kept_report(tmp_path, "session-1") == report()
    assert Report.model_validate_json(kept.report.read_bytes()) == report()
    assert Trace.model_validate_json(kept.trace.read_bytes()) == trace()
    assert kept.page.read_text().startswith("<!doctype html>")
    assert kept.markdown.read_text().startswith("They are **tested**")
    assert kept.folder.stat().st_mode & 0o077 == 0


def test_no_id_leads_out_of_the_folder(tmp_path: Path) -> None:
    """Whatever a session is called, its files can be made and lie one level below the sessions' folder."""
    for session_id in ("../../etc", "a/b", "..", ".", "a\0b", "ü" * 500):
        folder = SessionFiles(tmp_path, session_id).folder
        folder.mkdir(parents=True)
        assert folder.resolve().parent == tmp_path / "sessions"
