"""What continuous integration knows of failed tests, however pytest ends."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DIES = """
import os
def test_passes(): pass
def test_fails(): raise AssertionError
def test_ends_pytest(): os._exit(9)
"""


@pytest.mark.slow
def test_failed_tests_are_named_at_once(tmp_path: Path) -> None:
    (tmp_path / "test_broken.py").write_text("raise RuntimeError('not today')", encoding="utf-8")
    (tmp_path / "test_it.py").write_text(DIES, encoding="utf-8")
    file = tmp_path / "build" / "failed.txt"
    options = ["-p", "tests.failed_names", f"--failed-names={file}", f"--rootdir={tmp_path}", "-p", "no:cacheprovider"]
    subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--continue-on-collection-errors", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        check=False,
        timeout=60,
    )

    assert file.read_text(encoding="utf-8").splitlines() == [
        "test_broken.py (collection): E   RuntimeError: not today",
        "test_it.py::test_fails",
    ]
