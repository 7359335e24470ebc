"""The verbs `crew new` and `crew check`."""

import sys
from pathlib import Path

import pytest

from activities.contracts.tool import READS_DOCUMENTS
from activities.crews.checks import crew_warnings
from activities.crews.files import load_crew
from chargehand_cli.main import execute


def test_the_crew_to_start_from_is_valid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`crew new` writes a crew of that name that a worker accepts without a warning, and overwrites nothing."""
    assert execute(["crew", "new", "own", "--folder", str(tmp_path)]) == 0
    assert execute(["crew", "new", "own", "--folder", str(tmp_path)]) == 2
    assert execute(["crew", "new", "../own"]) == 2

    crew = load_crew(tmp_path / "own.toml", dict.fromkeys(("search_documents", "read_document"), READS_DOCUMENTS))
    assert crew.name == "own"
    assert crew_warnings(crew) == []
    assert "own.toml exists already" in capsys.readouterr().err


def test_a_check_may_be_longer_than_a_pipes_buffer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A worker writes a crew with all of its prompts as one line."""
    (worker := tmp_path / "worker.py").write_text(
        """print('{"file": "own.toml", "problem": "", "warnings": [], "crew": {"prompt": "' + "x" * 2**20 + '"}}')"""
    )
    (crew := tmp_path / "own.toml").touch()
    monkeypatch.setenv("CHARGEHAND_WORKER", f"{sys.executable} {worker}")

    assert execute(["crew", "check", str(crew)]) == 0
    assert "✔ own.toml" in capsys.readouterr().out
