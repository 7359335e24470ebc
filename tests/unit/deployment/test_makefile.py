"""The Makefile: what its words pass to programs, and its messages on a machine that is not ready."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.parameters import first_fast

ROOT = Path(__file__).parents[3]
ECHO = f"""#!/bin/sh
exec '{sys.executable}' -c 'import json, sys; print(json.dumps(sys.argv[1:]))' "$@"
"""
PROJECT_FILES = (
    "Makefile", "bootstrap.sh", "uv.lock", "pyproject.toml", "client/pyproject.toml", "cli/pyproject.toml",
    "deploy/worker/pyproject.toml", "plugins/pyproject.toml", "examples/question.txt",
)  # fmt: skip
QUESTION = (ROOT / "examples" / "question.txt").read_text(encoding="utf-8").strip()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the project that counts as installed, and whose programs print what they were given."""
    folder = tmp_path / "a folder"
    for name in PROJECT_FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, folder / name)
    for name in ("chargehand", "python"):
        program = folder / ".venv" / "bin" / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(ECHO, encoding="utf-8")
        program.chmod(0o755)
    (folder / ".venv" / ".synced").write_text(f"{folder.resolve()}\n", encoding="utf-8")
    for group in ("dev", "docs", "local-llm", "browser", "agentdojo"):
        (folder / ".venv" / f".group-{group}").touch()
    return folder


def make(
    folder: Path, *arguments: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    # When make runs the tests, it passes on its own settings, which a person's shell would not have.
    clean = {key: value for key, value in os.environ.items() if key in {"PATH", "HOME", "LANG", "LC_ALL"}}
    return subprocess.run(
        ["make", *arguments],
        cwd=folder,
        env={**clean, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def given(result: subprocess.CompletedProcess[str]) -> list[str]:
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ((), ["--docs", "examples/harbour-ferries", "--", QUESTION]),
        (("GOAL=Why is the sky blue?",), ["--", "Why is the sky blue?"]),
        (("GOAL=what?", "DOCS=~/papers"), ["--docs", "/home/ada/papers", "--", "what?"]),
    ],
    ids=["the example", "a goal alone", "documents of the home folder, which some shells do not expand"],
)
def test_make_run_asks_its_goal_over_its_documents(project: Path, said: tuple[str, ...], asked: list[str]) -> None:
    """Without arguments it asks the example; the example's documents are never added to a user's own question."""
    assert given(make(project, "run", *said, environment={"HOME": "/home/ada"})) == ["run", *asked]


@pytest.mark.parametrize(("code", "ends"), [(3, 0), (1, 2), (4, 2)])
def test_make_run_succeeds_for_a_report_with_gaps(project: Path, code: int, ends: int) -> None:
    """The exit code is printed; make fails only if there is no report."""
    (project / ".venv" / "bin" / "chargehand").write_text(f"#!/bin/sh\nexit {code}\n", encoding="utf-8")
    result = make(project, "run")

    assert (result.returncode, f"exit code {code}" in result.stderr, "***" in result.stderr) == (ends, True, ends != 0)


GOALS = [
    "what does \"net 30\" mean, and 'why'?",
    "is $5 or $HOME or $(shell id) or ${PATH} or $$ dearer?",
    "`id`; rm -rf / & echo \\n # 100% *",
    "--help",
    "first line\nsecond line",
    "quanto è la penale? 違約金",
    "a = b, c := d, e += f",
]


@pytest.mark.parametrize("goal", first_fast(GOALS, 3))
@pytest.mark.parametrize("way", ["argument", "environment"])
def test_make_run_passes_any_goal_text_unchanged(project: Path, goal: str, way: str) -> None:
    result = (
        make(project, "run", f"GOAL={goal}", "DOCS=my $papers/2025")
        if way == "argument"
        else make(project, "run", environment={"GOAL": goal, "DOCS": "my $papers/2025"})
    )

    assert given(result) == ["run", "--docs", "my $papers/2025", "--", goal]


BROWSER = ["-m", "browser and not nightly", "-n", "2", "--dist", "loadfile", "tests/browser"]


@pytest.mark.parametrize(
    ("said", "chosen"),
    [("MODEL=local", ["-m", "local_llm"]), ("BROWSER=1", ["-n", "3", "--dist", "worksteal", *BROWSER])],
)
def test_make_test_runs_model_and_browser_tests_only_on_request(project: Path, said: str, chosen: list[str]) -> None:
    assert given(make(project, "test", said)) == ["-m", "pytest", "-q", *chosen]
    assert given(make(project, "test")) == ["-m", "pytest", "-q", "-n", "3", "--dist", "worksteal"]


def test_make_installs_only_missing_dependencies(project: Path) -> None:
    """`run` needs no development tools; other targets add them once and keep them."""

    def installs(*words: str) -> list[str]:
        return [line for line in make(project, "-n", *words).stdout.splitlines() if "bootstrap.sh" in line]

    assert [installs(word) for word in ("run", "test", "check", "bench")] == [[]] * 4
    (project / ".venv" / ".group-dev").unlink()
    assert (installs("run"), installs("test")) == ([], ["sh bootstrap.sh --group dev"])
    assert installs("run", "EXTRAS=charts s3") == ["sh bootstrap.sh --extra charts", "sh bootstrap.sh --extra s3"]


def test_make_uses_a_separate_environment_for_another_python_version(project: Path) -> None:
    """If PYTHON has the version of .venv, .venv itself is used."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    settings = project / ".venv" / "pyvenv.cfg"
    used: list[str] = []
    for installed in ("3.9.1", f"{version}.0"):
        settings.write_text(f"home = /usr/bin\nversion = {installed}\n", encoding="utf-8")
        used.append(make(project, "-n", "test", f"PYTHON={sys.executable}").stdout.splitlines()[-1].split()[0])

    assert used == [f".venv-{version}/bin/python", ".venv/bin/python"]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (("run", "DOCS=papers"), 'make run GOAL="…" DOCS=…'),
        (("test", "PYTHON=python3.99"), "PYTHON=python3.99 does not run"),
    ],
)
def test_unusable_make_arguments_are_refused_with_the_remedy(project: Path, said: tuple[str, ...], told: str) -> None:
    """Documents need a question, and a mistyped interpreter is never replaced by another."""
    result = make(project, *said)

    assert (result.returncode, told in result.stderr) == (2, True)


@pytest.mark.parametrize(
    ("python3", "remedies"),
    [
        (
            '[ "$1" = -V ] && echo Python 3.9.6\nexit 1',
            ("needs Python 3.11 or newer; python3 is Python 3.9.6.", "make PYTHON=/path/to/python3.13"),
        ),
        ('case "$2" in *ensurepip*) exit 1 ;; esac\nexit 0', ("sudo apt install python3-venv",)),
    ],
    ids=["too old", "without venv, as on Debian"],
)
def test_an_unsuitable_python_is_named_with_the_remedy(project: Path, python3: str, remedies: tuple[str, ...]) -> None:
    programs = fake_programs(project, python3=f"#!/bin/sh\n{python3}\n")
    shutil.rmtree(project / ".venv")
    result = make(project, "run", environment={"PATH": str(programs)})

    assert result.returncode != 0
    assert [remedy for remedy in remedies if remedy not in result.stderr] == []


def installed(project: Path, uv: str) -> dict[str, str]:
    """Make the project's environment look complete, with a stand-in for uv; return the variables to install with."""
    (project / ".venv" / "bin" / "activate").write_text(f"{project.resolve()}/.venv", encoding="utf-8")
    (project / ".venv" / "bin" / "uv").write_text(f"#!/bin/sh\n{uv}\n", encoding="utf-8")
    (project / ".venv" / "bin" / "uv").chmod(0o755)
    return {"PATH": os.environ["PATH"], "HOME": str(project)}


def test_concurrent_installations_wait_for_each_other(project: Path) -> None:
    with (project / ".venv.lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with subprocess.Popen(
            ["sh", "bootstrap.sh"], cwd=project, env=installed(project, ""), stderr=subprocess.PIPE, text=True
        ) as waiting:
            assert waiting.stderr is not None
            first = waiting.stderr.readline()
            still_waits = waiting.poll() is None
            fcntl.flock(lock, fcntl.LOCK_UN)
            rest = waiting.stderr.read()

    assert ("Waiting for another" in first, still_waits) == (True, True)
    assert ("Updating" in rest, waiting.returncode) == (True, 0)


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ("error: dns error: failed to lookup address", "The package index cannot be reached"),
        ("OSError: [Errno 28] No space left on device", "The disk is full."),
        ("error: Hash mismatch for `rich`", "not the one that uv.lock names"),
        ("error: a build failed", "The cause is above."),
    ],
)
def test_a_failed_installation_names_its_cause(project: Path, said: str, cause: str) -> None:
    uv = f"[ \"$1\" = --version ] || {{ echo '{said}' >&2; exit 1; }}"
    result = subprocess.run(
        ["sh", "bootstrap.sh"], cwd=project, env=installed(project, uv), capture_output=True, text=True, check=False
    )

    assert result.returncode != 0
    assert [text for text in (said, cause) if text not in result.stderr] == []
    assert ("index" in result.stderr) == ("dns" in said)


def fake_programs(project: Path, *, python3: str) -> Path:
    """Make a search path with the everyday programs and this `python3`, and no other Python."""
    programs = project.parent / "programs"
    programs.mkdir()
    for name in ("make", "sh", "cat", "grep", "awk", "rm"):
        found = shutil.which(name)
        assert found is not None
        (programs / name).symlink_to(found)
    (programs / "python3").write_text(python3, encoding="utf-8")
    (programs / "python3").chmod(0o755)
    return programs
