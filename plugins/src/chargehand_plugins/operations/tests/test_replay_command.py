"""The commands `replay` and `crew`: sessions replayed on a checkout's workflows, and starter crews."""

import json
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from temporalio.client import Client

from activities.contracts.tool import READS_DOCUMENTS
from activities.crews.files import crew_warnings, load_crew
from chargehand.contracts import SessionRequest
from chargehand.converter import data_converter
from chargehand.payloads.encryption import Encryption
from chargehand_cli.main import execute
from chargehand_plugins.operations.replayer import Replayed, replay
from tests.acceptance.commands import Commands
from tests.environment import open_environment
from tests.scripted_model import Script, topics

_ROOT = Path(__file__).resolve().parents[5]
_KEYS = json.dumps({"k1": "A" * 43 + "="})


async def _session(client: Client, folder: Path) -> str:
    async with open_environment(client, folder, Script().plan(*topics(2))) as environment:
        session = await environment.chargehand.start(SessionRequest(goal="What do the two topics come to?"))
        await session.result()
        return session.id


@pytest.fixture(scope="module")
async def session(client: Client, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A session that has ended, with two subtasks."""
    return await _session(client, tmp_path_factory.mktemp("session"))


def _changed_worker(folder: Path) -> str:
    """Make a worker program whose workflows give their first activity a different id."""
    for part in ("worker", "workflows", "activities", "crews"):
        shutil.copytree(_ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(_ROOT / "worker_main.py", folder)
    changed = folder / "workflows" / "steps" / "open.py"
    text = changed.read_text()
    assert text.count('activity_id="open-at-once"') == 1
    changed.write_text(text.replace('activity_id="open-at-once"', 'activity_id="open-the-session"'))
    return shlex.join([sys.executable, str(folder / "worker_main.py")])


@pytest.mark.slow
async def test_a_session_and_its_subtasks_replay(client: Client, session: str, tmp_path: Path) -> None:
    """Each workflow replays from the server and from a saved file that only its owner can read."""
    kept = tmp_path / "kept.json.gz"
    fetched = await Commands(client)("replay", session, "--json", "--save", kept)
    from_file = await Commands(client)("replay", "--json", "--file", kept)

    assert (fetched.code, from_file.code) == (0, 0), fetched.said + from_file.said
    results = json.loads(fetched.out)
    kinds = ("Supervisor", "Subtask", "Subtask")
    assert [(each["type"], each["problem"]) for each in results] == [(kind, "") for kind in kinds]
    assert results[0]["id"] == session
    assert all(re.fullmatch(rf"{session}/[0-9a-f]{{12}}/reader/[0-9a-f]{{16}}", each["id"]) for each in results[1:])
    assert json.loads(from_file.out) == results
    assert kept.stat().st_mode & 0o077 == 0


@pytest.mark.slow
async def test_replay_reports_workflows_that_would_decide_differently(
    client: Client, session: str, tmp_path: Path
) -> None:
    """The exit code is 1 and the difference is named, for the one history that differs and no other."""
    ran = await Commands(client, CHARGEHAND_WORKER=_changed_worker(tmp_path / "changed"))("replay", session)

    lines = ran.out.splitlines()
    assert ran.code == 1
    assert [line[0] for line in lines if line[0] in "✔✘"] == ["✘", "✔", "✔"]
    assert "open-the-session" in lines[1]
    assert "1 of 3 histories differ" in ran.said


async def test_replaying_an_unknown_session_names_it(client: Client) -> None:
    """The exit code is 2, as for every command."""
    ran = await Commands(client)("replay", "no-such-session")

    assert (ran.code, "There is no session or conversation 'no-such-session'" in ran.said) == (2, True)


async def test_a_history_exported_by_temporal_replays(client: Client, session: str, tmp_path: Path) -> None:
    """A single history in the JSON of Temporal's command contains its own workflow id."""
    shown = tmp_path / "shown.json"
    history = await client.get_workflow_handle(session).fetch_history()
    shown.write_text(history.to_json())

    replayed = [each async for each in replay(shown, data_converter())]
    assert replayed == [Replayed(session, "Supervisor", len(history.events))]


@pytest.mark.nightly
async def test_encrypted_sessions_replay_with_their_keys_only(client: Client, tmp_path: Path) -> None:
    """Histories are read with the workers' settings; without the keys, none is reported as fine."""
    protected = data_converter(Encryption.from_text(_KEYS, "k1"))
    encrypted = await _session(Client(client.service_client, data_converter=protected), tmp_path)
    keys = {"CHARGEHAND_ENCRYPTION_KEYS": _KEYS, "CHARGEHAND_ENCRYPTION_KEY_ID": "k1"}

    with_keys = await Commands(client, **keys)("replay", encrypted)
    without = await Commands(client)("replay", encrypted)

    assert with_keys.code == 0, with_keys.said
    assert without.code == 1
    assert "✔" not in without.out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [(("--file", "/nonexistent/histories.json"), "cannot be read"), (("one", "--last", "3"), "are mutually exclusive")],
)
def test_unusable_replay_input_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    """An unreadable file or conflicting options exit with 2 and are named."""
    assert execute(["replay", *arguments, "--address", "127.0.0.1:1"]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_crew_new_writes_a_valid_crew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A worker accepts the crew of that name without a warning, and nothing is overwritten."""
    assert execute(["crew", "new", "own", "--folder", str(tmp_path)]) == 0
    assert execute(["crew", "new", "own", "--folder", str(tmp_path)]) == 2
    assert execute(["crew", "new", "../own"]) == 2

    crew = load_crew(tmp_path / "own.toml", dict.fromkeys(("search_documents", "read_document"), READS_DOCUMENTS))
    assert crew.name == "own"
    assert crew_warnings(crew) == []
    assert "own.toml exists already" in capsys.readouterr().err


def test_a_crew_check_may_exceed_the_pipe_buffer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The worker writes a crew with all of its prompts as one line."""
    (worker := tmp_path / "worker.py").write_text(
        """print('{"file": "own.toml", "problem": "", "warnings": [], "crew": {"prompt": "' + "x" * 2**20 + '"}}')"""
    )
    (crew := tmp_path / "own.toml").touch()
    monkeypatch.setenv("CHARGEHAND_WORKER", f"{sys.executable} {worker}")

    assert execute(["crew", "check", str(crew)]) == 0
    assert "✔ own.toml" in capsys.readouterr().out
