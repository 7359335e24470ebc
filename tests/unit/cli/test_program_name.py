"""How the command names itself to people who are to type it."""

import os
from pathlib import Path

import pytest

from chargehand_cli.session_files import program


@pytest.mark.parametrize("on_path", [True, False])
@pytest.mark.parametrize("called", ["chargehand", ".venv/bin/chargehand", "/elsewhere/bin/chargehand", "main.py"])
def test_the_named_program_is_the_one_that_runs(
    called: str, *, on_path: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its name alone where a shell finds it, else by the path at which it was called, from here."""
    (tmp_path / "chargehand").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path) if on_path else os.devnull)
    here = Path.cwd() / called if called.startswith(".venv") else Path(called)
    monkeypatch.setattr("sys.argv", [str(here)])

    by_path = called.endswith("/chargehand") and not on_path
    assert program() == (called if by_path else "chargehand")
