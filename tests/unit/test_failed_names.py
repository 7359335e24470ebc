"""What continuous integration knows of failed tests, however pytest ends."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DIES = """
import os

def test_passes():
    pass

def test_fails():
    raise AssertionError

def test_ends_pytest():
    os._exit(9)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "names"),
    [
        (DIES, "test_it.py::test_fails\n"),
        ("raise RuntimeError('not today')", "test_it.py (collection): E   RuntimeError: not today\n"),
    ],
    ids=["pytest dies later", "cannot be imported"],
)
def test_what_fails_is_named_at_once(tmp_path: Path, content: str, names: str) -> None:
    """A failed test is in the file as soon as it fails, and so is a file that cannot be collected, with the reason."""
    (tmp_path / "test_it.py").write_text(content, encoding="utf-8")
    file = tmp_path / "build" / "failed.txt"
    plugin = ["-p", "tests.failed_names", f"--failed-names={file}"]

    subprocess.run(
        [sys.executable, "-m", "pytest", *plugin, f"--rootdir={tmp_path}", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        check=False,
        timeout=60,
    )

    assert file.read_text(encoding="utf-8") == names
