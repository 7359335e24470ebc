"""The small projects of `examples/projects`: their own tests, run in a copy of each project."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

_PROJECTS = Path(__file__).parents[2] / "examples" / "projects"


@pytest.mark.slow
def test_projects_pass_their_own_tests() -> None:
    """Their programs are found on the PATH of the current environment, as in an activated one."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, _PROJECTS]
    environment = os.environ | {"PATH": path}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)

    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_each_project_is_listed_and_tested() -> None:
    """The README has a row for each project, and each project has test files."""
    page = (_PROJECTS / "README.md").read_text(encoding="utf-8")
    projects = [path for path in _PROJECTS.iterdir() if path.is_dir()]

    assert [path.name for path in projects if f"({path.name}/README.md)" not in page] == []
    assert [path.name for path in projects if not [*path.glob("test_*.py")]] == []
